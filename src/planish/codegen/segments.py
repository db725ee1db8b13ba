"""How loops are cut: into iterations of equal length, and where kernels begin in them."""

from __future__ import annotations

from collections.abc import Sequence

from planish.tensor.loops import For
from planish.tensor.program import Stage


def segments_of(
    full: int, rest: int, step: int, flags: tuple[bool, bool] | None
) -> list[tuple[int, int, tuple[bool, bool] | None]]:
    """A loop's iterations as (trips, length, (first, last)), alike ones together.

    The first and the last iteration stand apart where a reduction begins or ends in them.
    """
    ordered = [(full, step), (1, rest)] if rest else [(full, step)]
    if flags is None:
        return [(trips, size, None) for trips, size in ordered if trips]
    singles: list[tuple[int, int]] = []
    for trips, size in ordered:
        cuts = [1, trips - 2, 1] if trips > 2 else [1] * trips
        singles += [(cut, size) for cut in cuts]
    found: list[tuple[int, int, tuple[bool, bool] | None]] = []
    for at, (trips, size) in enumerate(singles):
        flag = (flags[0] and at == 0, flags[1] and at == len(singles) - 1)
        if found and found[-1][1:] == (size, flag):
            found[-1] = (found[-1][0] + trips, size, flag)
        else:
            found.append((trips, size, flag))
    return found


def kernel_start(stage: Stage, path: Sequence[For]) -> int:
    """The first loop from which on there are only the stage's reductions and written-out loops."""
    at = len(path)
    while at:
        loop = path[at - 1]
        inside = loop.axis in stage.bound or loop.kind in ("unroll", "vector")
        if not inside or loop.kind == "parallel" or len(loop.stages) > 1:
            break
        at -= 1
    return at
