"""A policy from a stream of plans, such as a model's samples, drawn as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from planish.base.records import Outcome
from planish.search.protocol import Plan

_TRIES = 200


class StreamPolicy:
    """The plans in their order, each once, for as long as the stream brings new ones."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self._plans = iter(plans)
        self._seen: set[Plan] = set()

    def suggest(self, count: int) -> Sequence[Plan]:
        found: list[Plan] = []
        # A random decoder never ends and repeats itself.
        for plan in islice(self._plans, count * _TRIES):
            if plan not in self._seen:
                self._seen.add(plan)
                found.append(plan)
            if len(found) == count:
                break
        return found

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)
