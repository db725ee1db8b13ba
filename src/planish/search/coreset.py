"""Coreset search: a fixed list of plans, chosen on other programs, tried in order.

Source: "Learning compiler pass orders using coreset and normalized value prediction" (2301.05104).
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.protocol import Plan, Space


class CoresetPolicy:
    """The plans of the coreset that are legal in this space, in the coreset's order."""

    def __init__(self, space: Space, plans: Sequence[Plan]) -> None:
        self._waiting = [plan for plan in plans if space.legal(plan.actions)]

    def suggest(self, count: int) -> Sequence[Plan]:
        plans, self._waiting = self._waiting[:count], self._waiting[count:]
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        return None
