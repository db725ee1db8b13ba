"""The command line: what it writes, what it says, and what it does with mistakes."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from planish.cli.main import main
from planish.llvm.toolchain import Toolchain
from planish.measure.sizes import allocated_bytes

GOOD = "int f(const char *s) { int n = 0; while (*s) n = n * 31 + *s++; return n; }\n"
LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
OTHER = "int g(int a, int b) { return a > b ? a * 3 : b * 5; }\n"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.c").write_text(GOOD)


def run(*words: str) -> int:
    try:
        main(words)
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def quick(*words: str) -> int:
    return run("opt", "--budget", "2", "--no-store", *words)


def test_an_object_and_a_lockfile_are_written_and_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quick("good.c") == 0
    out = capsys.readouterr().out
    assert "allocated bytes" in out
    assert "wrote good.o, planish.lock" in out
    first = Path("good.o").read_bytes()
    lock = Path("planish.lock").read_text()
    Path("good.o").unlink()
    assert run("opt", "good.c", "--replay") == 0
    assert "as in the lockfile" in capsys.readouterr().out
    assert Path("good.o").read_bytes() == first
    assert Path("planish.lock").read_text() == lock
    assert run("opt", "good.c", "--locked") == 0


def test_a_changed_source_is_stale_and_locked_refuses_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quick("good.c") == 0
    Path("good.c").write_text(GOOD.replace("31", "33"))
    assert run("opt", "good.c", "--replay") == 0
    assert "stale" in capsys.readouterr().out
    assert run("opt", "good.c", "--locked") == 2
    assert "stale" in capsys.readouterr().err


def test_json_holds_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert quick("good.c", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    [result] = document["results"]
    assert result["best"] == allocated_bytes(Path("good.o").read_bytes())
    assert result["best"] <= result["baseline"]
    assert {"passes", "options", "functions"} <= set(result["recipe"])
    assert result["ledger"]["builds"] <= 2
    assert document["wrote"] == ["good.o", "planish.lock"]


def test_a_folder_of_sources(capsys: pytest.CaptureFixture[str]) -> None:
    Path("src/inner").mkdir(parents=True)
    Path("src/a.c").write_text(GOOD)
    Path("src/inner/a.c").write_text(OTHER)
    Path("src/notes.txt").write_text("no source")
    assert quick("src", "-o", "out") == 0
    assert Path("out/a.o").exists()
    assert Path("out/inner/a.o").exists()
    assert "all" in capsys.readouterr().out
    assert Path("planish.lock").read_text().count("[[task]]") == 2


@pytest.mark.parametrize("emit", ["bc", "ll", "asm"])
def test_other_outputs(emit: str) -> None:
    assert quick("good.c", "--emit", emit) == 0
    data = Path({"bc": "good.bc", "ll": "good.ll", "asm": "good.s"}[emit]).read_bytes()
    assert {"bc": b"BC", "ll": b"define", "asm": b".globl"}[emit] in data


def test_flags_stand_behind_two_dashes() -> None:
    Path("good.c").write_text(GOOD.replace("31", "FACTOR"))
    assert quick("good.c", "--cflags", "-DUNUSED=1", "--", "-DFACTOR=7") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--goal", "sise"], "did you mean size"),
        (["--policy", "gnetic"], "did you mean genetic"),
        (["--target", "aarch46-linux-gnu"], "did you mean aarch64"),
        (["--emit", "objj"], "obj"),
        (["--baseline", "O9"], "unknown baseline"),
        (["--budget", "soon"], "cannot read the budget"),
        (["--budget", "0"], "budget is zero"),
        (["--cflags", "'"], "--cflags"),
        (["--frobnicate"], "No such option"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("opt", "good.c", *words) == 2
    captured = capsys.readouterr()
    assert len(captured.err.strip().splitlines()) == 1
    assert said in captured.err
    assert not Path("good.o").exists()
    assert not Path("planish.lock").exists()


def test_the_compilers_own_words_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    Path("bad.c").write_text("int f( { return 1; }\n")
    assert quick("bad.c", "good.c") == 2
    err = capfd.readouterr().err
    assert "expected parameter declarator" in err
    assert "bad.c does not compile" in err.strip().splitlines()[-1]
    assert Path("good.o").exists(), "the other source is built all the same"


@pytest.mark.parametrize(
    ("lock", "said"),
    [("version = 99\n", "knows up to"), ("version = [", "no valid TOML"), ("\0", "TOML")],
)
def test_a_damaged_or_newer_lockfile_stops_before_the_search(
    lock: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("planish.lock").write_text(lock)
    assert quick("good.c") == 2
    assert said in capsys.readouterr().err
    assert Path("planish.lock").read_text() == lock
    assert not Path("good.o").exists()


def test_a_place_that_cannot_be_written_is_found_before_the_search(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quick("good.c", "-o", "/proc/nowhere/x.o") == 2
    assert "cannot write" in capsys.readouterr().err


def test_outputs_that_would_collide_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one").mkdir()
    Path("one/good.c").write_text(OTHER)
    assert quick("good.c", "one/good.c") == 2
    assert "would both be written to" in capsys.readouterr().err
    Path("file").write_text("")
    assert quick("good.c", "one/good.c", "-o", "file") == 2
    assert quick("good.c", "-o", "good.c") == 2
    assert Path("good.c").read_text() == GOOD
    assert quick("nowhere.c") == 2


def test_missing_toolchains_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANISH_LLVM", "nowhere.so")
    assert run("doctor") == 2
    assert "PLANISH_LLVM" in capsys.readouterr().err


def test_the_users_test_judges_the_object_at_its_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert quick(str(LZSS), "--test", "test -s {} && echo {} >> seen") == 0
    assert set(Path("seen").read_text().split()) == {"lzss.o"}
    assert "the given test passes" in capsys.readouterr().out
    assert quick("good.c", "--test", "false") == 2
    assert "fails on the baseline" in capsys.readouterr().err


def test_plain_tools_replay_what_is_printed(
    toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quick(str(LZSS), "--no-functions", "--print-clang-flags") == 0
    size = allocated_bytes(Path("lzss.o").read_bytes())
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.startswith(("clang ", "opt "))]
    assert len(commands) == 3
    front_end = toolchain.need_front_end()
    # The bundled clang has to be told where its headers are; another one knows.
    clang = shlex.join([*front_end.command, *front_end.headers("")])
    opt = toolchain.library.parent.parent / "bin" / "opt"
    for command in commands:
        real = command.replace("clang ", f"{clang} ", 1).replace("opt ", f"{opt} ", 1)
        subprocess.run(shlex.split(real), check=True, capture_output=True)
    assert allocated_bytes(Path("lzss.o").read_bytes()) == size


@pytest.mark.parametrize(
    "words", [["--help"], ["opt", "--help"], ["doctor", "--help"], ["learn", "coreset", "--help"],
              ["corpus", "build", "--help"], ["--version"]],
)  # fmt: skip
def test_help_teaches(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert capsys.readouterr().out.strip()


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "X86" in found["targets"]
    assert found["problems"] == []
