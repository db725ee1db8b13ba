"""`planish compile` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planish.cli.main import main
from planish.measure.machine import processor

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")

_MATMUL = ["compile", "mk,kn->mn", "--shape", "m=40,k=50,n=60"]


def test_it_prints_loops_schedule_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    main(_MATMUL)
    shown = capsys.readouterr().out
    assert "do out" in shown and "tile out" in shown
    assert "GFLOP/s" in shown and "numpy.einsum" in shown


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    main([*_MATMUL, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["ledger"]["path"].startswith("x86")
    assert found["speed"]["gflops"] > 0 and found["numpy_over_planish"]["median"] > 0


def test_every_step_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    main([*_MATMUL, "--explain", "--no-run"])
    shown = capsys.readouterr().out
    assert "# the plain nest" in shown and "# tile out" in shown


def test_object_and_header_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, header = tmp_path / "gemm.o", tmp_path / "gemm.h"
    main([*_MATMUL, "--no-run", "-o", str(target), "--header", str(header)])
    assert target.read_bytes()[:4] == b"\x7fELF"
    assert "void gemm(const float *A, const float *B, float *out);" in header.read_text()
    assert "wrote" in capsys.readouterr().out


def test_code_for_other_machines_says_what_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*_MATMUL, "--target", "aarch64", "-o", str(tmp_path / "gemm.o")])
    assert "compiled  llvm aarch64, generated in" in capsys.readouterr().out


def test_a_schedule_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = tmp_path / "steps.txt"
    steps.write_text("reorder out m k n\nvectorise out n\n")
    main([*_MATMUL, "--schedule", str(steps), "--no-run"])
    assert "for n vector" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mk,kn->mq", "--shape", "m=4,k=4,n=4"], "keeps the axis 'q'"),
        (["mk,kn->mn", "--shape", "m=4,k=4"], "'n' has no extent"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=x"], "cannot read the length"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4,q=4"], "'q'"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--type", "f31"], "f31"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--target", "aarch64"], "give -o"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--semiring", "min"], "min-plus"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--target", "avx"], "avx2"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--schedule", "absent.txt"], "absent.txt"),
        (["mk,kn->mn", "--shape", "m=4,k=4,n=4", "--header", "x.h", "--no-run"], "-o kernel.o"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compile", *arguments])
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert words in shown and shown.count("\n") == 1
