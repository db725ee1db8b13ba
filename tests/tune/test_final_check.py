"""What a kernel search keeps at its end."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from planish.search.protocol import Plan
from planish.tensor.program import lower
from planish.tensor.schedule import Schedule
from planish.tune.final_check import Kept, confirmed
from planish.tune.kernel_requests import Measured
from planish.tune.kernel_training import matmul


class _Space:
    """Plans are one word each, which is the name of an axis to split, or "same" for the rules'."""

    program = lower([matmul(8, 8, 8)])

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        if actions == ("none",):
            return None
        wide = {(): 2, ("same",): 2, ("a",): 3, ("b",): 4, ("c",): 5, ("d",): 6}[actions]
        return Schedule.parse(f"split m {wide} m_i")


class _Evaluator:
    """Says for each schedule, one time after the other, how long it takes to the rules' 1."""

    def __init__(self, **times: list[float | None]) -> None:
        space = _Space()
        self.times = {str(space.schedule((name,))): list(each) for name, each in times.items()}
        self.asked: list[float] = []

    def confirm(self, text: str, seconds: float) -> Measured | None:
        self.asked.append(seconds)
        time = self.times[text].pop(0)
        if time is None:
            return None
        noise = [1 + 0.001 * (at % 5) for at in range(30)]
        return Measured(tuple(noise), tuple(time * one for one in noise), (1.0, 1.0))


def _kept(evaluator: _Evaluator, values: Mapping[str, float]) -> Kept:
    plans = {Plan((name,)): value for name, value in values.items()}
    return confirmed(evaluator, _Space(), plans, 1.0, random.Random(0))  # type: ignore[arg-type]


def test_of_those_near_the_best_the_one_that_is_best_again_is_kept() -> None:
    evaluator = _Evaluator(a=[0.95], b=[0.8, 0.82], c=[0.9], d=[])
    kept = _kept(evaluator, {"d": 0.799, "a": 0.780, "b": 0.785, "c": 0.79, "same": 0.781})
    assert kept.plan == Plan(("b",)) and kept.schedule == _Space().schedule(("b",))
    assert kept.ratio[1] == pytest.approx(0.82) and kept.best / kept.baseline == pytest.approx(0.82)
    assert len(evaluator.asked) == 4, "three, then the best of them"


@pytest.mark.parametrize(
    "times", [[1.0], [1.2], [None], [0.9, 1.0], [0.9, 1.1], [0.9, None]], ids=str
)
def test_what_does_not_win_twice_is_not_kept(times: list[float | None]) -> None:
    kept = _kept(_Evaluator(a=times), {"a": 0.9})
    assert kept.plan == Plan() and kept.schedule == _Space().schedule(())
    assert kept.ratio == (1.0, 1.0, 1.0) and kept.best == kept.baseline


def test_nothing_is_measured_where_nothing_was_better() -> None:
    evaluator = _Evaluator()
    for values in ({}, {"a": 1.1}, {"same": 0.9}, {"none": 0.9}):
        assert _kept(evaluator, values).plan == Plan()
    assert not evaluator.asked
