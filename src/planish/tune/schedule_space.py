"""All schedules that a search may come to: changes to the rules' choices, and a cursor's nests."""

from __future__ import annotations

from collections.abc import Sequence

from planish.search.protocol import Plan
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.cursor_space import CursorSpace, of_cursor
from planish.tune.loop_space import LoopSpace
from planish.tune.stage_shape import Target


class AllSchedules:
    """A plan is one of `choices` or one of `cursor`, which its actions tell; none is the rules'."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.choices = LoopSpace(program, target)
        self.cursor = CursorSpace(program)

    @property
    def start(self) -> Plan:
        """The rules' own schedule."""
        return self.choices.start

    def actions(self, plan: Plan) -> Sequence[str]:
        """Those of the granularity that the plan is of."""
        return self._of(plan.actions).actions(plan)

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether the actions may stand together in this order."""
        return self._of(actions).legal(actions)

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        """The schedule of a plan; None where a step may not be taken."""
        return self._of(actions).schedule(actions)

    def _of(self, actions: Sequence[str]) -> LoopSpace | CursorSpace:
        return self.cursor if of_cursor(actions) else self.choices
