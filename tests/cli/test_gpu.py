"""`planish gpu` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planish.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["gpu", *words])
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["gpu", *words])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("planish: error:") and said.count("\n") == 1
    return said


_PRODUCT = ("compile", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--no-build")


def test_lowering_needs_no_triton(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, *_PRODUCT, "--source", "--rank", "2", "--json"))
    assert found["kernels"][0]["form"] == "contraction"
    assert "tl.dot" in found["source"]
    assert len(found["ranking"]["out"]) == 2


def test_tiles_are_kept_and_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lock = ("--lock", str(tmp_path / "planish.lock"))
    tiles = ("--tiles", "out: m=32 n=16 k=16 warps=2")
    first = json.loads(run(capsys, *_PRODUCT, *tiles, *lock, "--json"))
    again = json.loads(run(capsys, *_PRODUCT, *lock, "--replay", "--json"))
    assert first["kernels"] == again["kernels"]
    assert "m=32 n=16 k=16 warps=2" in again["recipe"]


def test_a_program_may_come_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        "import planish as pl\nm, n = pl.axes('m n')\n"
        "def twice():\n    return pl.define('Y', [m, n], pl.tensor('X', (5, 7))[m, n] * 2.0)\n"
    )
    assert "Y_kernel: tile" in run(capsys, "compile", f"{path}:twice", "--no-build")
    assert "twic" in refused(capsys, "compile", f"{path}:twic", "--no-build")
    assert "no tensors" in refused(capsys, "compile", f"{path}:m", "--no-build")


@pytest.mark.parametrize(
    "words",
    [
        ("compile", "mk,kn->mn"),
        ("compile", "mk,kn->mn", "--shape", "m=1"),
        (*_PRODUCT, "--target", "sm_20"),
        (*_PRODUCT, "--tiles", "out: m=33"),
        (*_PRODUCT, "--tiles", "other: m=32"),
        (*_PRODUCT, "--precision", "f20"),
        (*_PRODUCT, "--replay"),
        ("compile", "absent.py:x"),
        ("compile", "absent.py"),
        ("inspect", "absent.cubin"),
        ("diff", "absent.cubin", "absent.cubin"),
        ("tune", "mk,kn->mn"),
        ("tune", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--count", "0"),
        ("tune", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--target", "sm_20"),
        ("tune", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--lock", "/proc/x/planish.lock"),
        ("tune", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--jobs", "0"),
        ("bench", "--rounds", "1"),
        ("bench",),
        ("nothing",),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    if words == ("bench",):
        torch = pytest.importorskip("torch") if _has("torch") else None
        if torch is not None and torch.cuda.is_available():
            pytest.skip("there is a GPU")
    refused(capsys, *words)


def _has(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None
