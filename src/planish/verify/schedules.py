"""Does a schedule keep what its program computes?

Three things are looked at, each by itself: that every point is visited once and after what it
reads (dependences, on the loops themselves), that no floating-point reduction is taken in another
order unless that is allowed, and that the reference interpreter, walking the nest point by point,
gives what the program means. The laws behind the steps are proved once: `proofs/schedules.v`, and
as SMT queries over symbolic bounds in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planish.base.errors import Unreadable, UsageError
from planish.base.records import Grade, Verdict
from planish.tensor.einsum import einsum_program, extents_of, parse_spec
from planish.tensor.loops import For, Nest, path_of
from planish.tensor.program import Program, Stage, lower
from planish.tensor.schedule import Schedule
from planish.tensor.types import type_of

if TYPE_CHECKING:
    from planish.tensor.reference import Array

MOST_POINTS = 300_000  # that the interpreter walks: about ten seconds
_SEED = 7


@dataclass(frozen=True)
class LoopVerdict:
    """How far a schedule is checked.

    reassociated  stages whose floating-point reduction is taken in another order
    reason        why it is not all proved or tested
    points        that the interpreter has walked; 0 where it was too many
    """

    verdict: Verdict
    reassociated: tuple[str, ...] = ()
    reason: str = ""
    points: int = 0


def read_task(text: str) -> tuple[Program, Schedule]:
    """A file: `einsum SPEC m=8,k=4,n=6 [TYPE] [SEMIRING]`, then one schedule step a line.

    Raises UsageError for what cannot be read.
    """
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines) if line.split("#")[0].split()), None)
    words = lines[at].split("#")[0].split() if at is not None else []
    if len(words) < 3 or words[0] != "einsum" or len(words) > 5:
        raise UsageError(
            "the first line names no program",
            hint="write: einsum mk,kn->mn m=64,k=64,n=64 [f32] [sum-product], then the steps",
        )
    spec, given = parse_spec(words[1]), _extents(words[2])
    kind = type_of(words[3] if len(words) > 3 else "f32")
    semiring = words[4] if len(words) > 4 else "sum-product"
    shapes = extents_of(spec, given)
    tensor = einsum_program(spec, shapes, [kind] * len(shapes), semiring=semiring)
    assert at is not None
    return lower([tensor]), Schedule.parse("\n".join(lines[at + 1 :]))


def _extents(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in text.split(","):
        name, _, number = word.partition("=")
        if not number.isdigit() or not int(number) or name in found:
            raise UsageError(f"cannot read the length '{word}'", hint="write m=64,k=64,n=64")
        found[name] = int(number)
    return found


def check(program: Program, schedule: Schedule, *, reassociate: bool = False) -> LoopVerdict:
    """The verdict; a step that may not be taken is refuted with its reason.

    reassociate  floating-point reductions may be taken in another order
    Raises Unreadable for a step that names what is not there: that is no verdict.
    """
    try:
        nest = schedule.apply(program)
    except Unreadable:
        raise
    except UsageError as error:
        return LoopVerdict(Verdict(Grade.REFUTED), reason=error.message)
    missed = next((words for s in nest.program.stages if (words := _visits(nest, s))), "")
    if missed:
        return LoopVerdict(Verdict(Grade.REFUTED), reason=missed)
    changed = tuple(s.name for s in nest.program.stages if _reassociated(nest, s, program))
    if changed and not reassociate:
        reason = f"the floating-point reduction of {', '.join(changed)} is taken in another order"
        return LoopVerdict(Verdict(Grade.REFUTED), changed, f"{reason}: allow it (--reassociate)")
    points = sum(math.prod(s.extents[a] for a in s.all_axes) for s in nest.program.stages)
    if points > MOST_POINTS:
        reason = f"{points:,} points are too many to walk: dependences alone were checked"
        return LoopVerdict(Verdict(Grade.PROVED, "by its dependences"), changed, reason)
    different = _interpreted(program, nest, exact=not changed)
    if different:
        return LoopVerdict(Verdict(Grade.REFUTED), changed, different, points)
    return LoopVerdict(Verdict(Grade.PROVED, "by its dependences"), changed, "", points)


# -- the loops -----------------------------------------------------------------------------------


def _visits(nest: Nest, stage: Stage) -> str:
    """How an axis is not covered once, in words; empty where all are."""
    path = path_of(nest, stage.name)
    for axis in stage.all_axes:
        steps = [loop.step for loop in path if loop.axis == axis]
        extent = stage.extents[axis]
        seen = sorted(walk(steps, 0, extent))
        if seen != list(range(extent)):
            return f"{stage.name} does not visit every {axis} below {extent} once"
    return ""


def walk(steps: Sequence[int], start: int, length: int) -> Iterator[int]:
    """The places that loops with these steps reach, in order; the last block may be shorter."""
    if not steps:
        yield start
        return
    for at in range(start, start + length, steps[0]):
        yield from walk(steps[1:], at, min(steps[0], start + length - at))


def _reassociated(nest: Nest, stage: Stage, program: Program) -> bool:
    """Whether the sums of a stage are taken in another order than the program says."""
    if not stage.reduce or not stage.body.type.is_float:
        return False
    if stage.name not in [one.name for one in program.stages]:
        return True  # a part of a reduction that was split
    before = program.stage(stage.name)
    if before.bound != stage.bound:
        return True
    path = [loop for loop in path_of(nest, stage.name) if loop.axis in stage.bound]
    if any(loop.kind in ("vector", "parallel") for loop in path):
        return True
    order = list(_points(path, {a: (0, stage.extents[a]) for a in stage.bound}, stage.bound))
    return order != sorted(order)


def _points(
    path: Sequence[For], ranges: Mapping[str, tuple[int, int]], axes: Sequence[str]
) -> Iterator[tuple[int, ...]]:
    """The points of a reduction in the order of the loops."""
    if not path:
        yield tuple(ranges[axis][0] for axis in axes)
        return
    loop = path[0]
    start, length = ranges[loop.axis]
    for at in range(start, start + length, loop.step):
        inside = (at, min(loop.step, start + length - at))
        yield from _points(path[1:], {**ranges, loop.axis: inside}, axes)


# -- the values ----------------------------------------------------------------------------------


def _interpreted(program: Program, nest: Nest, *, exact: bool) -> str:
    """How the walked nest differs from what the program means, in words; empty for not at all.

    Small whole numbers make every order exact, so that equality may be asked for even where a
    reduction is reassociated; where the order is kept, any numbers do, and show more.
    """
    import numpy as np

    from planish.tensor import reference
    from planish.tensor.loops import plain

    rng = np.random.default_rng(_SEED)
    whole = not exact
    arrays: dict[str, Array] = {}
    for tensor in program.inputs:
        drawn = rng.integers(-4, 5, tensor.shape) if whole else rng.normal(size=tensor.shape)
        kind = tensor.type
        if not kind.is_float:
            drawn = rng.integers(0, 2 if kind.name == "bool" else 5, tensor.shape)
        arrays[tensor.name] = reference.store(np.asarray(drawn, reference.computed(kind)), kind)
    wanted = (
        reference.evaluate(program, arrays)
        if whole
        else reference.interpret(plain(program), arrays)
    )
    got = reference.interpret(nest, arrays)
    for name, values in wanted.items():
        if not np.array_equal(values, got[name], equal_nan=True):
            at = tuple(int(n) for n in np.argwhere(values != got[name])[0])
            place = f"{name}{list(at)}"
            return f"{place} is {got[name][at]} where the program gives {values[at]}"
    return ""
