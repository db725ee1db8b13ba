"""The measurement of kernels, on a pretended device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pretended import Pretended

from planish.tune.gpu_bench import Contest, rank_correlation, run_contest


def contest(device: Pretended) -> Contest:
    def rival(name: str, cost: float, factor: float) -> Callable[..., None]:
        def call(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            device.cost = cost
            device.order.append(name)
            device.seen.append(float(inputs[0][0]))
            if factor:
                outputs[0][...] = inputs[0] * factor

        return call

    def broken(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        raise RuntimeError("no such kernel")

    return Contest(
        "double", lambda seed: [(np.random.default_rng(seed).random(8), "f32")], [((8,), "f32")],
        {"planish": rival("planish", 1.0, 2.0), "slow": rival("slow", 3.0, 2.0),
         "wrong": rival("wrong", 0.1, 2.1), "idle": rival("idle", 0.1, 0.0), "broken": broken},
        lambda arrays: [arrays[0] * 2.0], 1e-3, 8.0,
    )  # fmt: skip


def test_only_right_rivals_are_timed_and_ratios_are_told() -> None:
    device = Pretended()
    report = run_contest(device, contest(device), rounds=20)
    assert set(report.refused) == {"wrong", "idle", "broken"}
    assert "off by" in report.refused["wrong"] and "no such kernel" in report.refused["broken"]
    timings = {t.rival: t for t in report.timings}
    assert timings["planish"].ratio is None
    assert timings["slow"].ratio == (3.0, 3.0, 3.0)
    assert timings["planish"].samples == 20


def test_every_sample_is_flushed_turns_are_shuffled_and_inputs_change() -> None:
    device = Pretended()
    run_contest(device, contest(device), rounds=20, sets=4)
    timed = device.order[-40:]
    assert device.flushed == 40
    assert {tuple(timed[i : i + 2]) for i in range(0, 40, 2)} == {
        ("planish", "slow"), ("slow", "planish"),
    }  # fmt: skip
    assert len(set(device.seen[-40:])) == 4


def test_the_same_seed_gives_the_same_order() -> None:
    first, second = Pretended(), Pretended()
    run_contest(first, contest(first), seed=5)
    run_contest(second, contest(second), seed=5)
    assert first.order == second.order


@given(st.lists(st.integers(-100, 100), min_size=3, max_size=20, unique=True))
def test_rank_correlation(values: list[int]) -> None:
    assert rank_correlation(values, [2 * v + 1 for v in values]) == pytest.approx(1.0)
    assert rank_correlation(values, [-v for v in values]) == pytest.approx(-1.0)
