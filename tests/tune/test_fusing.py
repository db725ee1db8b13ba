"""Statements computed together: every way to do it computes what the program means."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.blocks import BLOCKS, draw_block, draw_inputs, mlp, resnet, softmax

import planish as pl
from planish.base.errors import UsageError
from planish.base.records import Grade
from planish.measure.machine import processor
from planish.search.moves import mutate
from planish.search.protocol import Plan
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate, interpret
from planish.tensor.schedule import Schedule
from planish.tune.fusing import fused_words
from planish.tune.loop_space import LoopSpace, fuses
from planish.tune.stage_shape import Target
from planish.verify.schedules import check

_TARGETS = (Target(64, 31, 48 << 10, 2 << 20), Target(32, 15, 32 << 10, 1 << 20))
_KINDS = ["f32", "f32", "f64", "f16", "bf16", "i32"]
native = pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")


def _plans(space: LoopSpace, draw: random.Random, count: int) -> list[Plan]:
    """Some of the ways to fuse, some of them together and with other choices changed."""
    found = [draw.choice(space.fused) for _ in range(count)] if space.fused else [space.start]
    wanted = [a for a in space.all_actions if fuses(a)]
    for plan in found[: count // 2 + 1]:
        for _ in range(draw.randint(1, 3)):
            more = tuple(sorted({*plan.actions, draw.choice(wanted)})) if wanted else ()
            plan = plan.acting(more) if space.legal(more) else mutate(space, plan, draw)
        found.append(plan)
    return found


def _same(program: Program, found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> bool:
    exact = "exp" not in str(program)
    return all(
        np.array_equal(found[n], w) if exact else np.allclose(found[n], w, rtol=1e-4, atol=1e-5)
        for n, w in wanted.items()
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 40))
def test_any_fusion_computes_what_the_program_means(seed: int) -> None:
    draw = random.Random(seed)
    sizes = {"mlp": (4, 5, 6), "resnet": (3, 2, 3), "normed": (4, 4, 6), "softmax": (4, 4, 6)}
    program = lower([draw_block(draw, sizes, _KINDS)])
    space = LoopSpace(program, draw.choice(_TARGETS))
    arrays = draw_inputs(program, seed % 1000)
    wanted = evaluate(program, arrays)
    for plan in _plans(space, draw, 3):
        schedule = space.schedule(plan.actions)
        assert schedule is not None and space.legal(plan.actions)
        nest = schedule.apply(program)
        assert str(Schedule.parse(str(schedule)).apply(program)) == str(nest)
        assert _same(program, interpret(nest, arrays), wanted), (plan, str(schedule))


@native
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 40))
def test_any_fusion_becomes_a_kernel_that_computes_it(seed: int) -> None:
    draw = random.Random(seed)
    sizes = {"mlp": (40, 70, 90), "resnet": (7, 9, 20), "normed": (20, 30, 70),
             "softmax": (20, 30, 70)}  # fmt: skip
    block = draw_block(draw, sizes, _KINDS)
    program = lower([block])
    space = LoopSpace(program, Target.of(processor(), processor().vector))
    arrays = draw_inputs(program, seed % 1000)
    wanted = evaluate(program, arrays)
    for plan in _plans(space, draw, 2):
        kernel = pl.compile(block, schedule=str(space.schedule(plan.actions)), store=False)
        try:
            found = kernel(*(arrays[t.name] for t in program.inputs))
        except UsageError as error:
            # Sums in parts, which such an output cannot keep: no matter of fusion.
            assert "summed up in memory" in str(error) and " depth=" in str(plan)
            continue
        assert _same(program, {program.outputs[0].name: found}, wanted), plan


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_statements_apart_may_be_as_few_as_those_written_as_one(name: str) -> None:
    lengths = {"mlp": (24, 40, 64), "resnet": (6, 8, 16)}.get(name, (16, 24, 40))
    apart, together = (lower([BLOCKS[name](*lengths, apart=a)]) for a in (True, False))
    space = LoopSpace(apart, _TARGETS[0])
    fewest = min(
        len(schedule.apply(apart).program.stages)
        for plan in space.fused
        if (schedule := space.schedule(plan.actions)) is not None
    )
    assert fewest < len(apart.stages)
    most = [a for a in space.all_actions if " epilogue=" in a]
    deepest = {a.split()[0]: a for a in most}  # sorted, so that the last is the deepest
    every = space.schedule(tuple(sorted(deepest.values())))
    assert every is not None
    assert len(every.apply(apart).program.stages) <= len(together.stages)


def test_two_products_share_the_loop_over_what_lies_between_them() -> None:
    program = lower([mlp(32, 256, 1024)])
    space = LoopSpace(program, _TARGETS[0])
    assert Plan(("hidden fuse=1",)) in space.fused
    schedule = space.schedule(("hidden fuse=1",))
    assert schedule is not None
    assert fused_words(schedule) == ["hidden is computed in the loop j/64 of y"]
    usual = space.schedule(())
    assert usual is not None and fused_words(usual) == []


def test_a_convolution_writes_into_what_is_padded_for_the_next_one() -> None:
    program = lower([resnet(6, 8, 16)])
    space = LoopSpace(program, _TARGETS[0])
    schedule = space.schedule(("middle epilogue=1",))
    assert schedule is not None
    left = schedule.apply(program).program
    assert "middle" not in [t.name for t in left.temporaries]
    assert fused_words(schedule) == ["middle_padded is the epilogue of middle"]


def test_choices_of_a_statement_that_is_gone_are_not_legal() -> None:
    space = LoopSpace(lower([softmax(16, 24, 40, apart=True)]), _TARGETS[0])
    assert space.legal(("S_0 epilogue=1",)) and space.legal(("S_1 vectors=1",))
    assert not space.legal(("S_0 epilogue=1", "S_1 vectors=1"))
    assert not space.legal(("S_0 epilogue=3",)), "a row's greatest element is no epilogue"
    assert not space.legal(("Y_sum1 inline=1",)), "a reduction is not computed anew"


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("inline y", "no elementwise temporary"),
        ("inline hidden_0", "no elementwise temporary"),
        ("split hidden_1 j 4\ninline hidden_1", "before other steps"),
        ("epilogue hidden_0 hidden", "not the only statement"),
        ("epilogue hidden_0 y", "not the only statement"),
        ("split hidden_0 j 4\nepilogue hidden_0 hidden_1", "before other steps"),
        ("epilogue hidden_0 nothing", "unknown stage"),
        ("inline", "cannot read"),
    ],
)
def test_steps_that_may_not_be_taken_say_why(steps: str, words: str) -> None:
    program = lower([mlp(6, 7, 8, apart=True)])
    with pytest.raises(UsageError, match=words):
        Schedule.parse(steps).apply(program)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_the_checker_of_schedules_finds_nothing_wrong_with_fewer_statements(kind: str) -> None:
    program = lower([mlp(4, 5, 6, kind=kind, apart=True)])
    verdict = check(program, Schedule.parse("inline hidden_1\nepilogue hidden_0 hidden"))
    assert verdict.verdict.grade is Grade.PROVED and not verdict.reassociated, verdict


def test_what_is_compared_for_equality_is_computed_once() -> None:
    (m,) = pl.axes("m")
    x = pl.tensor("x", (8,))
    s = pl.define("S", [m], x[m] * 0.1 + 0.3)
    y = pl.define("Y", [m], pl.where(pl.equal(s[m], 0.4), 1.0, 0.0))
    with pytest.raises(UsageError, match="compared"):
        Schedule.parse("inline S").apply(lower([y]))
