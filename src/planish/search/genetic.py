"""Genetic search: tournament selection, one-point crossover, mutation, and local search.

Every fourth child is a local step, one mutation of the best plan or a deletion from it: deletion
keeps plans short, which makes them cheap, readable and likely to serve other tasks as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.moves import cross, deletions, fresh, mutate, scatter
from planish.search.protocol import Best, Plan, Space

_POPULATION = 24
_TOURNAMENT = 3
_LOCAL_EVERY = 4
_TRIES = 30


class GeneticPolicy:
    """A steady-state population of the best distinct plans; equal artefacts take one place."""

    def __init__(self, space: Space, seed: int = 0, seeds: Sequence[Plan] = ()) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._waiting = list(seeds)
        self._best = Best(space.start)
        self._members: list[tuple[float, Plan]] = []
        self._identities: set[str] = set()
        self._seen: set[Plan] = {space.start}
        self._born = 0

    def suggest(self, count: int) -> Sequence[Plan]:
        return fresh(self._next, self._seen, count, _TRIES)

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)
        self._best.see(plan, outcome)
        if not outcome.ok or (outcome.identity and outcome.identity in self._identities):
            return
        self._identities.add(outcome.identity)
        self._members.append((outcome.value, plan))
        self._members.sort(key=lambda member: member[0])
        del self._members[_POPULATION:]

    def _next(self) -> Plan:
        return self._waiting.pop(0) if self._waiting else self._child()

    def _child(self) -> Plan:
        self._born += 1
        if self._born % _LOCAL_EVERY == 0:
            return self._local()
        if len(self._members) < _POPULATION // 2 and self._rng.random() < 0.5:
            steps = self._rng.randint(1, 6)
            return scatter(self._space, self._space.start, steps, self._rng)
        child = self._chosen()
        if self._rng.random() < 0.6:
            child = cross(self._space, child, self._chosen(), self._rng)
        if self._rng.random() < 0.8:
            child = mutate(self._space, child, self._rng)
        return child

    def _local(self) -> Plan:
        best = self._best.plan
        shorter = [plan for plan in deletions(self._space, best) if plan not in self._seen]
        if shorter and self._rng.random() < 0.3:
            return self._rng.choice(shorter)
        return mutate(self._space, best, self._rng)

    def _chosen(self) -> Plan:
        if not self._members:
            return self._space.start
        drawn = [self._rng.choice(self._members) for _ in range(_TOURNAMENT)]
        return min(drawn, key=lambda member: member[0])[1]
