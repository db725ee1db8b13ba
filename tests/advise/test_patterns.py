"""Patterns of instructions: each finds its culprit, and nothing in code without it."""

from __future__ import annotations

import pytest

from planish.advise.blamed import Blamed
from planish.advise.patterns import PATTERNS, advise_patterns
from planish.gpu.sass import Function, connect, decode_control, parse_instruction

JUMPS = frozenset(["BRA", "EXIT", "RET"])


def word(stall: int = 1, write: int = 7, read: int = 7, wait: tuple[int, ...] = ()) -> int:
    mask = sum(1 << i for i in wait)
    return (stall | 1 << 4 | write << 5 | read << 8 | mask << 11) << 41


LOAD, WAIT = word(write=0), word(wait=(0,))


def made(*lines: tuple[str, int]) -> Function:
    code = [
        parse_instruction(16 * i, t, decode_control(h), "k.cu", i) for i, (t, h) in enumerate(lines)
    ]
    return connect("kernel", code, {}, JUMPS)


def rules(
    function: Function, stalls: dict[int, dict[str, float]], **issued: float
) -> dict[str, float]:
    blamed = Blamed(function, stalls, {int(k[1:]): v for k, v in issued.items()})
    return {a.rule: a.saved for a in advise_patterns(blamed, 100.0)}


def test_division() -> None:
    function = made(("MUFU.RCP64H R2, R3", LOAD), ("DFMA R4, R2, R6, R4", WAIT), ("EXIT", word()))
    found = rules(function, {1: {"IDEP": 20.0}})
    assert found["fast-math"] == pytest.approx(20)


def test_double_precision() -> None:
    function = made(("DADD R2, R4, R6", LOAD), ("DMUL R8, R2, R2", WAIT), ("EXIT", word()))
    assert rules(function, {1: {"IDEP": 30.0}})["cheaper-arithmetic"] == pytest.approx(30)


def test_calls() -> None:
    function = made(
        ("CALL.REL.NOINC `(f)", word()), ("IADD3 R1, R2, R3, RZ", word()), ("EXIT", word())
    )
    found = rules(function, {0: {"OTHR": 4.0}, 1: {"IFET": 6.0}})
    assert found["function-inlining"] == pytest.approx(10)


def test_neighbouring_loads_become_one() -> None:
    function = made(
        ("LDG.E R4, [R2.64]", LOAD), ("LDG.E R5, [R2.64+0x4]", LOAD),
        ("LDG.E R6, [R2.64+0x8]", LOAD), ("LDG.E R7, [R2.64+0xc]", LOAD),
        ("FADD R8, R4, R5", WAIT), ("EXIT", word()),
    )  # fmt: skip
    assert rules(function, {4: {"GMEM": 40.0}})["wide-loads"] == pytest.approx(40 * 3 / 4)
    apart = made(
        ("LDG.E R4, [R2.64]", LOAD), ("LDG.E R5, [R2.64+0x100]", LOAD),
        ("FADD R8, R4, R5", WAIT), ("EXIT", word()),
    )  # fmt: skip
    assert "wide-loads" not in rules(apart, {2: {"GMEM": 40.0}})


@pytest.mark.parametrize(("step", "found"), [("IADD3 R9, R9, 0x1, RZ", True),
                                             ("IADD3 R2, R2, 0x4, RZ", False)])  # fmt: skip
def test_what_a_loop_loads_again(step: str, found: bool) -> None:
    function = made(
        ("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R8, R4", WAIT), (step, word()),
        ("@P0 BRA 0x0", word()), ("EXIT", word()),
    )  # fmt: skip
    assert ("shared-memory" in rules(function, {1: {"GMEM": 40.0}})) is found


def test_copies_through_registers() -> None:
    function = made(
        ("LDG.E R4, [R2.64]", LOAD), ("STS [R6], R4", WAIT), ("IADD3 R2, R2, 0x4, RZ", word()),
        ("@P0 BRA 0x0", word()), ("EXIT", word()),
    )  # fmt: skip
    # hidden by what issues in the loop: 10 of the 50
    assert rules(function, {1: {"GMEM": 50.0}}, i0=4.0, i2=6.0)["async-copy"] == pytest.approx(10)


def test_both_sides_of_a_branch() -> None:
    function = made(
        ("@P0 BRA 0x30", word()), ("FADD R1, R2, R3", word()), ("BRA 0x40", word()),
        ("FMUL R1, R2, R3", word()), ("EXIT", word()),
    )  # fmt: skip
    found = rules(function, {}, i1=30.0, i2=1.0, i3=12.0)
    assert found == {"divergence": 12.0}


def test_a_loop_that_waits_for_its_own_loads_wants_unrolling() -> None:
    lines = (
        ("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R8, R4", WAIT), ("IADD3 R2, R2, 0x4, RZ", word()),
        ("@P0 BRA 0x0", word()), ("EXIT", word()),
    )  # fmt: skip
    stalls = {1: {"GMEM": 40.0}}
    # hidden by what issues in the loop: 12 of the 40
    found = rules(made(*lines), stalls, i0=4.0, i2=8.0, i4=100.0)
    assert found["loop-unrolling"] == pytest.approx(12)
    straight = [line for line in lines if "BRA" not in line[0]]
    assert "loop-unrolling" not in rules(made(*straight), stalls, i0=4.0, i2=8.0)
    called = [("CALL.REL.NOINC `(f)", word()) if "IADD3" in t else (t, w) for t, w in lines]
    assert "loop-unrolling" not in rules(made(*called), stalls, i0=4.0, i2=8.0)
    # what was loaded before the loop is not made in it
    before = made(("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R8, R4", WAIT),
                  ("@P0 BRA 0x10", word()), ("EXIT", word()))  # fmt: skip
    assert "loop-unrolling" not in rules(before, stalls, i1=4.0)


def test_work_behind_a_use_wants_to_stand_before_it() -> None:
    load, use = ("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R7, R4", WAIT)
    free = ("FMUL R10, R11, R12", word())
    bound = ("FMUL R9, R8, R8", word())
    end = ("EXIT", word())
    stalls = {1: {"GMEM": 40.0}}
    found = rules(made(load, use, bound, free, end), stalls, i2=9.0, i3=5.0, i4=50.0)
    assert found["code-reordering"] == pytest.approx(5)  # the one that needs nothing of the use
    # all that follows needs the value, at first or second hand
    chain = made(load, use, bound, ("FADD R10, R9, R9", word()), end)
    assert "code-reordering" not in rules(chain, stalls, i2=9.0, i3=5.0)
    # what follows lies in another block
    jump = made(load, use, ("@P0 BRA 0x40", word()), free, end)
    assert "code-reordering" not in rules(jump, stalls, i3=5.0)
    # it stands there already
    assert "code-reordering" not in rules(made(load, free, use, end), {2: {"GMEM": 40.0}}, i1=5.0)


def test_an_instruction_hides_one_stall_only() -> None:
    function = made(
        ("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R7, R4", WAIT),
        ("LDG.E R5, [R2.64+0x400]", word(write=1)), ("FADD R9, R7, R5", word(wait=(1,))),
        ("FMUL R10, R11, R12", word()), ("EXIT", word()),
    )  # fmt: skip
    found = rules(function, {1: {"GMEM": 40.0}, 3: {"GMEM": 30.0}}, i4=7.0)
    assert found["code-reordering"] == pytest.approx(7)


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (128, 32)])
def test_lanes_that_scatter(stride: int, sectors: int) -> None:
    function = made(
        ("S2R R0, SR_TID.X", word(write=1)), ("MOV R1, 0x4", word()),
        (f"IMAD.WIDE R2, R0, {stride:#x}, c[0x0][0x160]", word(wait=(1,))),
        ("LDG.E R4, [R2.64]", LOAD), ("FADD R8, R7, R4", WAIT), ("EXIT", word()),
    )  # fmt: skip
    found = rules(function, {4: {"GMEM": 64.0}})
    if sectors == 4:
        assert "coalescing" not in found
    else:
        assert found["coalescing"] == pytest.approx(64 * (1 - 4 / sectors))


def test_spilled_registers() -> None:
    function = made(
        ("STL [R1], R4", word()), ("LDL R4, [R1]", LOAD), ("FADD R8, R7, R4", WAIT),
        ("EXIT", word()),
    )  # fmt: skip
    assert rules(function, {2: {"LMEM": 30.0}})["register-pressure"] == pytest.approx(30)


def test_every_pattern_names_its_source() -> None:
    for pattern in PATTERNS:
        assert pattern.source.startswith("GPA: ")
        assert pattern.find.__doc__


def test_plain_code_is_left_alone() -> None:
    function = made(("FADD R1, R2, R3", word()), ("FMUL R4, R1, R1", word(5)), ("EXIT", word()))
    assert rules(function, {1: {"IDEP": 30.0}}, i0=10.0, i1=10.0) == {}
    assert len({p.rule for p in PATTERNS}) == len(PATTERNS)
