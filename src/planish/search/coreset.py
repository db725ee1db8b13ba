"""Coreset search: a fixed list of plans, chosen on other programs, tried in order.

Source: "Learning compiler pass orders using coreset and normalized value prediction" (2301.05104).
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.protocol import Plan


class CoresetPolicy:
    """The plans, in their order; the caller leaves out those that its space does not know."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._waiting = list(plans)

    def suggest(self, count: int) -> Sequence[Plan]:
        plans, self._waiting = self._waiting[:count], self._waiting[count:]
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        return None
