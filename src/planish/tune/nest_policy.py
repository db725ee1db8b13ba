"""A search over whole loop nests: drawn at first, then changed from the fastest ones known."""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.base.errors import UsageError
from planish.base.records import Outcome
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
        self._seen: set[Plan] = set()
        self._known: dict[Plan, float] = {}

    def suggest(self, count: int) -> Sequence[Plan]:
        found: list[Plan] = []
        for _ in range(count * _TRIES):
            if len(found) == count:
                break
            plan = self._next()
            if plan is not None and plan not in self._seen and self._legal(plan):
                self._seen.add(plan)
                self._draws -= 1
                found.append(plan)
        return found

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if of_cursor(plan.actions):
            self._seen.add(plan)
            if outcome.ok:
                self._known[plan] = outcome.value

    def _legal(self, plan: Plan) -> bool:
        state = self._space.state(plan.actions)
        return state is not None and self._may_run(state) and self._space.legal(plan.actions)

    def _next(self) -> Plan | None:
        program = self._space.program
        if self._draws > 0 or not self._known:
            nests = draw_nests(program, self._draw)
        else:
            parents = sorted(self._known, key=lambda plan: (self._known[plan], plan.actions))
            parent = self._draw.choice(parents[:_PARENTS])
            nests = change_nests(self._nests(parent), self._draw, program.stages)
        try:
            return Plan(route(nests, program))
        except UsageError:  # a change that no actions lead to
            return None

    def _nests(self, plan: Plan) -> tuple[Nest, ...]:
        state = self._space.state(plan.actions)
        assert state is not None
        return tuple(loops for _, loops in state.stages)
