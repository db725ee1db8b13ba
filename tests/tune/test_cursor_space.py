"""Cursor actions: what they do, when they may be taken, and that every nest computes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

import planish as pl
from planish.tensor.expr import Tensor
from planish.tensor.program import lower
from planish.tensor.reference import evaluate, interpret
from planish.tensor.schedule import Schedule
from planish.tune.cursor_space import ACTIONS, CursorSpace
from planish.tune.kernel_training import softmax


def _product(m_: int = 6, n_: int = 20, k_: int = 5) -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_)), pl.tensor("B", (k_, n_))
    return pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))


def _text(*actions: str, tensor: Tensor | None = None) -> list[str]:
    space = CursorSpace(lower([tensor or _product()]))
    schedule = space.schedule(actions)
    assert schedule is not None, actions
    return str(schedule).splitlines()


def test_each_action_does_what_it_says() -> None:
    assert _text() == []
    assert _text("down", "swap_up") == ["reorder C n m k"]
    assert _text("swap_down") == ["reorder C n m k"]
    assert _text("swap_down", "swap_down") == ["reorder C n k m"], "the cursor goes with its loop"
    assert _text("down", "split_4") == ["split C n 4", "reorder C m n/4 n k"]
    assert _text("down", "split_8", "split_2") == [
        "split C n 16", "split C n 8", "reorder C m n/16 n/8 n k",
    ]  # fmt: skip
    assert _text("down", "split_4", "merge") == []
    assert _text("down", "down", "unroll") == ["unroll C k"]
    assert _text("down", "down", "unroll", "unroll") == []
    assert _text("down", "swap_down", "vectorise") == ["reorder C m k n", "vectorise C n"]


@pytest.mark.parametrize(
    "actions",
    [("up",), ("down", "down", "down"), ("split_8",), ("merge",), ("vectorise",), ("swap_up",),
     ("down", "split_4", "swap_down"), ("down", "down", "vectorise", "swap_up")],
)  # fmt: skip
def test_what_may_not_be_done_is_not_legal(actions: tuple[str, ...]) -> None:
    space = CursorSpace(lower([_product()]))
    assert space.legal(actions[:-1]) and not space.legal(actions)
    assert actions[-1] not in space.actions(space.start.acting(actions[:-1]))


@pytest.mark.parametrize("make", [_product, lambda: softmax(5, 12)])
def test_every_walk_computes_the_program_and_replays_from_its_text(make) -> None:
    program = lower([make()])
    space = CursorSpace(program)
    numbers = np.random.default_rng(0)
    arrays = {t.name: numbers.integers(-3, 4, t.shape).astype("f4") for t in program.inputs}
    wanted = evaluate(program, arrays)
    taken = set()
    for seed in range(6):
        draw, plan = random.Random(seed), space.start
        for _ in range(14):
            action = draw.choice(space.actions(plan))
            taken.add(action)
            plan = plan.acting((*plan.actions, action))
        schedule = space.schedule(plan.actions)
        assert schedule is not None and Schedule.parse(str(schedule)) == schedule
        found = interpret(schedule.apply(program), arrays)
        for name, values in wanted.items():
            assert np.allclose(found[name], values, rtol=1e-5)
    assert len(taken) > len(ACTIONS) // 2


def test_the_same_nest_has_the_same_text_however_it_was_reached() -> None:
    direct = _text("down", "split_4")
    detour = _text("down", "swap_up", "split_8", "merge", "swap_down", "split_4")
    assert direct == detour
