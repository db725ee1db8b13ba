"""Beam search: from the best few plans to all their extensions, level by level or deepest first.

As LoopTune's peers do (2309.01825): breadth first keeps the best `width` plans of each length;
depth first follows the most promising extension to its end before it comes back to the next.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from planish.search.moves import extensions
from planish.search.protocol import Plan, Space
from planish.search.rounds import RoundPolicy


class BeamPolicy(RoundPolicy):
    """Measures every extension of a plan, and goes on from those that are better than it.

    width  breadth first: plans that are kept of each length; depth first: extensions of each plan
           that are followed
    depth  most actions of a plan
    A plan whose extensions are no better than itself is an end.
    """

    def __init__(
        self, space: Space, seed: int = 0, *, width: int = 4, depth: int = 10,
        deep: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(space.start)
        self._space = space
        self._rng = random.Random(seed)
        self._width = width
        self._longest = depth
        self._deep = deep
        self._open: list[Plan] = [space.start]
        self._children: Iterator[Plan] = iter(())
        self._level: list[Plan] = []

    def _following(self) -> Plan | None:
        return next(self._children, None)

    def _advance(self) -> bool:
        """The next plans whose extensions are to be measured; False where there are none."""
        while self._level or self._open:
            better = [p for p in self._level if self._values.get(p, float("inf")) < self._bar]
            best = sorted(better, key=lambda p: (self._values[p], p.actions))[: self._width]
            self._level = []
            if self._deep:
                self._open = best + self._open
                chosen, self._open = self._open[:1], self._open[1:]
            else:
                chosen = best or self._open
                self._open = []
            self._bar = min((self._values.get(p, float("inf")) for p in chosen), default=0.0)
            fresh = [child for plan in chosen for child in self._extended(plan)]
            if fresh:
                self._rng.shuffle(fresh)
                self._level = fresh
                self._children = iter(fresh)
                return True
        return False

    _bar = float("inf")

    def _extended(self, plan: Plan) -> list[Plan]:
        if len(plan.actions) >= self._longest:
            return []
        found = dict.fromkeys(extensions(self._space, plan))
        return [child for child in found if child not in self._seen]
