"""Random search: the baseline with a few random actions scattered into it.

The rival that every learned policy has to beat at equal cost (CompilerGym's leaderboard).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.moves import fresh, scatter
from planish.search.protocol import Plan, Space

_LONGEST = 8
_TRIES = 50


class RandomPolicy:
    """Unique random plans; the number of inserted actions is uniform from 1 to 8."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._seen: set[Plan] = {space.start}

    def suggest(self, count: int) -> Sequence[Plan]:
        return fresh(self._draw, self._seen, count, _TRIES)

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)

    def _draw(self) -> Plan:
        steps = self._rng.randint(1, _LONGEST)
        return scatter(self._space, self._space.start, steps, self._rng)
