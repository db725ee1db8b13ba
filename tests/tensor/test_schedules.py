"""Schedules keep the meaning; their texts and the nests' parse back to equals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_case, same

import planish as pl
from planish.base.errors import UsageError
from planish.tensor.loops import parse_nest, plain, verify
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate, interpret
from planish.tensor.schedule import Schedule

_POINTS = 600


def _matmul(m_: int = 5, n_: int = 6, k_: int = 4) -> Program:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_)), pl.tensor("B", (k_, n_))
    return lower([pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))])


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 40))
def test_a_scheduled_nest_computes_what_the_program_means(seed: int) -> None:
    try:
        case = make_case(seed)
    except UsageError:
        return
    points = sum(np.prod([s.extents[a] for a in s.all_axes]) for s in case.program.stages)
    if points > _POINTS:
        return
    wanted = evaluate(case.program, case.arrays)
    found = interpret(case.schedule.apply(case.program), case.arrays)
    for stage in case.program.stages:
        tensor = stage.out.tensor
        if tensor.name in wanted:
            assert same(tensor.type, found[tensor.name], wanted[tensor.name])


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 40))
def test_texts_parse_back(seed: int) -> None:
    try:
        case = make_case(seed, steps=8)
    except UsageError:
        return
    assert Schedule.parse(str(case.schedule)) == case.schedule
    nest = case.schedule.apply(case.program)
    again = parse_nest(str(nest), nest.program)
    assert str(again) == str(nest)
    assert again.body == nest.body
    verify(again)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("split C q 4", "no axis 'q'|unknown axis 'q'"),
        ("split C m 1", "a block of 1"),
        ("split C m x", "cannot read"),
        ("splitt C m 4", "unknown schedule step"),
        ("reorder C m k", "lies between"),
        ("vectorise C m", "vector loop is innermost"),
        ("parallel C k", "parallel"),
        ("pack C Z as m k", "unknown operand"),
        ("pack C A as m", "is to name the axes"),
        ("fuse C C m", "share m already|reads"),
        ("split_reduction C k 3", "no multiple of 3"),
        ("split_reduction C m 2", "unknown reduction axis"),
        ("unroll C m/8", "unknown loop"),
        ("tile C m=0x n=4", "cannot read"),
        ("prefetch C Q", "unknown tensor"),
    ],
)
def test_steps_that_may_not_be_taken_say_why(steps: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Schedule.parse(steps).apply(_matmul())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("for m\n  do C", "over n have the steps"),
        ("for m by 2\n  for n\n    for k\n      do C", "over m have the steps"),
        ("for m\n  for n\n    for k\n      do D", "does not have"),
        ("for m\n  for n\n    for k\n      do C\n      do C", "2 times"),
        ("for m\n   for n\n      do C", "indented by 3"),
        ("while m\n  do C", "cannot read"),
    ],
)
def test_nests_that_do_not_compute_the_program_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_nest(text, _matmul())


def test_a_consumer_may_not_run_inside_the_sum_it_reads() -> None:
    m, k = pl.axes("m k")
    a = pl.tensor("A", (4, 3))
    s = pl.define("S", [m], pl.sum(k, a[m, k]))
    program = lower([pl.define("Y", [m, k], a[m, k] - s[m])])
    assert [st_.name for st_ in program.stages] == ["S", "Y"]
    with pytest.raises(UsageError, match="that sums it up"):
        parse_nest("for m\n  for k\n    do S\n    do Y", program)
    parse_nest("for m\n  for k\n    do S\n  for k\n    do Y", program)


def test_a_window_may_not_be_read_inside_the_loop_that_computes_it() -> None:
    (i,) = pl.axes("i=4")
    x = pl.tensor("x", (6,))
    (j,) = pl.axes("j")
    t = pl.define("T", [j], x[j] * 2.0)
    program = lower([pl.define("Y", [i], t[i] + t[i + 2])])
    nest = plain(program)
    assert str(nest).count("for") == 2
    renamed = str(nest).replace("for i\n  do Y", "for j\n  do Y")
    with pytest.raises(UsageError):
        parse_nest(renamed, program)
