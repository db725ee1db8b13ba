"""The actions of a cursor that make a given loop nest: splits, then the order, then marks."""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.errors import UsageError
from planish.tensor.program import Program
from planish.tune.cursor_space import Loop, act, begin


def route(target: Sequence[Sequence[Loop]], program: Program) -> tuple[str, ...]:
    """Actions from the plain nest to the target's loops, stage by stage in the program's order.

    Equal targets have equal routes, and a route depends on nothing but the nest that stands and
    the target, so that a network can learn it. Raises UsageError where a loop cannot be made.
    """
    walk = _Walk(program)
    first = 0
    for number, loops in enumerate(target):
        walk.stage(number, first, tuple(loops))
        if walk.state.stages[number][1] != tuple(loops):
            raise UsageError(f"no actions lead to {' '.join(loop.name for loop in loops)}")
        first += len(loops)
    return tuple(walk.actions)


class _Walk:
    def __init__(self, program: Program) -> None:
        self._stages = {stage.name: stage for stage in program.stages}
        self.state = begin(program)
        self.actions: list[str] = []

    def stage(self, number: int, first: int, target: tuple[Loop, ...]) -> None:
        """One stage's loops, the first of which has the number `first` among all."""
        blocks = sorted({(loop.axis, loop.step) for loop in target if loop.step > 1})
        for axis, step in blocks:
            # The smaller block of the axis stands already: the new one is a multiple of it.
            inner = max([s for a, s in blocks if a == axis and s < step], default=1)
            at = self._find(number, axis, inner)
            self._to(first + at)
            self._do(f"split_{step // inner}")
        for at, loop in enumerate(target):
            here = self._find(number, loop.axis, loop.step)
            if here != at:
                self._to(first + here)
                for _ in range(here - at):
                    self._do("swap_up")
        for kind, action in (("unroll", "unroll"), ("vector", "vectorise")):
            for at, loop in enumerate(target):
                if loop.kind == kind:
                    self._to(first + at)
                    self._do(action)

    def _find(self, number: int, axis: str, step: int) -> int:
        for at, loop in enumerate(self.state.stages[number][1]):
            if (loop.axis, loop.step) == (axis, step):
                return at
        raise UsageError(f"there is no loop over {axis} in steps of {step}")

    def _to(self, cursor: int) -> None:
        while self.state.cursor != cursor:
            self._do("down" if self.state.cursor < cursor else "up")

    def _do(self, action: str) -> None:
        after = act(self.state, action, self._stages)
        if after is None:
            raise UsageError(f"{action} may not be taken after {' '.join(self.actions)}")
        self.state = after
        self.actions.append(action)
