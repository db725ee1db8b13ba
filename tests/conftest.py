"""Fixtures that several folders share: the toolchain, a sample program, a pool of builders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.llvm.frontend import compile_to_bitcode
from planish.llvm.requests import HANDLER
from planish.llvm.toolchain import FrontEnd, Toolchain, find_toolchain
from planish.proc.pool import Pool

SAMPLE_BLOB = "sample"
_NOBODY = 65534


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the developer's own store, or leaves a server behind."""
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PLANISH_SERVER", "off")


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return find_toolchain()


@pytest.fixture(scope="session")
def front_end(toolchain: Toolchain) -> FrontEnd:
    return toolchain.need_front_end()


@pytest.fixture(scope="session")
def sample_source() -> Path:
    return Path(__file__).parent / "data" / "sample.c"


@pytest.fixture(scope="session")
def sample_bitcode(front_end: FrontEnd, sample_source: Path) -> bytes:
    return compile_to_bitcode(front_end, sample_source, ())


@pytest.fixture(scope="session")
def builder_pool(toolchain: Toolchain, sample_bitcode: bytes) -> Iterator[Pool]:
    """Workers that build recipes; the sample's bitcode is kept under `SAMPLE_BLOB`."""
    with Pool(HANDLER, str(toolchain.library), jobs=2, seconds=60) as pool:
        pool.keep(SAMPLE_BLOB, sample_bitcode)
        yield pool


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of real profiler files that PLANISH_TRACES names."""
    folder = os.environ.get("PLANISH_TRACES")
    if not folder:
        pytest.skip("PLANISH_TRACES names no folder of real traces")
    return Path(folder)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that this process cannot write to, be it run by root or not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "read-only"
        folder.mkdir()
        Path(name).chmod(0o755)
        folder.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.seteuid(_NOBODY)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)
            folder.chmod(0o755)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files from what comes out"
    )
