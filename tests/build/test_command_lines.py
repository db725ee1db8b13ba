"""Whatever the command line, `planish cc` does what the real compiler does."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ziglang

from planish.build import cc

_ZIG = Path(ziglang.__file__).parent / "zig"
_CLANG = f"{shlex.quote(str(_ZIG))} clang -isystem {shlex.quote(str(_ZIG.parent / 'lib/include'))}"
_LINES = (
    "-c a.c b.c", "-c a.c -o x/y.o", "-S a.c -o -", "-E a.c", "-M a.c", "-MM -MF a.d a.c",
    "-c -MMD -MF a.d a.c", "-c -Wp,-MMD,a.d a.c", "-x c -c a.txt -o t.o", "-x c -c - -o in.o",
    "-c s.s", "-c s.S", "@args", "-c a.c -flto", "-x c-header a.h -o a.pch",
    "-include-pch a.pch -c a.c", "a.c b.c -fPIC -shared -nostdlib -o l.so",
    "bad.c b.c -shared -o l.so", "-###", "-c a.c -###", "-c missing.c", "-c bad.c",
    "-c a.c -Wno-such-warning -Werror", "--version", "", "-c", "-dumpmachine", "-fsyntax-only a.c",
    "-c a.c -save-temps -o k.o", "-c -O0 a.c", "-c a.c -o", "-c a.c -- ", "-c -x c++ a.c -o p.o",
    "-c d.cc", "-emit-llvm -c a.c -o a.bc", "-c a.c b.c -o both.o", "@missing", "-c 'sp ace.c'",
    "-c a.c -DX='\"q u\"'", "-c -g -Os a.c -fdebug-compilation-dir=.",
)  # fmt: skip

_STALE = """version = 1

[[task]]
source = "a.c"
goal = "size"
target = "x86_64-unknown-linux-gnu"
level = "Oz"
hash = "of another version"
compiler = "LLVM 22.1.8"
baseline = 9
result = 8
unit = "bytes"
verdict = "unknown"
recipe = "passes: default<Oz>"
"""


def _folder(path: Path) -> Path:
    path.mkdir()
    (path / "x").mkdir()
    (path / "a.h").write_text("int g(int);\n")
    (path / "a.c").write_text('#include "a.h"\nint f(int x) { return g(x) * 3; }\n')
    for name in ("b.c", "sp ace.c", "a.txt"):
        (path / name).write_text("int h(int x) { return x + 1; }\n")
    (path / "bad.c").write_text("int x = ;\n")
    (path / "d.cc").write_text("template <class T> T twice(T x) { return x + x; }\n"
                               "int use(int x) { return twice(x); }\n")  # fmt: skip
    for name in ("s.s", "s.S"):
        (path / name).write_text(".globl here\nhere:\n")
    (path / "args").write_text("-c -Os \\\n a.c -o 'r f.o'\n")
    return path


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[object, ...]:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, input=b"int i(void){return 1;}\n",
        capture_output=True, timeout=120,
    )  # fmt: skip
    # The server's pid and temporary names (-###, -save-temps) differ from run to run.
    return done.returncode, done.stdout if b"tmp" not in done.stdout else b""


def test_every_command_line_does_what_the_real_compiler_does(tmp_path: Path) -> None:
    """Exit code, standard output and every file, beside the real compiler."""
    real = shlex.split(_CLANG)
    ours = [sys.executable, "-m", "planish.entry", "cc"]
    one, two = _folder(tmp_path / "one"), _folder(tmp_path / "two")
    again = (*_LINES[:2], "@args", "-c -MMD -MF a.d a.c", *(x for x in _LINES if "l.so" in x))
    for line in (*_LINES, None, *again):
        if line is None:
            # For another version of it: stale entries are the compiler's work, too.
            (two / "planish.lock").write_text(_STALE)
            (one / "planish.lock").write_text(_STALE)
            continue
        words = shlex.split(line)
        plain = _run([*real, *words], one, {})
        mine = _run([*ours, *words], two, {"PLANISH_CC": _CLANG, "PLANISH_SERVER": "off"})
        assert mine == plain, line
        assert _files(two) == _files(one), line


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pch"  # holds a date
    }


@pytest.mark.skipif(shutil.which("ccache") is None, reason="needs ccache")
def test_ccache_in_front_and_behind(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "one")
    shim = tmp_path / "planish-cc"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m planish.entry cc "$@"\n')
    shim.chmod(0o755)
    plain = tmp_path / "plain"
    plain.write_text(f'#!/bin/sh\nexec {_CLANG} "$@"\n')
    plain.chmod(0o755)
    settings = {"CCACHE_DIR": str(tmp_path / "cache"), "PLANISH_SERVER": "off"}
    wanted = _run([str(plain), "-c", "a.c", "-o", "x/plain.o"], folder, {})
    cases = (
        (["ccache", str(shim)], {"PLANISH_CC": str(plain)}),
        ([str(shim)], {"PLANISH_CC": f"ccache {plain}"}),
    )
    for at, (command, more) in enumerate(cases):
        for _ in range(2):
            got = _run([*command, "-c", "a.c", "-o", f"x/{at}.o"], folder, {**settings, **more})
            assert got == wanted
            assert (folder / f"x/{at}.o").read_bytes() == (folder / "x/plain.o").read_bytes()
    told = subprocess.run(
        ["ccache", "-s", "-v"], env={**os.environ, **settings}, capture_output=True, text=True
    ).stdout
    assert "Hits" in told and " 0 /" not in told.splitlines()[1]


def test_targets_are_read_off_the_names_of_cross_compilers() -> None:
    assert cc.target_of(["/usr/bin/arm-none-eabi-gcc"]) == "arm-none-eabi"
    assert cc.target_of(["ccache", "aarch64-linux-gnu-g++-12"]) == "aarch64-linux-gnu"
    assert cc.target_of(["gcc-12"]) == cc.target_of(["clang"]) == cc.target_of(["x-cc"]) == ""
