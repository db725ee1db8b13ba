"""Greedy search: try one action after another on the best plan, keep what helps.

First improvement rather than best improvement: with some 150 actions a full sweep for each step
would cost more builds than most budgets hold.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from planish.base.records import Outcome
from planish.search.moves import extended
from planish.search.protocol import Best, Plan, Space


class GreedyPolicy:
    """Extends the best plan by one action, in `order` (or shuffled), until a sweep gains nothing.

    order  actions to try first, most promising first; the rest is left out when it is given
    """

    def __init__(self, space: Space, seed: int = 0, order: Sequence[str] = ()) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._order = tuple(order)
        self._best = Best(space.start)
        self._seen: set[Plan] = {space.start}
        self._sweep: Iterator[str] = iter(())
        self._swept: Plan | None = None

    def suggest(self, count: int) -> Sequence[Plan]:
        plans: list[Plan] = []
        while len(plans) < count:
            action = next(self._sweep, None)
            if action is None:
                if self._swept == self._best.plan:
                    break
                self._swept = self._best.plan
                self._sweep = iter(self._choices())
                continue
            plan = extended(self._space, self._best.plan, action)
            if plan is not None and plan not in self._seen:
                self._seen.add(plan)
                plans.append(plan)
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)
        self._best.see(plan, outcome)

    def _choices(self) -> Sequence[str]:
        if self._order:
            return self._order
        actions = list(self._space.actions(self._best.plan))
        self._rng.shuffle(actions)
        return actions
