"""Statements that disappear into others: into those who read them, or behind the sums they follow.

An elementwise temporary may be computed where it is read; an elementwise statement that follows a
reduction point by point may be applied to its results before they are stored. Either way a
temporary goes, and what it was rounded to stays in as a conversion.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from planish.base.errors import UsageError
from planish.tensor.expr import (
    Access,
    Axis,
    Cast,
    Expr,
    Op,
    Tensor,
    accesses,
    map_accesses,
    plain_axes,
    walk,
    with_indices,
)
from planish.tensor.loops import Nest, Node, plain_tree, stages_of
from planish.tensor.program import Accumulator, Stage
from planish.tensor.surgery import checked, stage_of

LARGEST = 160  # nodes of an expression that is worth making


def inline(nest: Nest, stage: str) -> Nest:
    """Compute an elementwise temporary where it is read, as often as it is. It comes first.

    before          after `inline S`
      for m           for m
        do S            do Y       (computes S's values itself)
      for m
        do Y
    """
    found = stage_of(nest, stage)
    if not is_inlinable(found, nest.program.stages, nest.program.outputs):
        raise UsageError(
            f"inline {stage}: it is no elementwise temporary that can be computed anew",
            hint="reductions, outputs, padded tensors and what is compared for equality stay",
        )
    tree = _untouched(nest, "inline", found)
    tensor = found.out.tensor
    stages = tuple(
        into_reader(found, s) if any(a.tensor == tensor for a in s.reads) else s
        for s in nest.program.stages
        if s is not found
    )
    body = tuple(node for node in nest.body if node is not tree)
    return checked(replace(nest, program=replace(nest.program, stages=stages), body=body))


def epilogue(nest: Nest, stage: str, reader: str) -> Nest:
    """Apply the elementwise statement that follows a reduction to its results. It comes first.

    before          after `epilogue C Y`
      for m           for m
        for k           for k
          do C            do C     (writes Y's tensor, once a sum is complete)
      for m
        do Y
    """
    found, last = stage_of(nest, stage), stage_of(nest, reader)
    if follower(found, nest.program.stages, nest.program.outputs) is not last:
        raise UsageError(
            f"epilogue {stage} {reader}: {reader} is not the only statement that reads {stage}, "
            f"elementwise and at the same points"
        )
    trees = [_untouched(nest, "epilogue", s) for s in (found, last)]
    made = as_epilogue(found, last)
    assert made is not None
    # It takes the reader's place: what else that reads is computed by then.
    stages = tuple(made if s is last else s for s in nest.program.stages if s is not found)
    body = tuple(
        plain_tree(made) if node is trees[1] else node for node in nest.body if node is not trees[0]
    )
    return checked(replace(nest, program=replace(nest.program, stages=stages), body=body))


def _untouched(nest: Nest, step: str, stage: Stage) -> Node:
    """The stage's own tree. Raises UsageError where other steps have changed it."""
    tree = next(node for node in nest.body if stage.name in stages_of(node))
    named = {name for pair in nest.prefetch for name in pair}
    named |= {tensor for tensor, _ in nest.layouts}
    if tree != plain_tree(stage) or {stage.name, stage.out.tensor.name} & named:
        raise UsageError(f"{step} {stage.name}: it has to come before other steps")
    return tree


def is_inlinable(stage: Stage, stages: Sequence[Stage], outputs: Collection[Tensor]) -> bool:
    """Whether it is an elementwise temporary, and may be computed once for every reader."""
    tensor = stage.out.tensor
    return (
        not stage.reduce
        and tensor not in outputs
        and plain_axes(stage.out) is not None
        and sum(s.out.tensor == tensor for s in stages) == 1
        and not any(_compared(e, tensor) for s in stages for e in s.expressions)
    )


def _compared(expr: Expr, tensor: Tensor) -> bool:
    """Whether elements are compared for equality: computed twice, they might be rounded apart."""
    if isinstance(expr, Op) and expr.name in ("eq", "ne"):
        return any(a.tensor == tensor for a in accesses(expr))
    return any(_compared(part, tensor) for part in expr.parts)


def into_reader(stage: Stage, reader: Stage) -> Stage:
    """The reader that computes the stage's values itself."""
    axes = plain_axes(stage.out)
    assert axes is not None
    value = _stored(stage.body, stage.out.tensor)
    return changed(
        reader,
        {
            a: with_indices(value, dict(zip(axes, a.indices, strict=True)))
            for a in reader.reads
            if a.tensor == stage.out.tensor
        },
    )


def changed(stage: Stage, change: dict[Access, Expr]) -> Stage:
    """The stage with reads exchanged for values."""
    post = map_accesses(stage.post, change) if stage.post is not None else None
    return replace(stage, body=map_accesses(stage.body, change), post=post)


def is_readable(stage: Stage) -> bool:
    """Whether its expressions are of a size that code generators are made for."""
    return all(sum(1 for _ in walk(e)) <= LARGEST for e in stage.expressions)


def follower(stage: Stage, stages: Sequence[Stage], outputs: Collection[Tensor]) -> Stage | None:
    """The statement that may become the epilogue of this one; None where there is none."""
    tensor = stage.out.tensor
    if not stage.reduce or tensor in outputs or sum(s.out.tensor == tensor for s in stages) != 1:
        return None
    readers = [s for s in stages if any(a.tensor == tensor for a in s.reads)]
    return readers[0] if len(readers) == 1 and as_epilogue(stage, readers[0]) else None


def as_epilogue(stage: Stage, reader: Stage) -> Stage | None:
    """The reduction that computes its reader's values; it keeps its own name and axes."""
    axes = plain_axes(stage.out)
    reads = [a for a in reader.reads if a.tensor == stage.out.tensor]
    if axes is None or reader.reduce or len(reads) != 1:
        return None
    asked = plain_axes(reads[0])
    if asked is None or set(asked) != set(reader.axes):
        return None
    if any(stage.extents[a] != reader.extents[b] for a, b in zip(axes, asked, strict=True)):
        return None
    result = stage.post if stage.post is not None else Accumulator(stage.body.type)
    value = _stored(result, stage.out.tensor)
    own = {b: Axis(a).index for a, b in zip(axes, asked, strict=True)}
    body = with_indices(reader.body, own)
    post = map_accesses(body, {with_indices(reads[0], own): value})
    return replace(stage, out=with_indices(reader.out, own), post=post)


def _stored(value: Expr, tensor: Tensor) -> Expr:
    """The value as the tensor would have kept it."""
    return value if value.type == tensor.type else Cast(value, tensor.type)
