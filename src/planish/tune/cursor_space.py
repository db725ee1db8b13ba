"""LoopTune's view of a loop nest: a cursor that walks over loops and changes what it stands on.

The actions are those of the paper (2309.01825): up, down, swap_up, swap_down, split_2 .. split_64,
and merge, unroll, vectorise beside them. A plan is a sequence of them; its schedule is text in
the same steps (split, reorder, unroll, vectorise) as every other schedule, so that what a cursor
found is stored, kept in lockfiles and replayed like anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planish.base.errors import UsageError
from planish.search.protocol import Plan
from planish.tensor.program import Program, Stage
from planish.tensor.schedule import Schedule, Step, step

SPLITS = (2, 4, 8, 16, 32, 64)
ACTIONS = (
    "up", "down", "swap_up", "swap_down", *(f"split_{size}" for size in SPLITS), "merge", "unroll",
    "vectorise",
)  # fmt: skip
MOVES = frozenset({"up", "down"})

LONGEST = 64  # actions of a plan: a blocked convolution takes about 50

# Copies of a loop's body, over all unrolled loops of a stage: more is no kernel any more.
_UNROLLED = 256


def of_cursor(actions: Sequence[str]) -> bool:
    """Whether a plan's actions are a cursor's; nothing is no cursor's."""
    return bool(actions) and actions[0] in ACTIONS


class Loop(NamedTuple):
    """One loop: its axis, its step, and "", "unroll" or "vector"."""

    axis: str
    step: int
    kind: str = ""

    @property
    def name(self) -> str:
        """How schedules call it."""
        return self.axis if self.step == 1 else f"{self.axis}/{self.step}"


class State(NamedTuple):
    """Loops of every stage, outermost first, and the number of the loop under the cursor.

    Loops are numbered through all stages, in the order in which stages run.
    """

    stages: tuple[tuple[str, tuple[Loop, ...]], ...]
    cursor: int = 0

    @property
    def loops(self) -> tuple[tuple[str, Loop], ...]:
        """Every loop with its stage."""
        return tuple((name, loop) for name, loops in self.stages for loop in loops)

    @property
    def place(self) -> tuple[int, int]:
        """The number of the stage under the cursor, and of the loop within it."""
        at = self.cursor
        for number, (_, loops) in enumerate(self.stages):
            if at < len(loops):
                return number, at
            at -= len(loops)
        return 0, 0  # there is no loop at all


class CursorSpace:
    """Plans are action words; the start is the program's plain nest."""

    def __init__(self, program: Program, longest: int = LONGEST) -> None:
        self.program = program
        self._longest = longest
        self._stages = {stage.name: stage for stage in program.stages}
        self._states: dict[tuple[str, ...], State | None] = {(): begin(program)}
        self._schedules: dict[tuple[tuple[str, tuple[Loop, ...]], ...], Schedule | None] = {}

    @property
    def start(self) -> Plan:
        """No change."""
        return Plan()

    def actions(self, plan: Plan) -> Sequence[str]:
        """Those that may be taken next."""
        return tuple(a for a in ACTIONS if self.legal((*plan.actions, a)))

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether every action may be taken where it stands, and a schedule comes of them."""
        return len(actions) <= self._longest and self.schedule(tuple(actions)) is not None

    def state(self, actions: tuple[str, ...]) -> State | None:
        """Where the actions lead; None where one may not be taken."""
        if actions not in self._states:
            before = self.state(actions[:-1])
            after = None if before is None else act(before, actions[-1], self._stages)
            self._states[actions] = after
        return self._states[actions]

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        """The schedule that the actions make."""
        state = self.state(actions)
        if state is None:
            return None
        if state.stages not in self._schedules:
            self._schedules[state.stages] = self._checked(to_schedule(state, self.program))
        return self._schedules[state.stages]

    def _checked(self, schedule: Schedule) -> Schedule | None:
        try:
            schedule.apply(self.program)
        except UsageError:
            return None
        return schedule


def begin(program: Program) -> State:
    """The plain nest, the cursor on its first loop."""
    return State(
        tuple((s.name, tuple(Loop(axis, 1) for axis in s.all_axes)) for s in program.stages)
    )


def act(state: State, action: str, stages: dict[str, Stage]) -> State | None:
    """The state after one action; None where it may not be taken there."""
    count = sum(len(loops) for _, loops in state.stages)
    if action in MOVES:
        to = state.cursor + (1 if action == "down" else -1)
        return state._replace(cursor=to) if 0 <= to < count else None
    if not count or action not in ACTIONS:
        return None
    where, at = state.place
    name, loops = state.stages[where]
    changed = _change(loops, at, action, stages[name])
    if changed is None:
        return None
    rest, moved = changed
    every = (*state.stages[:where], (name, rest), *state.stages[where + 1 :])
    return State(every, state.cursor + moved)


def _change(
    loops: tuple[Loop, ...], at: int, action: str, stage: Stage
) -> tuple[tuple[Loop, ...], int] | None:
    """One stage's loops after the action, and how far the cursor moves with its loop."""
    if action in ("swap_up", "swap_down"):
        other = at + (1 if action == "swap_down" else -1)
        return _swap(loops, at, other)
    loop = loops[at]
    if action == "merge":
        # Its points are walked by the loops of the same axis inside it.
        return None if loop.step == 1 else ((*loops[:at], *loops[at + 1 :]), 0)
    if action == "unroll":
        return _unroll(loops, at, stage)
    if action == "vectorise":
        inner = at == len(loops) - 1 and loop.step == 1 and not loop.kind
        return ((*loops[:at], loop._replace(kind="vector")), 0) if inner else None
    return _split(loops, at, int(action.removeprefix("split_")), stage)


def _swap(loops: tuple[Loop, ...], at: int, other: int) -> tuple[tuple[Loop, ...], int] | None:
    if not 0 <= other < len(loops):
        return None
    one, two = loops[at], loops[other]
    if one.axis == two.axis or "vector" in (one.kind, two.kind):
        return None
    changed = list(loops)
    changed[at], changed[other] = two, one
    return tuple(changed), other - at


def _unroll(loops: tuple[Loop, ...], at: int, stage: Stage) -> tuple[tuple[Loop, ...], int] | None:
    """Mark the loop, or take the mark off."""
    loop = loops[at]
    if loop.kind == "vector":
        return None
    kind = "" if loop.kind else "unroll"
    changed = (*loops[:at], loop._replace(kind=kind), *loops[at + 1 :])
    copies = 1
    for number, one in enumerate(changed):
        if one.kind == "unroll":
            copies *= trips(changed, number, stage)
    return (changed, 0) if copies <= _UNROLLED else None


def _split(
    loops: tuple[Loop, ...], at: int, size: int, stage: Stage
) -> tuple[tuple[Loop, ...], int] | None:
    loop = loops[at]
    if loop.kind or trips(loops, at, stage) <= size:
        return None
    block = Loop(loop.axis, loop.step * size)
    return (*loops[:at], block, *loops[at:]), 0


def trips(loops: Sequence[Loop], at: int, stage: Stage) -> int:
    """How often the loop runs each time that it is reached, the last time perhaps less often."""
    loop = loops[at]
    around = [o.step for o in loops[:at] if o.axis == loop.axis]
    length = min([*around, stage.extents[loop.axis]])
    return -(-length // loop.step)


def tail(loops: Sequence[Loop], at: int, stage: Stage) -> int:
    """Points that the loop's last round has less than the others; 0 where it comes out even."""
    loop = loops[at]
    around = [o.step for o in loops[:at] if o.axis == loop.axis]
    length = min([*around, stage.extents[loop.axis]])
    return -length % loop.step


def to_schedule(state: State, program: Program) -> Schedule:
    """Splits, then the order, then marks: the same text however the state was reached."""
    steps: list[Step] = []
    first = {stage.name: stage for stage in program.stages}
    for name, loops in state.stages:
        blocks = sorted({(o.axis, -o.step) for o in loops if o.step > 1})
        steps += [step("split", name, axis, -size) for axis, size in blocks]
        if [loop.name for loop in loops] != list(first[name].all_axes):
            steps.append(step("reorder", name, *(loop.name for loop in loops)))
        steps += [step("unroll", name, o.name) for o in loops if o.kind == "unroll"]
        steps += [step("vectorise", name, o.name) for o in loops if o.kind == "vector"]
    return Schedule(tuple(steps))
