"""A small recorded program, for the tests of whole builds."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import ziglang

from planish.build.record import record

_ZIG = Path(ziglang.__file__).parent / "zig"
_CLANG = f"{shlex.quote(str(_ZIG))} clang -isystem {shlex.quote(str(_ZIG.parent / 'lib/include'))}"
# Freestanding, so that the test needs no C library: it leaves by its exit code.
_START = """
int work(int);
void _start(void) {
    static volatile int given = 21;
    int code = work(given);
    __asm__ volatile("syscall" : : "a"(60), "D"(code) : "rcx", "r11", "memory");
    for (;;) {
    }
}
"""
_WORK = """
unsigned mix(unsigned);
static int helper(int x) { int s = 0; for (int i = 0; i < x * 3; i++) s += i % 7; return s; }
int only_here(int x) { return helper(x) + helper(x + 1) + helper(x * 2); }
int work(int x) { switch (x) { case 1: return only_here(3); case 2: return 9; default: break; }
    return (only_here(x) + mix(x) % 89 + mix(x + 3) % 7) % 200; }
unsigned mix(unsigned x) { for (int i = 0; i < 9; i++) { if (x & 1) x = (x >> 1) ^ 0xedb88320;
    else x = x * 5 + i; } return x; }
int nobody(int x) { return only_here(x) * helper(x); }
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded program of two units, one of them in an archive."""
    (tmp_path / "start.c").write_text(_START)
    (tmp_path / "work.c").write_text(_WORK)
    monkeypatch.setenv("PLANISH_CC", f"{_CLANG} --target=x86_64-unknown-linux-gnu")
    monkeypatch.setenv("PLANISH_LD", f"{shlex.quote(str(_ZIG))} ld.lld")
    monkeypatch.chdir(tmp_path)
    ar = f"{shlex.quote(str(_ZIG))} ar"
    flags = "-Os -g -ffreestanding -fno-stack-protector -fno-pic"
    code, found = record(
        ["sh", "-c", f"$CC {flags} -c start.c && $CC {flags} -c work.c && "
         f"{ar} rcs libw.a work.o && $LD -static start.o -L. -lw -o prog"], tmp_path,
    )  # fmt: skip
    assert code == 0 and len(found.units) == 2 and len(found.links) == 1
    return tmp_path
