"""Recipes searched for many programs at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from planish.base.records import Failure, Measurement, Outcome
from planish.search.protocol import Plan
from planish.tune.common_search import search_common
from planish.tune.label import COMMON, Clock, label
from planish.tune.pass_space import PassSpace, describe
from planish.tune.winners import Sample, Settings

SPACE = PassSpace(Plan(("default<Oz>",)), ("a", "b", "c", "d"), ())


class _Program:
    """100 less what each action takes away here; an action of value None breaks the build."""

    def __init__(self, **lost: int | None) -> None:
        self.lost, self.built = lost, list[Plan]()

    def __call__(self, plans: Sequence[Plan]) -> list[Outcome]:
        self.built += plans
        return [self._one(plan) for plan in plans]

    def _one(self, plan: Plan) -> Outcome:
        found = [self.lost.get(action, 0) for action in set(plan.actions)]
        if None in found:
            return Outcome(describe(plan), failure=Failure.CRASH)
        return Outcome(describe(plan), Measurement(100.0 - sum(n or 0 for n in found), "bytes"))


def _samples(*programs: _Program) -> list[Sample]:
    outcomes = [program([SPACE.start])[0] for program in programs]
    pairs = zip(programs, outcomes, strict=True)
    return [Sample(f"p{at}", f"p{at}", each, o) for at, (each, o) in enumerate(pairs)]


def _found(samples: Sequence[Sample], common: int, tried: int = 60) -> list[Plan]:
    settings = Settings(common=common, tried=tried)
    return list(search_common(samples, SPACE, [Plan(("a",))], settings, lambda words: None))


def test_the_first_recipe_serves_most_and_the_next_what_is_left() -> None:
    # What helps one program much is worth less than what helps all three somewhat.
    one, two, three = _Program(a=9, b=5), _Program(b=5, c=-30), _Program(b=5, c=-30)
    three.lost["d"] = None
    samples = _samples(one, two, three)
    first, *_ = _found(samples, 1)
    assert set(first.actions) >= {"b", "a"} and not {"c", "d"} & set(first.actions)
    both = _found(_samples(_Program(a=8, b=-8), _Program(a=-8, b=8)), 5)
    assert len(both) == 2, "and no more once nothing adds"
    assert {"a", "b"} == {x for plan in both for x in plan.actions} - {"default<Oz>"}


def test_a_recipe_that_falls_behind_is_not_built_everywhere() -> None:
    programs = [_Program(a=5, b=-20) for _ in range(24)]
    _found(_samples(*programs), 1)
    bad = sum("b" in plan.actions for plan in programs[0].built)
    assert bad and sum("b" in plan.actions for plan in programs[-1].built) < bad / 3


def test_it_is_repeatable_and_needs_samples() -> None:
    made = [_samples(_Program(a=3, b=1, c=-1), _Program(b=4, d=1)) for _ in range(2)]
    assert _found(made[0], 2) == _found(made[1], 2)
    assert _found([], 2) == [] and _found(made[0], 0) == []


@pytest.mark.parametrize("late", [False, True])
def test_labels_hold_the_common_recipes(late: bool) -> None:
    samples = _samples(_Program(a=3, b=1), _Program(b=4))
    settings = Settings(searched=2, builds=4, common=1, tried=60)
    clock = Clock(0.0 if late else None)
    labels = label(samples, SPACE, [Plan(("c",))], settings, clock, lambda words: None)
    common = [plan for plan, origin in labels.plans if origin == COMMON]
    assert (not common) if late else {"a", "b"} <= set(common[0].actions)
