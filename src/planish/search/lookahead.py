"""Greedy search with look-ahead: the best step, judged by the best that can follow it.

Look-ahead 1 measures every one-action change of the plan and takes the best; look-ahead 2 also
measures what the most promising of them lead to, and takes the best pair (LoopTune's `greedy1`
and `greedy2`, 2309.01825).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.moves import deletions, extensions
from planish.search.protocol import Best, Plan, Space
from planish.search.rounds import RoundPolicy

_PROMISING = 6


class LookaheadPolicy(RoundPolicy):
    """Steps to the best plan within `depth` changes, until none is better.

    promising  first steps whose second steps are measured, the best ones (look-ahead 2)
    """

    def __init__(
        self, space: Space, seed: int = 0, *, depth: int = 1, promising: int = _PROMISING
    ) -> None:
        super().__init__(space.start)
        self._space = space
        self._rng = random.Random(seed)
        self._depth = depth
        self._promising = promising
        self._best = Best(space.start)
        self._round: list[Plan] = []
        self._queue: list[Plan] = []
        self._from: Plan | None = None
        self._ahead = 0

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        super().observe(plan, outcome)
        self._best.see(plan, outcome)

    def _following(self) -> Plan | None:
        return self._queue.pop() if self._queue else None

    def _advance(self) -> bool:
        """Begin the next sweep: around the best plan, or one step further out."""
        if self._from != self._best.plan:
            self._from, self._ahead = self._best.plan, 1
            self._sweep([self._from])
            return bool(self._queue) or self._further()
        return self._further()

    def _further(self) -> bool:
        while self._ahead < self._depth:
            self._ahead += 1
            measured = [plan for plan in self._round if plan in self._values]
            ranked = sorted(measured, key=lambda plan: (self._values[plan], plan.actions))
            self._sweep(ranked[: self._promising])
            if self._queue:
                return True
        return False

    def _sweep(self, plans: Sequence[Plan]) -> None:
        around = [n for plan in plans for n in (*extensions(self._space, plan),
                                                *deletions(self._space, plan))]  # fmt: skip
        self._round = list(dict.fromkeys(around))
        self._queue = [plan for plan in self._round if plan not in self._seen]
        self._rng.shuffle(self._queue)
