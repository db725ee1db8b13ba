"""Which commands are units of a build, and what is in them."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.build.invocation import Unit, parse


@pytest.mark.parametrize(
    ("command", "unit"),
    [
        ("-c a.c", Unit("a.c", "a.o", (), False)),
        ("-O2 -c -o x/a.o src/a.cc -Iinc", Unit("src/a.cc", "x/a.o", ("-O2", "-Iinc"), False)),
        ("-c a.c -oa.obj -I inc", Unit("a.c", "a.obj", ("-I", "inc"), False)),
        ("-MMD -MF a.d -c a.c", Unit("a.c", "a.o", ("-MMD", "-MF", "a.d"), True)),
        ("-D N=1 -c a.cpp", Unit("a.cpp", "a.o", ("-D", "N=1"), False)),
        ("-target arm-none-eabi -c a.c", Unit("a.c", "a.o", ("-target", "arm-none-eabi"), False)),
    ],
)  # fmt: skip
def test_units(command: str, unit: Unit) -> None:
    assert parse(shlex.split(command)) == unit


@pytest.mark.parametrize(
    "command",
    [
        "a.o b.o -o prog", "-c a.c b.c", "-E a.c", "-S a.c", "-M a.c", "-c a.s", "-c -",
        "@args -c a.c",
        "-c -x c a.txt", "--version", "", "-c", "-flto -c a.c", "-c a.c -save-temps", "-c a.c -###",
        "-fprofile-use=x -c a.c",
    ],
)  # fmt: skip
def test_everything_else_is_handed_on(command: str) -> None:
    assert parse(shlex.split(command)) is None


_WORDS = st.sampled_from(
    ["-c", "-o", "a.o", "a.c", "b.c", "-I", "inc", "-MD", "-MF", "-E", "@x", "-", "-O2", "--", "-x"]
)


@given(st.lists(_WORDS, max_size=8))
def test_any_words_are_read_and_none_are_lost(words: list[str]) -> None:
    unit = parse(words)
    if unit is not None:
        left = list(words)
        for word in (*unit.flags, unit.source, "-c"):
            left.remove(word)
        assert all(word in ("-o", "-c", unit.output) for word in left)
