"""Which commands are units of a build, and what is in them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planish.build.invocation import Unit, parse, read, read_linker, without_pch


@pytest.mark.parametrize(
    ("command", "unit"),
    [
        ("-Os -c a.c", Unit("a.c", "a.o", ("-Os",), False)),
        ("-O2 -c -o x/a.o src/a.cc -Iinc", Unit("src/a.cc", "x/a.o", ("-O2", "-Iinc"), False)),
        ("-c a.c -O -oa.obj -I inc", Unit("a.c", "a.obj", ("-O", "-I", "inc"), False)),
        ("-Oz -MMD -MF a.d -c a.c", Unit("a.c", "a.o", ("-Oz", "-MMD", "-MF", "a.d"), True)),
        ("-D N=1 -O3 -c a.cpp", Unit("a.cpp", "a.o", ("-D", "N=1", "-O3"), False)),
        ("-target armv7 -Os -c a.c", Unit("a.c", "a.o", ("-target", "armv7", "-Os"), False)),
    ],
)  # fmt: skip
def test_units(command: str, unit: Unit) -> None:
    assert parse(shlex.split(command)) == unit


@pytest.mark.parametrize(
    "command",
    [
        "a.o b.o -o prog", "-c a.c b.c", "-E a.c", "a.c -o prog", "-c a.h", "-x c-header -c a.h",
        "-c -x c++ a.c", "-c a.c -O0", "-c a.c --coverage", "-c a.c -fsanitize=address",
        "-c a.c -gsplit-dwarf", "-c a.c -pg", "-c a.c b.o", "-c a.c b.c -o x.o", "-c a.ll",
        "-S a.c", "-M a.c", "-c a.s", "-c -",
        "@no-such-file -c a.c",
        "-c -x c a.txt", "--version", "", "-c", "-flto -c a.c", "-c a.c -save-temps", "-c a.c -###",
        "-fprofile-use=x -c a.c", "-c a.c -I", "-c -- -a.o", "-- -c a.c",
    ],
)  # fmt: skip
def test_everything_else_is_handed_on(command: str) -> None:
    assert parse(["-Os", *shlex.split(command)]) is None


@pytest.mark.parametrize("level", ["", "-O0", "-Og", "-Os -O0"])
@pytest.mark.parametrize("rest", ["-c a.c", "a.c -o prog", "-c a.c b.cc"])
def test_what_is_not_to_be_optimised_is_the_compilers(level: str, rest: str) -> None:
    assert parse(shlex.split(f"{level} {rest}")) is None
    assert "optimised" in read(shlex.split(f"{level} {rest}")).problem


_WORDS = st.sampled_from(
    ["-c", "-o", "a.o", "a.c", "b.c", "-I", "inc", "-MD", "-MF", "-E", "@x", "-", "-O2", "--", "-x"]
)


@given(st.lists(_WORDS, max_size=8))
@example(["-c", "a.c", "--"])
@example(["-c", "a.c", "-I"])
@example(["-c", "a.c", "-O2", "-x", "-c"])
@example(["-c", "a.c", "-O2", "-o", "a.o", "-o", "-c"])
def test_any_words_are_read_and_none_are_lost(words: list[str]) -> None:
    unit = parse(words)
    if unit is not None:
        left = list(words)
        for word in (*unit.flags, unit.source, "-c"):
            left.remove(word)
        assert all(word in ("-o", "-c", "--", unit.output) for word in left)


def test_several_sources_are_several_units() -> None:
    command = read(shlex.split("-O2 -c a.c b.cc -Ix"))
    assert [(u.source, u.output) for u in command.units] == [("a.c", "a.o"), ("b.cc", "b.o")]
    assert {u.flags for u in command.units} == {("-O2", "-Ix")} and not command.problem
    assert read(shlex.split("-flto -c a.c")).units and read(shlex.split("-flto -c a.c")).lto


def test_a_named_language_counts_where_the_name_says_the_same() -> None:
    assert parse(shlex.split("-x c -O2 -c a.c")) == Unit("a.c", "a.o", ("-O2",), False)
    assert parse(shlex.split("-xc++ -O2 -c a.cc")) == Unit("a.cc", "a.o", ("-O2",), False)


def test_only_inputs_stand_behind_two_dashes() -> None:
    assert parse(shlex.split("-c -O2 -- x.c")) == Unit("x.c", "x.o", ("-O2",), False)
    assert read(shlex.split("-c -O2 -- -x.c")).problem == "-x.c is an odd name"


def test_response_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "inner").write_text('"-DS=a b" -Iinc\n')
    (tmp_path / "outer").write_text(f"-c @{tmp_path}/inner a.c\n-o 'x y.o'")
    unit = parse([f"@{tmp_path}/outer", "-Os"])
    assert unit == Unit("a.c", "x y.o", ("-DS=a b", "-Iinc", "-Os"), False)
    (tmp_path / "loop").write_text(f"@{tmp_path}/loop")
    assert parse([f"@{tmp_path}/loop", "-c", "a.c"]) is None


def test_links_know_their_inputs() -> None:
    command = read(shlex.split("a.o -L. -lfoo b.a -o prog -Wl,-T,x.ld"))
    assert command.links and command.output == "prog"
    assert [command.words[at] for at in command.inputs] == ["a.o", "-lfoo", "b.a"]
    direct = read_linker(shlex.split("-m elf_x86_64 -T x.ld -l m a.o -o fw.elf"))
    assert [direct.words[at] for at in direct.inputs] == ["m", "a.o"]
    stripped = read_linker(shlex.split("-r -x a.o -V b.o -o fw.elf"))  # neither takes a value
    assert [stripped.words[at] for at in stripped.inputs] == ["a.o", "b.o"]
    assert not read(["-shared"]).links


def test_sources_that_are_compiled_and_linked_at_once_are_units() -> None:
    words = shlex.split("-O2 a.c -Wl,-z,now -L. x.o -T s.ld -include h.h b.cc -lm -shared -o p")
    command = read(words)
    assert command.links and not command.problem and command.output == "p"
    assert [words[at] for at in command.sources] == ["a.c", "b.cc"]
    assert [words[at] for at in command.inputs] == ["a.c", "x.o", "b.cc", "-lm"]
    assert [u.source for u in command.units] == ["a.c", "b.cc"]
    assert {u.flags for u in command.units} == {("-O2", "-include", "h.h")}
    assert len({u.output for u in command.units}) == 2
    for odd in (
        "-O2 -x c a.c -o p",
        "-O2 -MD a.c -o p",
        "-O0 a.c",
        "-O2 -flto a.c",
        "-O2 -fsanitize=address a.c",
    ):
        assert read(shlex.split(odd)).problem, odd


def test_a_precompiled_header_is_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = read(shlex.split("-include-pch h.h.pch -O2 -c a.c"))
    assert "no header beside it" in command.problem
    (tmp_path / "h.h").touch()
    command = read(shlex.split("-include-pch h.h.pch -O2 -c a.c"))
    assert not command.problem and command.units[0].flags == ("-include", "h.h", "-O2")


def test_a_precompiled_header_beside_its_header_is_left_out() -> None:
    words = shlex.split("-Xclang -include-pch -Xclang x.pch -Xclang -include -Xclang x.h -O2")
    assert without_pch(words) == shlex.split("-Xclang -include -Xclang x.h -O2")


def test_dependencies_asked_of_the_preprocessor_count() -> None:
    unit = parse(shlex.split("-Wp,-MMD,a.d -O2 -c a.c"))
    assert unit is not None and unit.dependencies
