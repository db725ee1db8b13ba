"""From a program to statements fit for kernels: padding, inlining, fused epilogues.

What comes out are stages again; their expressions may hold `Guarded` reads. A temporary that is
computed elementwise disappears into those who read it, an elementwise statement that follows a
reduction becomes its `post`, and a read of a padded tensor becomes a guarded one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planish.codegen.triton.nodes import Guarded, Position
from planish.tensor.expr import (
    Access,
    Const,
    Expr,
    Index,
    Tensor,
    accesses,
    plain_axes,
    with_indices,
)
from planish.tensor.inlining import (
    as_epilogue,
    changed,
    follower,
    into_reader,
    is_inlinable,
    is_readable,
)
from planish.tensor.positions import Positions
from planish.tensor.program import Program, Stage


@dataclass(frozen=True)
class Plan:
    """Stages in order; `outputs` are the tensors that have to be written."""

    stages: tuple[Stage, ...]
    outputs: tuple[Tensor, ...]


def simplify(program: Program) -> Plan:
    """The program with as few statements as fusion leaves."""
    stages = list(program.stages)
    kept = set(program.outputs)
    stages = _positions(stages, kept)
    stages = _unpad(stages, kept)
    stages = _fuse_epilogues(stages, kept)
    stages = _inline(stages, kept)
    stages = _fuse_epilogues(stages, kept)
    return Plan(tuple(stages), program.outputs)


def _positions(stages: list[Stage], kept: set[Tensor]) -> list[Stage]:
    """Reads of tables of positions as the positions themselves; what made the tables goes."""
    if not any(isinstance(s.out.tensor, Positions) for s in stages):
        return stages
    seen = []
    for stage in stages:
        tables = [a for a in stage.reads if isinstance(a.tensor, Positions)]
        change: dict[Access, Expr] = {a: Position(a.indices[0], a.type) for a in tables}
        seen.append(changed(stage, change) if change else stage)
    needed = set(kept)
    result = []
    for stage in reversed(seen):
        if stage.out.tensor in needed:
            needed |= {a.tensor for a in stage.reads}
            result.append(stage)
    return result[::-1]


def _unpad(stages: list[Stage], kept: set[Tensor]) -> list[Stage]:
    """Reads of padded temporaries as guarded reads of what was padded."""
    for fill in [s for s in stages if isinstance(s.body, Const) and not s.reduce]:
        tensor = fill.out.tensor
        writers = [s for s in stages if s.out.tensor == tensor]
        if tensor in kept or len(writers) != 2 or writers[0] is not fill:
            continue
        inner = writers[1]
        if inner.reduce or not isinstance(inner.body, Access):
            continue
        stages = [
            changed(s, {a: _guarded(a, inner, fill) for a in s.reads if a.tensor == tensor})
            for s in stages
            if s.out.tensor != tensor
        ]
    return stages


def _guarded(read: Access, inner: Stage, fill: Stage) -> Expr:
    indices, inside = {}, []
    for axis, out, asked in zip(inner.axes, inner.out.indices, read.indices, strict=True):
        moved = asked + Index((), -out.constant)
        indices[axis] = moved
        inside.append((moved, inner.extents[axis]))
    assert isinstance(fill.body, Const)
    return Guarded(with_indices(inner.body, indices), tuple(inside), fill.body)


def _inline(stages: list[Stage], kept: set[Tensor]) -> list[Stage]:
    """Elementwise temporaries into their readers, as long as expressions stay readable."""
    refused: set[str] = set()
    while True:
        producer = next(
            (s for s in stages if s.name not in refused and is_inlinable(s, stages, kept)),
            None,
        )
        if producer is None:
            return stages
        readers = {r.name: into_reader(producer, r) for r in consumers(stages, producer.out.tensor)}
        if not all(map(is_readable, readers.values())):
            refused.add(producer.name)
            continue
        stages = [readers.get(s.name, s) for s in stages if s is not producer]


def _fuse_epilogues(stages: list[Stage], kept: set[Tensor]) -> list[Stage]:
    """Elementwise statements that follow a reduction of the same points, into its `post`."""
    while True:
        pairs = [(s, reader) for s in stages if (reader := follower(s, stages, kept)) is not None]
        pair = next((p for p in pairs if not _under_guard(p[1].body, p[0].out.tensor)), None)
        if pair is None:
            return stages
        producer, reader = pair
        fused = _fused(producer, reader)
        stages = [fused if s is reader else s for s in stages if s is not producer]


def _fused(producer: Stage, reader: Stage) -> Stage:
    """The reduction with its epilogue, called as the reader is, by the reader's axes."""
    made, axes = as_epilogue(producer, reader), plain_axes(producer.out)
    read = next(a for a in reader.reads if a.tensor == producer.out.tensor)
    asked = plain_axes(read)
    assert made is not None and axes is not None and asked is not None
    bound = {b: unlike(b, set(reader.axes)) for b in producer.bound}
    names = dict(zip(axes, asked, strict=True)) | bound
    return replace(renamed(made, names), name=reader.name, axes=reader.axes)


def _under_guard(expr: Expr, tensor: Tensor) -> bool:
    if isinstance(expr, Guarded):
        return any(a.tensor == tensor for a in accesses(expr))
    return any(_under_guard(p, tensor) for p in expr.parts)


def unlike(name: str, taken: set[str]) -> str:
    """A name that looks like this one and is not taken."""
    while name in taken:
        name += "_"
    return name


def renamed(stage: Stage, names: Mapping[str, str]) -> Stage:
    """The stage with its axes called otherwise."""
    indices = {old: Index(((new, 1),)) for old, new in names.items()}
    return Stage(
        stage.name, with_indices(stage.out, indices), tuple(names.get(a, a) for a in stage.axes),
        tuple(names.get(b, b) for b in stage.bound), stage.reduce,
        with_indices(stage.body, indices),
        with_indices(stage.post, indices) if stage.post is not None else None,
        {names.get(a, a): n for a, n in stage.extents.items()}, stage.modulo,
    )  # fmt: skip


def consumers(stages: Sequence[Stage], tensor: Tensor) -> list[Stage]:
    """The stages that read a tensor."""
    return [s for s in stages if any(a.tensor == tensor for a in s.reads)]
