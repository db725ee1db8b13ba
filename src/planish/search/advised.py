"""A policy with a model of outcomes: it builds what promises most, and learns from each build.

What it learns: the model's expectation is conditioned on every outcome; an action that changed
nothing here makes plans equal that differ in it alone, and no plan is built that equals one already
built. It stops once no plan promises enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from planish.base.records import Outcome
from planish.search.protocol import Plan, Space

# Of those tried at once all but the first are chosen without knowing how the others did.
_AT_ONCE = 2


class Model(Protocol):
    """What is expected of plans, each known by the number that `add` gives it."""

    def add(self, plans: Sequence[Plan]) -> Sequence[int]:
        """Further plans."""

    def see(self, number: int, value: float | None) -> None:
        """An outcome: log(value / baseline's), or None for a failure."""

    def expected(self, number: int) -> float:
        """The mean of log(value / baseline's) that is expected now."""

    def choose(self, numbers: Sequence[int], count: int, least: float) -> Sequence[int]:
        """At most `count` of these to try at once; none where less than `least` is promised."""


class AdvisedPolicy:
    """Tries plans by what the model promises of them.

    plans     candidates from the start, such as a decoder's samples
    least     share of the baseline's value that a build has to promise
    feedback  without it the model is never told an outcome
    """

    def __init__(
        self,
        space: Space,
        model: Model,
        plans: Sequence[Plan],
        least: float,
        *,
        feedback: bool = True,
    ) -> None:
        self._space, self._model = space, model
        self._least, self._feedback = least, feedback
        self._numbers: dict[Plan, int] = {}
        self._plans: list[Plan] = []
        self._candidates = self._known([p for p in plans if space.legal(p.actions)])
        self._tried: dict[Plan, tuple[float, tuple[tuple[str, float], ...]]] = {}
        self._given: set[int] = set()
        self._inert: set[str] = set()
        self._baseline: float | None = None

    @property
    def inert(self) -> frozenset[str]:
        """Actions that changed nothing here."""
        return frozenset(self._inert)

    def suggest(self, count: int) -> Sequence[Plan]:
        open_ = self._open()
        chosen = list(self._model.choose(open_, min(count, _AT_ONCE), self._least))
        self._given.update(chosen)
        return [self._plans[number] for number in chosen]

    def _open(self) -> list[int]:
        """Candidates that were not given out, and equal nothing built, nor one another."""
        seen = {self._reduce(plan) for plan in self._tried}
        found = []
        for number in sorted(self._candidates, key=lambda n: len(self._plans[n].actions)):
            reduced = self._reduce(self._plans[number])
            if number not in self._given and reduced not in seen:
                seen.add(reduced)
                found.append(number)
        return found

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if plan == self._space.start and outcome.ok:
            # No news to the model, which counts from there.
            self._baseline = outcome.value
            self._tried[plan] = (outcome.value, _parts(outcome))
            return
        if plan.everywhere or plan.parts or not self._baseline:
            return
        if outcome.ok:
            result = (outcome.value, _parts(outcome))
            self._compare(plan, result)
            self._tried[plan] = result
        [number] = self._known([plan])
        self._given.add(number)
        value = math.log(outcome.value / self._baseline) if outcome.ok else None
        self._model.see(number, value if self._feedback else self._model.expected(number))

    def _known(self, plans: Sequence[Plan]) -> list[int]:
        fresh = [plan for plan in dict.fromkeys(plans) if plan not in self._numbers]
        for plan, number in zip(fresh, self._model.add(fresh) if fresh else (), strict=True):
            self._numbers[plan] = number
            self._plans.append(plan)
        return [self._numbers[plan] for plan in dict.fromkeys(plans)]

    def _compare(self, plan: Plan, result: tuple[float, tuple[tuple[str, float], ...]]) -> None:
        """An action that one of two equal builds has more than the other did nothing."""
        if not self._feedback:
            return
        for other, known in self._tried.items():
            if known == result:
                for longer, shorter in ((plan, other), (other, plan)):
                    self._inert.update(_surplus(longer.actions, shorter.actions))

    def _reduce(self, plan: Plan) -> tuple[str, ...]:
        return tuple(action for action in plan.actions if action not in self._inert)


def _parts(outcome: Outcome) -> tuple[tuple[str, float], ...]:
    assert outcome.measurement is not None
    return tuple(sorted(outcome.measurement.parts.items()))


def _surplus(longer: tuple[str, ...], shorter: tuple[str, ...]) -> Iterator[str]:
    """The action that is left over where one action is all the difference."""
    if len(longer) != len(shorter) + 1:
        return
    for at, action in enumerate(longer):
        if (*longer[:at], *longer[at + 1 :]) == shorter and action not in shorter:
            yield action
            return
