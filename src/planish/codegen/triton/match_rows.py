"""Statements over the same rows recognised: softmax, layer norms, an argmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.codegen.triton.plan import (
    renamed,
)
from planish.tensor.expr import Tensor, plain_axes
from planish.tensor.program import Stage


@dataclass(frozen=True)
class Rows:
    """Statements with common names for their axes: `rows` of all, `row` within one."""

    stages: tuple[Stage, ...]
    rows: tuple[str, ...]
    row: tuple[str, ...]
    extents: Mapping[str, int]


def as_rows(stages: Sequence[Stage], outputs: Sequence[Tensor]) -> Rows | None:
    """The statements with axes of common names, or None where they do not share their rows."""
    first = stages[0]
    if not first.reduce or first.modulo is not None or first.body.type.name == "bool":
        return None
    if plain_axes(first.out) is None:
        return None
    rows, row = first.axes, first.bound
    extents = dict(first.extents)
    found = [first]
    made = {first.out.tensor: first}
    for stage in stages[1:]:
        moved = _moved(stage, made, rows, row, extents)
        if moved is None:
            return None
        found.append(moved)
        made[moved.out.tensor] = moved
    if len(found) > 1 and not any(a.tensor in made for s in found[1:] for a in s.reads):
        return None
    return Rows(tuple(found), rows, row, extents)


def _moved(
    stage: Stage, made: Mapping[Tensor, Stage], rows: tuple[str, ...], row: tuple[str, ...],
    extents: Mapping[str, int],
) -> Stage | None:  # fmt: skip
    """A statement with the axes' common names."""
    if stage.modulo is not None or plain_axes(stage.out) is None:
        return None
    names: dict[str, str] = {}
    for read in stage.reads:
        producer = made.get(read.tensor)
        if producer is None:
            continue
        own, common = plain_axes(read), plain_axes(producer.out)
        if own is None or common is None:
            return None
        for mine, theirs in zip(own, common, strict=True):
            if names.setdefault(mine, theirs) != theirs:
                return None
    rest = [a for a in (stage.bound or stage.axes) if a not in names]
    left = [a for a in row if a not in names.values()]
    if not names or len(rest) != (len(left) if rest else 0):
        return None
    for mine, theirs in zip(rest, left, strict=False):
        names[mine] = theirs
    if set(names) != set(stage.all_axes) or len(set(names.values())) != len(names):
        return None
    if any(stage.extents[mine] != extents[theirs] for mine, theirs in names.items()):
        return None
    moved = renamed(stage, names)
    if set(moved.bound) not in (set(), set(row)):
        return None
    if set(moved.axes) - set(rows) not in (set(), set(row)) or not set(rows) <= set(moved.axes):
        return None
    if moved.reduce and set(moved.axes) != set(rows):
        return None
    return moved
