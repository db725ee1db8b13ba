"""Random loop nests of the kind that is fast: blocks, reductions, unrolled rows, one vector.

What a network is shown before it learns by itself: actions at random hardly ever come to a nest
that keeps its results in registers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from planish.tensor.program import Program, Stage
from planish.tune.cursor_space import SPLITS, Loop

Nest = tuple[Loop, ...]

_WIDTHS = (8, 16, 32, 64)  # elements of the vector loop
_ROWS = (1, 1, 2, 4, 4, 8)  # points of an axis that are unrolled
_BOUND = (1, 1, 1, 4)  # the same of an axis that is reduced
_BLOCKED = 0.2  # how often an axis has one more block, for the caches
_SHUFFLED = 0.4


def draw_nests(program: Program, draw: random.Random) -> tuple[Nest, ...]:
    """One nest for each stage, in the program's order."""
    return tuple(draw_nest(stage, draw) for stage in program.stages)


def draw_nest(stage: Stage, draw: random.Random) -> Nest:
    """Blocks outside, then reductions, unrolled rows, and the vector loop innermost."""
    every = tuple(stage.all_axes)
    if not every:
        return ()
    vector = draw.choice((every[-1], (stage.axes or every)[-1], draw.choice(every)))
    far: list[Loop] = []
    blocks: list[Loop] = []
    bound: list[Loop] = []
    rows: list[Loop] = []
    last: list[Loop] = []
    for axis in every:
        extent, reduced = stage.extents[axis], axis in stage.bound
        size = draw.choice(_WIDTHS if axis == vector else _BOUND if reduced else _ROWS)
        if size > 1:
            inside = last if axis == vector else rows
            inside.append(Loop(axis, 1, "vector" if axis == vector else "unroll"))
        if extent > size or size == 1:
            (bound if reduced else blocks).append(Loop(axis, size))
            larger = [s * size for s in SPLITS if s >= 8 and s * size < extent]
            if larger and draw.random() < _BLOCKED:
                far.append(Loop(axis, draw.choice(larger)))
    if draw.random() < _SHUFFLED:
        draw.shuffle(blocks)
    return (*far, *blocks, *bound, *rows, *last)


def change_nests(
    nests: tuple[Nest, ...], draw: random.Random, stages: Sequence[Stage]
) -> tuple[Nest, ...]:
    """One stage's nest drawn anew, or with one small change."""
    number = draw.randrange(len(nests))
    nest = list(nests[number])
    kind = draw.choice(("anew", "size", "order", "mark"))
    if kind == "anew" or len(nest) < 2:
        nest = list(draw_nest(stages[number], draw))
    elif kind == "size":
        at = draw.randrange(len(nest))
        step = max(1, draw.choice((nest[at].step * 2, nest[at].step // 2)))
        nest[at] = nest[at]._replace(step=step) if nest[at].step > 1 else nest[at]
    elif kind == "order":
        at = draw.randrange(len(nest) - 1)
        nest[at], nest[at + 1] = nest[at + 1], nest[at]
    else:
        at = draw.randrange(len(nest))
        if nest[at].kind != "vector":
            nest[at] = nest[at]._replace(kind="" if nest[at].kind else "unroll")
    return (*nests[:number], tuple(nest), *nests[number + 1 :])
