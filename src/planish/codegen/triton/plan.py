"""From a program to statements fit for kernels: padding, inlining, fused epilogues.

What comes out are stages again; their expressions may hold `Guarded` reads. A temporary that is
computed elementwise disappears into those who read it, an elementwise statement that follows a
reduction becomes its `post`, and a read of a padded tensor becomes a guarded one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planish.codegen.triton.nodes import Guarded, Position, accesses_of, parts_of
from planish.tensor.expr import Access, Cast, Const, Expr, Index, Op, Tensor
from planish.tensor.positions import Positions
from planish.tensor.program import Accumulator, Program, Stage

_LARGEST = 160  # nodes of an expression that inlining may make


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
    changed = []
    for stage in stages:
        tables = [a for a in reads_of(stage) if isinstance(a.tensor, Positions)]
        change: dict[Access, Expr] = {a: Position(a.indices[0], a.type) for a in tables}
        changed.append(_changed(stage, change) if change else stage)
    needed = set(kept)
    result = []
    for stage in reversed(changed):
        if stage.out.tensor in needed:
            needed |= {a.tensor for a in reads_of(stage)}
            result.append(stage)
    return result[::-1]


def map_accesses(expr: Expr, change: Mapping[Access, Expr]) -> Expr:
    """The expression with accesses exchanged, those inside of guards included."""
    if isinstance(expr, Access):
        return change.get(expr, expr)
    if isinstance(expr, Op):
        return Op(expr.name, tuple(map_accesses(a, change) for a in expr.arguments), expr.type)
    if isinstance(expr, Cast):
        return Cast(map_accesses(expr.argument, change), expr.type)
    if isinstance(expr, Guarded):
        return replace(expr, value=map_accesses(expr.value, change))
    return expr


def with_indices(expr: Expr, indices: Mapping[str, Index]) -> Expr:
    """The expression with axes exchanged for affine indices, all at once."""
    if isinstance(expr, Access):
        return Access(expr.tensor, tuple(_index(i, indices) for i in expr.indices))
    if isinstance(expr, Position):
        return Position(_index(expr.index, indices), expr.type)
    if isinstance(expr, Guarded):
        inside = tuple((_index(i, indices), n) for i, n in expr.inside)
        return Guarded(with_indices(expr.value, indices), inside, expr.around)
    if isinstance(expr, Op):
        return Op(expr.name, tuple(with_indices(a, indices) for a in expr.arguments), expr.type)
    if isinstance(expr, Cast):
        return Cast(with_indices(expr.argument, indices), expr.type)
    return expr


def _index(index: Index, indices: Mapping[str, Index]) -> Index:
    found = Index((), index.constant)
    for axis, c in index.terms:
        found = found + indices.get(axis, Index(((axis, 1),))) * c
    return found


def size(expr: Expr) -> int:
    """Nodes of an expression."""
    return 1 + sum(map(size, parts_of(expr)))


def stage_expressions(stage: Stage) -> list[Expr]:
    """Its body and what comes after the reduction."""
    return [stage.body] + ([stage.post] if stage.post is not None else [])


def reads_of(stage: Stage) -> list[Access]:
    """Every access it reads, each once."""
    return list(dict.fromkeys(a for e in stage_expressions(stage) for a in accesses_of(e)))


def plain_axes(access: Access) -> tuple[str, ...] | None:
    """The axes of an access whose indices are single, different axes; else None."""
    names = [i.axes[0] for i in access.indices if len(i.terms) == 1 and i.is_axis(i.axes[0])]
    if len(names) != len(access.indices) or len(set(names)) != len(names):
        return None
    return tuple(names)


def _changed(stage: Stage, change: Mapping[Access, Expr]) -> Stage:
    post = map_accesses(stage.post, change) if stage.post is not None else None
    return replace(stage, body=map_accesses(stage.body, change), post=post)


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
            _changed(s, {a: _guarded(a, inner, fill) for a in reads_of(s) if a.tensor == tensor})
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
            (
                s
                for s in stages
                if s.name not in refused and _elementwise_temporary(s, stages, kept)
            ),
            None,
        )
        if producer is None:
            return stages
        axes = plain_axes(producer.out)
        assert axes is not None
        tensor = producer.out.tensor
        changed = {}
        for reader in consumers(stages, tensor):
            change = {
                a: with_indices(producer.body, dict(zip(axes, a.indices, strict=True)))
                for a in reads_of(reader)
                if a.tensor == tensor
            }
            changed[reader.name] = _changed(reader, change)
        if any(size(e) > _LARGEST for s in changed.values() for e in stage_expressions(s)):
            refused.add(producer.name)
            continue
        stages = [changed.get(s.name, s) for s in stages if s is not producer]


def _elementwise_temporary(stage: Stage, stages: list[Stage], kept: set[Tensor]) -> bool:
    tensor = stage.out.tensor
    return (
        not stage.reduce
        and tensor not in kept
        and plain_axes(stage.out) is not None
        and sum(s.out.tensor == tensor for s in stages) == 1
        and not any(_compared(e, tensor) for s in stages for e in stage_expressions(s))
    )


def _compared(expr: Expr, tensor: Tensor) -> bool:
    """Whether elements are compared for equality: computed twice, they might be rounded apart."""
    if isinstance(expr, Op) and expr.name in ("eq", "ne"):
        return any(a.tensor == tensor for a in accesses_of(expr))
    return any(_compared(part, tensor) for part in parts_of(expr))


def _fuse_epilogues(stages: list[Stage], kept: set[Tensor]) -> list[Stage]:
    """Elementwise statements that follow a reduction of the same points, into its `post`."""
    changed = True
    while changed:
        changed = False
        for producer in [s for s in stages if s.reduce and s.out.tensor not in kept]:
            readers = [
                s for s in stages if any(a.tensor == producer.out.tensor for a in reads_of(s))
            ]
            if len(readers) == 1 and not readers[0].reduce:
                fused = _fused(producer, readers[0])
                if fused is not None:
                    stages = [fused if s is readers[0] else s for s in stages if s is not producer]
                    changed = True
                    break
    return stages


def _fused(producer: Stage, reader: Stage) -> Stage | None:
    tensor = producer.out.tensor
    axes = plain_axes(producer.out)
    reads = [a for a in reads_of(reader) if a.tensor == tensor]
    if axes is None or len(reads) != 1 or _under_guard(reader.body, tensor):
        return None
    asked = plain_axes(reads[0])
    if asked is None or set(asked) != set(reader.axes):
        return None
    if any(producer.extents[a] != reader.extents[b] for a, b in zip(axes, asked, strict=True)):
        return None
    names = dict(zip(axes, asked, strict=True))
    bound = {b: unlike(b, set(reader.axes)) for b in producer.bound}
    indices = {old: Index(((new, 1),)) for old, new in {**names, **bound}.items()}
    result: Expr = Accumulator(producer.body.type)
    if producer.post is not None:
        result = with_indices(producer.post, indices)
    if result.type != tensor.type:
        result = Cast(result, tensor.type)
    extents = dict(reader.extents) | {bound[b]: producer.extents[b] for b in producer.bound}
    return Stage(
        reader.name, reader.out, reader.axes, tuple(bound.values()), producer.reduce,
        with_indices(producer.body, indices), map_accesses(reader.body, {reads[0]: result}),
        extents, producer.modulo,
    )  # fmt: skip


def _under_guard(expr: Expr, tensor: Tensor) -> bool:
    if isinstance(expr, Guarded):
        return any(a.tensor == tensor for a in accesses_of(expr))
    return any(_under_guard(p, tensor) for p in parts_of(expr))


def unlike(name: str, taken: set[str]) -> str:
    """A name that looks like this one and is not taken."""
    while name in taken:
        name += "_"
    return name


def renamed(stage: Stage, names: Mapping[str, str]) -> Stage:
    """The stage with its axes called otherwise."""
    indices = {old: Index(((new, 1),)) for old, new in names.items()}
    out = with_indices(stage.out, indices)
    assert isinstance(out, Access)
    return Stage(
        stage.name, out, tuple(names.get(a, a) for a in stage.axes),
        tuple(names.get(b, b) for b in stage.bound), stage.reduce,
        with_indices(stage.body, indices),
        with_indices(stage.post, indices) if stage.post is not None else None,
        {names.get(a, a): n for a, n in stage.extents.items()}, stage.modulo,
    )  # fmt: skip


def consumers(stages: Sequence[Stage], tensor: Tensor) -> list[Stage]:
    """The stages that read a tensor."""
    return [s for s in stages if any(a.tensor == tensor for a in reads_of(s))]
