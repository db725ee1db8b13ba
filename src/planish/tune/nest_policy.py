"""A search over whole loop nests: drawn at first, then changed from the fastest ones known."""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.base.errors import UsageError
from planish.base.records import Outcome
from planish.search.moves import fresh
from planish.search.protocol import Plan
from planish.tune.cursor_draws import Nest, change_nests, draw_nests
from planish.tune.cursor_limits import CursorLimits
from planish.tune.cursor_route import route
from planish.tune.cursor_space import CursorSpace, of_cursor
from planish.tune.stage_shape import Target

_PARENTS = 4
_TRIES = 20


class NestPolicy:
    """Plans are a cursor's.

    draws  how many nests are drawn before the fastest are changed; those of other policies that
           were observed count as known, and nests are drawn for as long as none is known
    """

    def __init__(self, space: CursorSpace, target: Target, seed: int, draws: int) -> None:
        self._space = space
        self._may_run = CursorLimits(space.program, target)
        self._draw = random.Random(seed)
        self._draws = draws
        self._seen: set[Plan] = {space.start}
        self._known: dict[Plan, float] = {}

    def suggest(self, count: int) -> Sequence[Plan]:
        drawn = min(count, max(0, self._draws)) if self._known else count
        found = fresh(self._drawn, self._seen, drawn, _TRIES)
        self._draws -= len(found)
        if self._known:
            ranked = sorted(self._known, key=lambda plan: (self._known[plan], plan.actions))
            parents = [self._nests(plan) for plan in ranked[:_PARENTS]]
            left = count - len(found)
            found += fresh(lambda: self._changed(parents), self._seen, left, _TRIES)
        return found

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if of_cursor(plan.actions):
            self._seen.add(plan)
            if outcome.ok:
                self._known[plan] = outcome.value

    def _drawn(self) -> Plan:
        return self._plan(draw_nests(self._space.program, self._draw))

    def _changed(self, parents: Sequence[tuple[Nest, ...]]) -> Plan:
        parent = self._draw.choice(parents)
        return self._plan(change_nests(parent, self._draw, self._space.program.stages))

    def _plan(self, nests: tuple[Nest, ...]) -> Plan:
        """How to come to the nests; the start, which was seen, where there is no good way."""
        try:
            plan = Plan(route(nests, self._space.program))
        except UsageError:  # a change that no actions lead to
            return self._space.start
        state = self._space.state(plan.actions)
        good = state is not None and self._may_run(state) and self._space.legal(plan.actions)
        return plan if good else self._space.start

    def _nests(self, plan: Plan) -> tuple[Nest, ...]:
        state = self._space.state(plan.actions)
        assert state is not None
        return tuple(loops for _, loops in state.stages)
