"""`planish verify`: exit codes, JSON, and one line for bad input."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import planish
from planish.base.records import Grade

BEFORE = """define i32 @f(i32 noundef %x) {
  %a = mul i32 %x, 4
  ret i32 %a
}
define i32 @g(i32 noundef %x) {
  %a = add i32 %x, 1
  ret i32 %a
}
"""
RIGHT = BEFORE.replace("mul i32 %x, 4", "shl i32 %x, 2")
WRONG = RIGHT.replace("add i32 %x, 1", "add i32 %x, 2")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "planish.cli.main", "verify", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def _files(folder: Path, after: str) -> tuple[str, str]:
    paths = folder / "before.ll", folder / "after.ll"
    for path, text in zip(paths, (BEFORE, after), strict=True):
        path.write_text(text)
    return str(paths[0]), str(paths[1])


def test_proved_is_0_and_comes_from_the_store_the_second_time(tmp_path: Path) -> None:
    files = _files(tmp_path, RIGHT)
    first = _run(*files, "--json")
    again = _run(*files, "--json")
    assert first.returncode == again.returncode == 0, first.stderr
    grades = [row["verdict"]["grade"] for row in json.loads(first.stdout)["functions"]]
    assert grades == ["proved", "proved"]
    assert json.loads(again.stdout)["cached"] == 2
    assert json.loads(again.stdout)["functions"] == json.loads(first.stdout)["functions"]


def test_refuted_is_1_and_shows_the_input(tmp_path: Path) -> None:
    done = _run(*_files(tmp_path, WRONG), "--no-store")
    assert done.returncode == 1
    assert "confirmed by running both" in done.stdout
    assert "1 proved" in done.stdout and "1 refuted" in done.stdout


def test_a_saved_refutation_replays(tmp_path: Path) -> None:
    _run(*_files(tmp_path, WRONG), "--no-store", "--save", str(tmp_path / "case"))
    script = (tmp_path / "case" / "replay.sh").read_text()
    assert "confirmed by running both" in script
    words = shlex.split(script.splitlines()[-1].partition("&& planish verify ")[2])
    again = _run(*(str(tmp_path / "case" / w) if w.endswith(".ll") else w for w in words))
    assert again.returncode == 1, again.stderr


def test_bad_input_is_one_line_and_2(tmp_path: Path) -> None:
    before, after = _files(tmp_path, RIGHT)
    Path(after).write_text("define nonsense")
    for words in ((before, after), (before, "absent.ll"), (before, before, "-f", "h"),
                  (before, before, "--seconds", "0"), (before, before, "--reassociate"),
                  (before, before, "--passes", "sroa"), ("--loops", before, before)):  # fmt: skip
        done = _run(*words)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "Traceback" not in done.stderr


def test_the_face_gives_the_same(tmp_path: Path) -> None:
    before, after = _files(tmp_path, WRONG)
    report = planish.verify(before, after, jobs=1, store=False)
    assert [one.function for one in report.refuted] == ["g"]
    assert report.verdict.grade is Grade.REFUTED


def test_without_proof_the_code_is_run(tmp_path: Path) -> None:
    source = tmp_path / "sum.c"
    body = "int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s;"
    source.write_text(f"int sum(const int *a, int n)\n{{ {body} }}\n")
    other = tmp_path / "other.c"
    other.write_text(source.read_text().replace("s += a[i]", "s = a[i] + s"))
    report = planish.verify(source, other, seconds=0.001, jobs=1, store=False)
    assert report.functions[0].grade in (Grade.TESTED, Grade.PROVED_TO_BOUND)


def test_passes_stand_in_for_the_second_file(tmp_path: Path) -> None:
    before, after = _files(tmp_path, RIGHT)
    done = _run(before, "--passes", "function(instcombine<no-verify-fixpoint>)", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "proved"
    for words in ((before,), (before, after, "--passes", "verify"), (before, "--passes", "nopass")):
        done = _run(*words)
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
