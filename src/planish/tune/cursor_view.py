"""What a network sees of a loop nest with a cursor in it: LoopTune's state.

Source: LoopTune (2309.01825): for each loop the cursor, its size, its tail, what kind it is, and a
histogram of the strides with which it walks memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planish.tensor.program import Program, Stage
from planish.tune.cursor_space import Loop, State, tail, trips
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import Target

MOST_LOOPS = 12
HIGHEST = 32.0  # no feature is larger
_BINS = 16
_OF_LOOP = (
    "cursor", "log size", "log tail", "reduces", "unrolled", "vectorised",
    *(f"strides of 2^{at}" for at in range(_BINS)),
)  # fmt: skip
FEATURES = tuple(f"loop {at}: {name}" for at in range(MOST_LOOPS) for name in _OF_LOOP)


class CursorView:
    """Features of the states of one program.

    Loops are shown from the first one of the stage under the cursor, MOST_LOOPS of them.
    """

    def __init__(self, program: Program, target: Target) -> None:
        self._stages = {stage.name: stage for stage in program.stages}
        self._strides = {s.name: _strides(StageRules(s, target, {})) for s in program.stages}
        self._rows: dict[tuple[str, tuple[Loop, ...]], NDArray[np.float64]] = {}

    def __call__(self, state: State) -> NDArray[np.float64]:
        """Shape (len(FEATURES),)."""
        found = np.zeros((MOST_LOOPS, len(_OF_LOOP)))
        number, at = state.place
        shown = [self._of_stage(name, loops) for name, loops in state.stages[number:]]
        rows = np.concatenate(shown)[:MOST_LOOPS]
        found[: len(rows)] = rows
        if at < MOST_LOOPS:
            found[at, 0] = 1.0
        return found.ravel()

    def _of_stage(self, name: str, loops: tuple[Loop, ...]) -> NDArray[np.float64]:
        if (name, loops) not in self._rows:
            stage, strides = self._stages[name], self._strides[name]
            rows = [_row(stage, strides[loops[at].axis], loops, at) for at in range(len(loops))]
            self._rows[name, loops] = np.array(rows).reshape(len(loops), len(_OF_LOOP))
        return self._rows[name, loops]


def _strides(rules: StageRules) -> dict[str, tuple[int, ...]]:
    """Elements that a step along each axis moves in what is read and written."""
    accesses = (*rules.stage.reads, rules.stage.out)
    return {
        axis: tuple(abs(rules.stride(access, axis)) for access in accesses)
        for axis in rules.stage.all_axes
    }


def _row(stage: Stage, strides: Sequence[int], loops: Sequence[Loop], at: int) -> list[float]:
    """One loop without the cursor; strides are in elements, in bins of powers of two."""
    loop = loops[at]
    row = [0.0] * len(_OF_LOOP)
    row[1:6] = (
        math.log2(max(1, trips(loops, at, stage))), math.log2(1 + tail(loops, at, stage)),
        float(loop.axis in stage.bound), float(loop.kind == "unroll"),
        float(loop.kind == "vector"),
    )  # fmt: skip
    for stride in strides:
        row[6 + min(_BINS - 1, (stride * loop.step).bit_length())] += 1  # bin 0: it does not move
    return row
