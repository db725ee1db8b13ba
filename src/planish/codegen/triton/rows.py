"""Statements over the same rows in one kernel: softmax, layer norms, an argmax.

Every statement reduces a row or computes its elements. Where a row fits into a tile, it is read
once and everything stays in registers. Where it does not, each reduction is a pass over the row;
a maximum and the sum of exponentials relative to it share one pass (the online form of Milakov and
Gimelshein, arXiv 1805.02867).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from planish.codegen.triton.contraction import _accumulators, arguments
from planish.codegen.triton.plan import (
    map_accesses,
    plain_axes,
    reads_of,
    renamed,
    stage_expressions,
)
from planish.codegen.triton.scope import (
    Dim,
    Held,
    Scope,
    accesses_of,
    combined,
    neutral,
)
from planish.codegen.triton.source import (
    Code,
    Config,
    KernelSource,
    argument,
    computed_type,
    pow2,
)
from planish.tensor.expr import Access, Cast, Expr, Op, Tensor
from planish.tensor.program import Stage
from planish.tensor.types import Type

WHOLE = 16384  # elements of a row that still fit into the registers of a block


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
    if len(found) > 1 and not any(a.tensor in made for s in found[1:] for a in reads_of(s)):
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
    for read in reads_of(stage):
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


def emit_rows(
    found: Rows, given: Config, strides: Mapping[str, tuple[int, ...]], name: str,
    written: set[Tensor],
) -> KernelSource:  # fmt: skip
    """The kernel; only tensors in `written` are stored."""
    count = prod(found.extents[a] for a in found.rows)
    length = prod(found.extents[a] for a in found.row)
    config = given.over(_default(count, length))
    stages = _held(found)
    kept = [s for s in stages if s.out.tensor in written]
    tensors = tuple(
        t for t in arguments(*stages)
        if t in written or not any(s.out.tensor == t for s in stages)
    )  # fmt: skip
    code = Code({argument(t.name) for t in tensors} | {name})
    m = Dim("m", tuple((a, found.extents[a]) for a in found.rows), "BLOCK_M", config.m)
    k = Dim("k", tuple((a, found.extents[a]) for a in found.row), "BLOCK_K", config.k)
    tile = [m, k] if found.rows else [k]
    reads = [a for s in stages for a in [*reads_of(s), s.out]]
    scope = Scope(code, tile, [], strides, reads)
    tiles = -(-count // config.m) if found.rows else 1
    persistent = config.persistent if found.rows and config.persistent < tiles else 0
    if persistent:
        # Rows of the next round are copied while this one is computed.
        stages_of_loop = f", num_stages={config.stages}" if config.stages else ""
        header = f"tl.program_id(0), {tiles}, tl.num_programs(0){stages_of_loop}"
        with code.block(f"for tile in tl.range({header}):"):
            _rows_of(code, scope, stages, (m, k), "tile * BLOCK_M", written, length)
    else:
        start = "tl.program_id(0) * BLOCK_M" if found.rows else ""
        _rows_of(code, scope, stages, (m, k), start, written, length)
    blocks = {d.block: d.length for d in tile}
    text = code.module(
        name, [argument(t.name) for t in tensors], blocks, "\n".join(map(str, found.stages))
    )
    work = sum(prod(s.extents[a] for a in s.all_axes) * 2 for s in stages)
    moved = sum(prod(t.shape) * t.type.size for t in tensors)
    domain = {
        "m": tuple(v for v in (1, 2, 4, 8, 16) if v <= pow2(count)),
        "k": tuple(v for v in (512, 1024, 2048, 4096, 8192, pow2(length))
                   if v < length or v == pow2(length)),
        "warps": (1, 2, 4, 8, 16),
        "persistent": (0, 264, 528),
    }  # fmt: skip
    return KernelSource(
        name, "rows", text, tensors, tuple(s.out.tensor.name for s in kept),
        (persistent or tiles, 1, 1), config,
        tuple(map(str, found.stages)), work, moved, domain,
        {"tile_elements": config.m * config.k, "row": length, "type": "f32"},
    )  # fmt: skip


def _rows_of(
    code: Code, scope: Scope, stages: Sequence[Stage], dims: tuple[Dim, Dim], start: str,
    written: set[Tensor], length: int,
) -> None:  # fmt: skip
    """The statements for one tile of rows; `start` is its first row, "" where there are none."""
    m, k = dims
    tile = [m, k] if start else [k]
    if start:
        scope.define(m, start)
    if k.length >= length:
        scope.define(k, "0")
        for stage in stages:
            _whole(code, scope, stage, k, len(tile) - 1, written)
    else:
        _passes(code, scope, stages, k, tile, written)


def _default(count: int, length: int) -> Config:
    k = pow2(length) if length <= WHOLE else 4096
    m = max(1, min(pow2(count), 2048 // k)) if k <= 1024 else 1
    warps = 4 if k * m <= 4096 else 8 if k <= 8192 else 16
    return Config(m=m, k=k, warps=warps)


def _held(found: Rows) -> tuple[Stage, ...]:
    """The statements with values of earlier ones in the place of reads."""
    held: dict[Access, Expr] = {}
    result = []
    for stage in found.stages:
        body = map_accesses(stage.body, held)
        post = map_accesses(stage.post, held) if stage.post is not None else None
        result.append(replace(stage, body=body, post=post))
        held[stage.out] = Held(stage.out.tensor.name, stage.out.tensor.type)
    return tuple(result)


def _whole(code: Code, scope: Scope, stage: Stage, k: Dim, axis: int, written: set[Tensor]) -> None:
    """One statement where a row is one tile."""
    name = code.fresh(stage.out.tensor.name + "_row")
    if stage.reduce:
        lanes = scope.mask([k])
        value = _full(scope, stage.body)
        if lanes:
            value = f"tl.where({lanes}, {value}, {neutral(stage.reduce, stage.body.type)})"
        code.line(f"{name} = {scope.reduced(stage.reduce, value, stage.body.type, axis)}")
        _after(code, scope, stage, name)
    else:
        code.line(f"{name} = {scope.value(stage.body)}")
    _leave(code, scope, stage, name, written)


def _full(scope: Scope, body: Expr) -> str:
    """A value with the full shape of the tile."""
    text = scope.value(body)
    if any(set(scope.dims_of(a)) == set(scope.tile) for a in accesses_of(body)):
        return text
    return f"tl.broadcast_to({text}, ({', '.join(d.block for d in scope.tile)},))"


def _after(code: Code, scope: Scope, stage: Stage, name: str) -> None:
    if stage.post is None:
        return
    with scope.inner():
        for accumulator in _accumulators(stage.post):
            scope.hold(accumulator, name)
        text = scope.value(stage.post)
    code.line(f"{name} = {text}")


def _leave(code: Code, scope: Scope, stage: Stage, name: str, written: set[Tensor]) -> None:
    """Keep a statement's value for later ones, and write it where that is asked for."""
    out = stage.out.tensor
    final = stage.post if stage.post is not None else stage.body
    value = name
    if out.type.name in ("f16", "bf16") and not _is_rounded(final, out.type):
        value = f"{name}.to({_word(out.type)}).to(tl.float32)"
    scope.hold(Held(out.name, out.type), value)
    if out in written:
        scope.store(stage.out, name)


def _word(type: Type) -> str:
    return {"f16": "tl.float16", "bf16": "tl.bfloat16"}[type.name]


def _is_rounded(expr: Expr, type: Type) -> bool:
    return isinstance(expr, Cast) and expr.type == type


def _passes(
    code: Code, scope: Scope, stages: Sequence[Stage], k: Dim, tile: list[Dim],
    written: set[Tensor],
) -> None:  # fmt: skip
    """Rows longer than a tile: a loop for each reduction (or online pair) and one for the rest."""
    axis = len(tile) - 1
    shape = "(" + ", ".join(d.block for d in tile) + ",)"
    waiting = list(stages)
    pending: list[Stage] = []  # elementwise statements over whole rows, computed in the last loop
    for stage in stages:
        for expr in stage_expressions(stage):
            scope.load_all(expr, k)
    while waiting:
        stage = waiting.pop(0)
        if not stage.reduce:
            if {d.name for d in scope.dims_of(stage.out)} >= {k.name}:
                pending.append(stage)
            else:
                name = code.fresh(stage.out.tensor.name + "_row")
                code.line(f"{name} = {scope.value(stage.body)}")
                _leave(code, scope, stage, name, written)
            continue
        following = waiting[0] if waiting else None
        if following is not None and _online(stage, following):
            waiting.pop(0)
            _online_pass(code, scope, stage, following, k, axis, shape, written)
            continue
        name = code.fresh(stage.out.tensor.name + "_row")
        word = computed_type(stage.body.type)
        start = neutral(stage.reduce, stage.body.type)
        code.line(f"{name} = tl.full({shape}, {start}, {word})")
        with code.block(f"for start in range(0, {k.extent}, BLOCK_K):"), scope.inner():
            scope.define(k, "start")
            _row_values(code, scope, pending)
            value = _lanes(scope, k, _full(scope, stage.body), start)
            code.line(f"{name} = {combined(stage.reduce, name, value, stage.body.type)}")
        code.line(f"{name} = {scope.reduced(stage.reduce, name, stage.body.type, axis)}")
        _after(code, scope, stage, name)
        _leave(code, scope, stage, name, written)
    if any(s.out.tensor in written for s in pending):
        with code.block(f"for start in range(0, {k.extent}, BLOCK_K):"), scope.inner():
            scope.define(k, "start")
            for stage in pending:
                name = code.fresh(stage.out.tensor.name + "_row")
                code.line(f"{name} = {scope.value(stage.body)}")
                _leave(code, scope, stage, name, written)


def _row_values(code: Code, scope: Scope, pending: Sequence[Stage]) -> None:
    """Elementwise values of rows that a reduction reads, computed again in its loop."""
    for stage in pending:
        name = code.fresh(stage.out.tensor.name + "_row")
        code.line(f"{name} = {scope.value(stage.body)}")
        _leave(code, scope, stage, name, set())


def _lanes(scope: Scope, k: Dim, value: str, start: str) -> str:
    lanes = scope.mask([k])
    return f"tl.where({lanes}, {value}, {start})" if lanes else value


def _online(top: Stage, total: Stage) -> bool:
    """Whether these are max(x) and sum(exp(x - max))."""
    if top.reduce != "max" or total.reduce != "sum" or top.post is not None:
        return False
    body = total.body
    held = Held(top.out.tensor.name, top.out.tensor.type)
    if not (isinstance(body, Op) and body.name == "exp"):
        return False
    inside = body.arguments[0]
    return (
        isinstance(inside, Op) and inside.name == "sub" and inside.type.name == "f32"
        and _stripped(inside.arguments[0]) == _stripped(top.body)
        and _stripped(inside.arguments[1]) == held
    )  # fmt: skip


def _stripped(expr: Expr) -> Expr:
    """Without conversions that keep every value."""
    while isinstance(expr, Cast) and expr.type.name == "f32" and expr.argument.type.is_float:
        expr = expr.argument
    return expr


def _online_pass(
    code: Code, scope: Scope, top: Stage, total: Stage, k: Dim, axis: int, shape: str,
    written: set[Tensor],
) -> None:  # fmt: skip
    """One pass for both: the sum is scaled whenever the maximum grows."""
    high = code.fresh(top.out.tensor.name + "_row")
    low = code.fresh(total.out.tensor.name + "_row")
    code.line(f'{high} = tl.full({shape}, float("-inf"), tl.float32)')
    code.line(f"{low} = tl.zeros({shape}, tl.float32)")
    with code.block(f"for start in range(0, {k.extent}, BLOCK_K):"), scope.inner():
        scope.define(k, "start")
        value = _lanes(scope, k, _full(scope, top.body), 'float("-inf")')
        x, grown = code.fresh("x"), code.fresh("grown")
        code.line(f"{x} = {value}")
        code.line(f"{grown} = tl.maximum({high}, {x})")
        # -inf less itself is no number; such lanes have seen nothing yet.
        code.line(f'safe = tl.where({grown} == float("-inf"), 0.0, {grown})')
        code.line(f"{low} = {low} * tl.exp({high} - safe) + tl.exp({x} - safe)")
        code.line(f"{high} = {grown}")
    best = code.fresh("best")
    code.line(f"{best} = {scope.reduced('max', high, top.body.type, axis)}")
    code.line(f"{low} = tl.sum({low} * tl.exp({high} - {best}), {axis}, keep_dims=True)")
    code.line(f"{high} = {best}")
    _leave(code, scope, top, high, written)
    _after(code, scope, total, low)
    _leave(code, scope, total, low, written)
