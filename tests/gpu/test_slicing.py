"""SASS listings: decoding, and stalls on hand-made programs with a known culprit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import PlanishError, TraceError
from planish.gpu.sass import Control, Function, decode_control, parse_instruction, parse_sass
from planish.gpu.slicing import blame_stalls, by_line, loops, reaching


def word(stall: int = 1, write: int = 7, read: int = 7, wait: tuple[int, ...] = ()) -> int:
    """The upper 64 bits with these control fields."""
    mask = sum(1 << i for i in wait)
    return (stall | 1 << 4 | write << 5 | read << 8 | mask << 11) << 41


def listing(*lines: tuple[str, int] | str) -> str:
    """A listing as nvdisasm prints it; a text alone is a label or a comment."""
    made = ['.section .text._Z6kernelPf,"ax",@progbits']
    offset = 0
    for line in lines:
        if isinstance(line, str):
            made.append(line)
            continue
        text, high = line
        made.append(f"        /*{offset:04x}*/                   {text} ;   /* 0x{1:016x} */")
        made.append(f"                                            /* 0x{high:016x} */")
        offset += 16
    return "\n".join(made)


def only(text: str) -> Function:
    (function,) = parse_sass(text)
    return function


@given(
    st.integers(0, 15), st.booleans(), st.integers(0, 7), st.integers(0, 7),
    st.sets(st.integers(0, 5)),
)  # fmt: skip
def test_control_words(stall: int, stays: bool, write: int, read: int, wait: set[int]) -> None:
    mask = sum(1 << i for i in wait)
    bits = stall | stays << 4 | write << 5 | read << 8 | mask << 11
    assert decode_control(bits << 41) == Control(
        stall, not stays, -1 if write == 7 else write, -1 if read == 7 else read, frozenset(wait)
    )


@pytest.mark.parametrize(
    ("text", "defines", "uses"),
    [
        ("IADD3 R4, P0, R2, R3, RZ", "R4 P0", "R2 R3"),
        ("IADD3.X R5, R6, R7, RZ, P0, !PT", "R5", "R6 R7 P0"),
        ("LDG.E.128 R8, [R2.64+0x10]", "R8 R9 R10 R11", "R2 R3"),
        ("STG.E.64 [R2.64], R4", "", "R2 R3 R4 R5"),
        ("@!P1 FFMA R0, R1, R2, R0", "R0", "R0 R1 R2 P1"),
        ("ISETP.GE.AND P0, PT, R0, c[0x0][0x178], PT", "P0", "R0"),
        ("DFMA R10, R4, R6, R10", "R10 R11", "R4 R5 R6 R7 R10 R11"),
        ("IMAD.WIDE R2, R0, R9, c[0x0][0x160]", "R2 R3", "R0 R9"),
        ("SHFL.DOWN PT, R5, R4, 0x10, 0x1f", "R5", "R4"),
        ("SEL R0, R1, R2, !P3", "R0", "R1 R2 P3"),
        ("@PT BRA 0x100", "", ""),
        ("ULDC.64 UR4, c[0x0][0x118]", "UR4 UR5", ""),
    ],
)
def test_effects(text: str, defines: str, uses: str) -> None:
    found = parse_instruction(0, text, Control())
    assert found.defines == frozenset(defines.split())
    assert found.uses == frozenset(uses.split())


LOOP = listing(
    '\t//## File "/src/a.cu", line 3',
    ("MOV R1, c[0x0][0x28]", word(2)),
    ("IMAD.WIDE R2, R0, R9, c[0x0][0x160]", word(4)),
    ".L_x_1:",
    '\t//## File "/src/a.cu", line 7',
    ("LDG.E R4, [R2.64]", word(1, write=2)),
    '\t//## File "/src/a.cu", line 8',
    ("IADD3 R6, R6, 0x1, RZ", word(4)),
    ("ISETP.GE.AND P0, PT, R6, R7, PT", word(4)),
    ("FADD R5, R4, R5", word(1, wait=(2,))),
    ("@!P0 BRA `(.L_x_1)", word(5)),
    ("EXIT", word(5)),
)


def test_structure() -> None:
    function = only(LOOP)
    assert function.name == "_Z6kernelPf"
    assert [i.opcode for i in function.code] == [
        "MOV", "IMAD", "LDG", "IADD3", "ISETP", "FADD", "BRA", "EXIT",
    ]  # fmt: skip
    assert function.successors[6] == (2, 7)
    assert function.successors[7] == ()
    assert loops(function) == [frozenset({2, 3, 4, 5, 6})]
    assert (function.code[2].file, function.code[2].line) == ("/src/a.cu", 7)


def test_a_memory_stall_is_the_load() -> None:
    function = only(LOOP)
    shares = blame_stalls(function, {5: {"GMEM": 90.0}})
    assert [(s.source, s.amount) for s in shares] == [(2, 90.0)]
    assert by_line(function, shares) == {"a.cu:7": 90.0}


def test_an_execution_stall_is_not_the_load() -> None:
    function = only(LOOP)
    # FADD reads R4 (load) and R5 (itself, one round before): an execution dependency is R5's
    assert {s.source for s in blame_stalls(function, {5: {"IDEP": 10.0}})} == {5}


def test_predicates_are_followed() -> None:
    function = only(LOOP)
    assert {s.index for s in reaching(function, 6)} == {4}
    assert {s.source for s in blame_stalls(function, {6: {"IDEP": 4.0}})} == {4}


def test_a_guarded_definition_does_not_hide_the_one_before() -> None:
    function = only(
        listing(
            ("LDG.E R4, [R2.64]", word(1, write=0)),
            ("@P0 LDG.E R4, [R6.64]", word(1, write=1)),
            ("FADD R5, R4, R4", word(1, wait=(0, 1))),
            ("EXIT", word()),
        )
    )
    shares = {s.source: s.amount for s in blame_stalls(function, {2: {"GMEM": 30.0}})}
    # by inverse distance: 1/1 against 1/2
    assert shares == {1: pytest.approx(20.0), 0: pytest.approx(10.0)}


def test_barriers_prune() -> None:
    function = only(
        listing(
            ("LDG.E R4, [R2.64]", word(1, write=0)),
            ("LDG.E R5, [R6.64]", word(1, write=1)),
            ("FADD R7, R4, R5", word(1, wait=(0,))),
            ("EXIT", word()),
        )
    )
    assert [s.source for s in blame_stalls(function, {2: {"GMEM": 8.0}})] == [0]


def test_latency_prunes() -> None:
    function = only(
        listing(
            ("FADD R4, R2, R2", word(1)),
            *[("NOP", word(15))] * 4,
            ("FADD R7, R4, R4", word(1)),
            ("EXIT", word()),
        )
    )
    assert [s.source for s in blame_stalls(function, {5: {"IDEP": 8.0}})] == [5]


@given(
    st.dictionaries(
        st.integers(0, 7),
        st.dictionaries(
            st.sampled_from(["GMEM", "IDEP", "PIPE", "SYNC"]), st.floats(0, 1e6), max_size=4
        ),
        max_size=8,
    )
)
def test_blame_sums_to_the_stalls(stalls: dict[int, dict[str, float]]) -> None:
    shares = blame_stalls(only(LOOP), stalls)
    whole = sum(sum(reasons.values()) for reasons in stalls.values())
    assert sum(s.amount for s in shares) == pytest.approx(whole)


@given(st.text(max_size=300))
def test_any_text_is_refused_or_parsed(text: str) -> None:
    try:
        parse_sass(text)
    except PlanishError:
        return


def test_no_instructions() -> None:
    with pytest.raises(TraceError, match="no SASS"):
        parse_sass("hello")
