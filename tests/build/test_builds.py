"""Recorded, tuned, replayed: a small build from end to end, and what a bad one does."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import ziglang

from planish.base.errors import PlanishError
from planish.build import units
from planish.build.record import record
from planish.build.tuning import keep_what_passes
from planish.cli.main import main
from planish.store import lockfile

_ZIG = str(Path(ziglang.__file__).parent / "zig")
_CC = [sys.executable, "-m", "planish.entry", "cc"]
_SOURCE = """
#include "k.h"
static int helper(int x) { int s = 0; for (int i = 0; i < x * K; i++) s += i % 7; return s; }
int util(int x) { return helper(x) + helper(x + 1) + helper(x * 2); }
int table[1000] = {1};
const char *where(void) { return __FILE__; }
int other(int x) { switch (x) { case 1: return util(3); case 2: return 9; default: return x / 3; } }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "k.h").write_text("#define K 3\n")
    (tmp_path / "util.c").write_text(_SOURCE)
    (tmp_path / "broken.c").write_text("int x = ;\n")
    monkeypatch.setenv("PLANISH_CC", f"{shlex.quote(_ZIG)} cc --target=x86_64-linux-musl")
    monkeypatch.setenv("PLANISH_CXX", f"{shlex.quote(_ZIG)} c++ --target=x86_64-linux-musl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _compile(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [*_CC, *words], cwd=folder, env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


def test_a_build_is_recorded_tuned_and_replayed(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, found = record(["sh", "-c", "$CC -Os -Iinc -MMD -c util.c -o util.o"], project)
    assert code == 0 and [u.source for u in found.units] == ["util.c"]
    assert 0 < found.units[0].code <= found.units[0].own - 4000  # the table does not count
    assert found.units[0].flags == ("-Os", "-Iinc", "-MMD")
    main(["tune", "--budget", "8"])
    assert "units: the build's own" in capfd.readouterr().out
    entry = lockfile.load(project / "planish.lock").entries[0]
    for at, words in enumerate((["-Os", "-Iinc"], ["-Os", "-Iinc", "-MMD", "-MF", "u.d"])):
        done = _compile(project, *words, "-c", "util.c", "-o", f"{at}.o", PLANISH_VERBOSE="1")
        assert done.returncode == 0 and "replayed" in done.stderr, done.stderr
    first, second = ((project / f"{at}.o").read_bytes() for at in (0, 1))
    assert first == second, "two replays give the same bytes"
    assert (project / "u.d").exists()
    from planish.measure.sizes import measure_object

    assert sum(measure_object(first).sections.values()) == entry.result < found.units[0].own


def test_a_replayed_unit_shows_the_compilers_warnings_once(project: Path) -> None:
    (project / "warns.c").write_text(_SOURCE + "int w(void) { int unused; return util(4); }\n")
    words = ["-Os", "-Iinc", "-Wall", "-c", "warns.c"]
    record([*_CC, *words], project)
    main(["tune", "--budget", "8"])
    done = _compile(project, *words, PLANISH_VERBOSE="1")
    assert done.returncode == 0 and "replayed" in done.stderr, done.stderr
    assert done.stderr.count("[-Wunused-variable]") == 1
    refused = _compile(project, *words, "-Werror")
    assert refused.returncode != 0 and "[-Werror" in refused.stderr


def test_what_is_not_locked_is_the_compilers_own_work(project: Path) -> None:
    done = _compile(project, "-Iinc", "-c", "util.c", PLANISH_VERBOSE="1")
    assert done.returncode == 0 and "handed on" in done.stderr
    assert (project / "util.o").exists()
    failed = _compile(project, "-c", "broken.c")
    assert failed.returncode != 0 and "error" in failed.stderr


def test_a_stale_entry_never_breaks_the_build(project: Path) -> None:
    record(["sh", "-c", "$CC -Os -Iinc -c util.c -o util.o"], project)
    main(["tune", "--budget", "4"])
    (project / "util.c").write_text(_SOURCE + "int more(void) { return 1; }\n")
    done = _compile(project, "-Os", "-Iinc", "-c", "util.c", "-o", "s.o", PLANISH_VERBOSE="1")
    assert done.returncode == 0 and "stale" in done.stderr
    assert b"more" in (project / "s.o").read_bytes()


def test_a_failing_build_keeps_its_exit_code(project: Path) -> None:
    code, found = record(["sh", "-c", "$CC -c broken.c"], project)
    assert code != 0 and found.units == ()
    with pytest.raises(PlanishError, match="cannot run"):
        record(["no-such-program"], project)


def test_what_cmake_tries_the_compiler_with_is_no_unit(project: Path) -> None:
    tried = "mkdir CMakeFiles && cd CMakeFiles && $CC -Os -I../inc -c ../util.c -o util.o"
    code, found = record(["sh", "-c", tried], project)
    assert code == 0 and not found.units and (project / "CMakeFiles" / "util.o").exists()


def test_recordings_of_parallel_builds_lose_nothing(project: Path) -> None:
    commands = " & ".join(f"$CC -Iinc -c util.c -o {at}.o" for at in range(6))
    code, found = record(["sh", "-c", f"{commands} & wait"], project)
    assert code == 0 and len(found.units) == 6


def test_nothing_recorded_is_one_line(project: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tune"])
    assert caught.value.code == 2
    assert units.load(project / units.FOLDER) == []


def test_units_that_break_the_test_lose_their_recipe(tmp_path: Path) -> None:
    lock = tmp_path / "planish.lock"
    names = [f"{name}.c" for name in "abcdef"]
    entries = [
        lockfile.LockEntry(n, "h", "size", "x86_64", "passes: default<Oz>", 9, 8, "bytes", "c", "u")
        for n in names
    ]
    lockfile.update(lock, entries)

    def test() -> bool:
        kept = {e.source for e in lockfile.load(lock).entries}
        return not kept & {"b.c", "e.c"}

    assert sorted(keep_what_passes(lock, names, test)) == ["b.c", "e.c"]
    assert [e.source for e in lockfile.load(lock).entries] == ["a.c", "c.c", "d.c", "f.c"]
    before = lock.read_text()
    with pytest.raises(PlanishError, match="without any recipe"):
        keep_what_passes(lock, ["a.c", "c.c"], lambda: False)
    assert lock.read_text() == before


def test_a_compiler_given_by_name_is_not_the_shim(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands behind a shim is looked for without the shims, and so is what it starts."""
    real = project / "bin"
    real.mkdir()
    for name, words in (("gcc", f'{shlex.quote(_ZIG)} cc "$@"'), ("wrapper", 'exec "$@"')):
        (real / name).write_text(f"#!/bin/sh\n{words}\n")
        (real / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{real}:/usr/bin:/bin")
    for given in ("gcc", "wrapper gcc"):
        monkeypatch.setenv("PLANISH_CC", given)
        code, found = record(["sh", "-c", "gcc -Iinc -c util.c -o util.o"], project)
        assert code == 0 and [unit.source for unit in found.units] == ["util.c"]


def test_a_compiler_that_is_ourselves_is_one_line(project: Path) -> None:
    ours = shlex.join(_CC)
    done = _compile(project, "-Iinc", "-c", "util.c", PLANISH_CC=ours)
    assert done.returncode == 2
    assert done.stderr.startswith("planish: error:") and done.stderr.count("\n") == 1
