"""A known list of plans, in the order of what a belief expects of them, revised by each outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planish.base.records import Outcome
from planish.search.protocol import Plan


class Belief(Protocol):
    """What is expected of each of a list of plans."""

    def choose(self, count: int, least: float = 0.0) -> Sequence[int]:
        """Plans to try next, at most `count`; none where less than `least` is to be gained."""

    def see(self, recipe: int, ratio: float | None) -> None:
        """What became of a plan: its value over the baseline's, or None for a failure."""


class ExpectedPolicy:
    """Tries what the belief expects most of, and stops once that is next to nothing.

    least  share of the baseline's value that a build has to promise
    """

    def __init__(self, start: Plan, plans: Sequence[Plan], belief: Belief, least: float) -> None:
        self._start = start
        self._plans = list(plans)
        self._at = {plan: at for at, plan in enumerate(plans)}
        self._belief = belief
        self._least = least
        self._baseline: float | None = None

    def suggest(self, count: int) -> Sequence[Plan]:
        return [self._plans[at] for at in self._belief.choose(count, self._least)]

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if plan == self._start and outcome.ok:
            self._baseline = outcome.value
        if plan in self._at and self._baseline:
            ratio = outcome.value / self._baseline if outcome.ok else None
            self._belief.see(self._at[plan], ratio)
