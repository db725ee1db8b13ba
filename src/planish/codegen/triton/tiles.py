"""One statement as one kernel of tiles: elementwise ones, reductions, contractions of any semiring.

Output points are spread over the grid as one dimension, or as two where operands run along
different axes (a transposition, a min-plus product); a reduction adds a last dimension. Where a
long reduction has few points, blocks of their own reduce parts of it, and a second kernel joins
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from planish.codegen.triton.finish import arguments, finish
from planish.codegen.triton.places import Dim
from planish.codegen.triton.plan import unlike
from planish.codegen.triton.scope import Scope, combined, neutral
from planish.codegen.triton.source import (
    Code,
    Config,
    KernelSource,
    argument,
    computed_type,
    pow2,
    row_major_elements,
)
from planish.tensor.expr import Access, Index, Tensor
from planish.tensor.program import Stage

_FEW = 64  # blocks that leave most of a GPU idle


def emit_tiles(
    stage: Stage, given: Config, strides: Mapping[str, tuple[int, ...]], name: str
) -> list[KernelSource]:
    """The kernel of one statement; with parts of its reduction a second one that joins them."""
    whole = emit_tile(stage, given, strides, name)
    split = given.split or _parts(stage, whole)
    if split < 2 or not splits(stage):
        return [whole]
    config = replace(whole.config, split=split)
    own = unlike("part", set(stage.all_axes))
    parts = Tensor(
        f"{stage.out.tensor.name}_parts", (split, *(stage.extents[a] for a in stage.axes)),
        stage.body.type,
    )  # fmt: skip
    axes = (own, *stage.axes)
    out = Access(parts, tuple(Index(((a, 1),)) for a in axes))
    partial = Stage(
        f"{stage.name}_parts", out, axes, stage.bound, stage.reduce, stage.body, None,
        {**stage.extents, own: split},
    )  # fmt: skip
    joining = Stage(
        stage.name, stage.out, stage.axes, (own,), stage.reduce, Access(parts, out.indices),
        stage.post, {**{a: stage.extents[a] for a in stage.axes}, own: split},
    )  # fmt: skip
    first = emit_tile(partial, config, strides, name, Dim("part", ((own, split),)))
    return [first, emit_tile(joining, Config(), strides, f"{name}_add")]


def splits(stage: Stage) -> bool:
    """Whether parts of its reduction can be joined: sums modulo a number are not."""
    return bool(stage.reduce) and not stage.modulo


def _parts(stage: Stage, whole: KernelSource) -> int:
    """Parts by rule: as many as keep a GPU busy, each of four tiles at least."""
    if not stage.reduce or prod(whole.grid) > _FEW or not whole.config.k:
        return 1
    tiles = prod(stage.extents[b] for b in stage.bound) // whole.config.k
    split = 1
    while split * prod(whole.grid) < 512 and tiles >= split * 8:
        split *= 2
    return split


def emit_tile(
    stage: Stage, given: Config, strides: Mapping[str, tuple[int, ...]], name: str,
    part: Dim | None = None,
) -> KernelSource:  # fmt: skip
    """The kernel of one statement; `part` is the axis of partial results, if any."""
    tensors = arguments(stage)
    apart = part.axes[0][0] if part else ""
    batch, rows, columns = _split_axes(stage, strides, apart)
    config = given.over(_default(stage, rows, columns))
    code = Code({argument(t.name) for t in tensors} | {name})
    extents = stage.extents
    per = 0

    def dim(label: str, axes: tuple[str, ...], block: str, length: int) -> Dim:
        return Dim(label, tuple((a, extents[a]) for a in axes), block, length)

    outer = dim("b", batch, "", 1) if batch else None
    first = dim("m", rows, "BLOCK_M", config.m) if rows else None
    last = dim("n", columns, "BLOCK_N", config.n) if columns else None
    bound = dim("k", stage.bound, "BLOCK_K", config.k) if stage.reduce else None
    tile = [d for d in (first, last, bound) if d is not None]
    reads = [*stage.reads, stage.out]
    if part and bound:
        per = -(-bound.extent // (config.k * config.split)) * config.k
        bound = replace(bound, always=per * config.split != bound.extent)
        tile[-1] = bound
    scope = Scope(code, tile, [d for d in (outer, part) if d is not None], strides, reads)
    if outer:
        scope.define(outer, "tl.program_id(1)")
    if part:
        scope.define(part, "tl.program_id(2)")
    tiles = [-(-d.extent // d.length) for d in (first, last) if d is not None]
    if first and last:
        code.line("pid = tl.program_id(0)")
        scope.define(first, f"pid // {tiles[1]} * BLOCK_M")
        scope.define(last, f"pid % {tiles[1]} * BLOCK_N")
    elif last:
        scope.define(last, "tl.program_id(0) * BLOCK_N")
    if bound is None:
        value = scope.value(stage.body)
        scope.store(stage.out, value)
    else:
        _reduction(code, scope, stage, bound, tile, scope.index_of(part) if part else "", per)
    blocks = {d.block: d.length for d in tile}
    text = code.module(name, [argument(t.name) for t in tensors], blocks, str(stage))
    grid = (prod(tiles), outer.extent if outer else 1, config.split if part else 1)
    work = prod(extents[a] for a in stage.all_axes) * (1 + bool(stage.reduce))
    moved = sum(prod(t.shape) * t.type.size for t in tensors)
    return KernelSource(
        name, "tile", text, tensors, (stage.out.tensor.name,), grid, config, (str(stage),), work,
        moved, _domain(stage, first, last, bound),
        {"points": prod(extents[a] for a in (*batch, *rows, *columns)),
         "type": stage.body.type.name},
    )  # fmt: skip


def _reduction(
    code: Code, scope: Scope, stage: Stage, bound: Dim, tile: list[Dim], part: str, per: int
) -> None:
    """Partial results side by side in a tile, joined at the end; of `per` elements of a part."""
    axis = len(tile) - 1
    type = stage.body.type
    start = neutral(stage.reduce, type)
    whole = bound.length >= bound.extent and not part
    shape = ", ".join(d.block for d in tile)
    modulo = stage.modulo
    word = computed_type(type)

    def masked(text: str) -> str:
        lanes = scope.mask([bound])
        full = f"tl.broadcast_to({text}, ({shape},))"
        return f"tl.where({lanes}, {text}, {start})" if lanes and not modulo else full

    if modulo:
        _modular(code, scope, stage, bound, tile)
        finish(code, scope, stage, "acc")
        return
    if whole:
        scope.define(bound, "0")
        value = code.fresh("value")
        code.line(f"{value} = {masked(scope.value(stage.body))}")
        code.line(f"acc = {scope.reduced(stage.reduce, value, type, axis)}")
    else:
        scope.load_all(stage.body, bound)
        begin = f"tl.full(({shape},), {_plain(start)}, {word})"
        code.line(f"acc = {begin}")
        reach = f"{part} * {per}, {part} * {per} + {per}" if part else f"0, {bound.extent}"
        with code.block(f"for start in range({reach}, BLOCK_K):"), scope.inner():
            scope.define(bound, "start")
            value = masked(scope.value(stage.body))
            code.line(f"acc = {combined(stage.reduce, 'acc', value, type)}")
        code.line(f"acc = {scope.reduced(stage.reduce, 'acc', type, axis)}")
    finish(code, scope, stage, "acc")


def _plain(start: str) -> str:
    return start.removeprefix("tl.full((), ").split(",")[0]


def _modular(code: Code, scope: Scope, stage: Stage, bound: Dim, tile: list[Dim]) -> None:
    """Sums of whole numbers modulo p, each partial sum reduced."""
    modulo, word = stage.modulo, computed_type(stage.body.type)
    others = ", ".join([*(d.block for d in tile[:-1]), "1"])
    code.line(f"acc = tl.zeros(({others},), tl.int64)")
    with code.block(f"for start in range(0, {bound.extent}, BLOCK_K):"), scope.inner():
        scope.define(bound, "start")
        value = f"({scope.value(stage.body)}).to(tl.int64)"
        lanes = scope.mask([bound])
        shape = ", ".join(d.block for d in tile)
        value = f"tl.where({lanes}, {value}, 0)" if lanes else value
        code.line(f"value = tl.broadcast_to({value} % {modulo}, ({shape},))")
        code.line(f"acc = (acc + tl.sum(value, {len(tile) - 1}, keep_dims=True)) % {modulo}")
    code.line(f"acc = ((acc + {modulo}) % {modulo}).to({word})")


def _split_axes(
    stage: Stage, strides: Mapping[str, tuple[int, ...]], apart: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Axes of the grid, of a tile's rows, and of its columns; the latter run along the output."""
    steps = _steps(stage.out, stage, strides)
    axes = tuple(a for a in stage.axes if a != apart)
    axes = tuple(sorted(axes, key=lambda a: (-steps[a], stage.axes.index(a))))
    long = [a for a in axes if stage.extents[a] > 1]
    if len(long) < 2:
        return (), (), axes
    inner = long[-1]
    reads = [_steps(a, stage, strides) for a in stage.reads]
    if stage.reduce:
        # Reuse, as in a product: what depends on the innermost axis, and what does not.
        without = [r for r in reads if not r[inner] and any(r[a] for a in stage.axes)]
        along = [r for r in reads if r[inner]]
        if not without or not along:
            return (), (), axes
        both = [a for a in axes if all(r[a] for r in reads if any(r[b] for b in stage.axes))]
        rows = [a for a in axes if a not in both and not any(r[a] for r in along)]
        columns = [a for a in axes if a not in both and a not in rows]
        if not rows:
            return (), (), axes
        return tuple(both), tuple(rows), tuple(columns)
    across = [
        min((a for a in long if r[a]), key=lambda a: r[a]) for r in reads if any(r[a] for a in long)
    ]
    other = next((a for a in across if a != inner and any(r[a] == 1 for r in reads)), None)
    if other is None:
        return (), (), axes
    rest = tuple(a for a in axes if a not in (inner, other))
    return rest, (other,), (inner,)


def _steps(access: Access, stage: Stage, strides: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    given = strides.get(access.tensor.name) or row_major_elements(access.tensor.shape)
    return {
        axis: sum(i.coefficient(axis) * s for i, s in zip(access.indices, given, strict=True))
        for axis in stage.all_axes
    }


def _default(stage: Stage, rows: tuple[str, ...], columns: tuple[str, ...]) -> Config:
    m = prod(stage.extents[a] for a in rows)
    n = prod(stage.extents[a] for a in columns)
    k = prod(stage.extents[a] for a in stage.bound)
    if not stage.reduce:
        if rows:
            return Config(m=min(64, pow2(m)), n=min(64, pow2(n)), warps=4)
        return Config(n=min(1024, max(32, pow2(n))), warps=4)
    if rows:
        return Config(m=min(32, pow2(m)), n=min(64, pow2(n)), k=min(8, pow2(k)), warps=4)
    if not columns:
        return Config(k=min(4096, pow2(k)), warps=4)
    if _runs_across(stage):
        return Config(n=min(64, pow2(n)), k=min(32, pow2(k)), warps=4)
    k_block = min(1024, pow2(k))
    return Config(n=max(1, min(pow2(n), 2048 // k_block)), k=k_block, warps=4)


def _runs_across(stage: Stage) -> bool:
    """Whether the reduction's operands are contiguous along an output axis instead."""
    for access in stage.reads:
        last = access.indices[-1].axes if access.indices else ()
        if any(a in stage.bound for a in last):
            return False
    return True


def _domain(
    stage: Stage, rows: Dim | None, columns: Dim | None, bound: Dim | None
) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {"warps": (1, 2, 4, 8)}
    if rows is not None:
        found["m"] = tuple(v for v in (8, 16, 32, 64, 128) if v <= max(8, pow2(rows.extent)))
    if columns is not None:
        sizes = (16, 32, 64, 128, 256, 512, 1024, 2048) if bound is None else (1, 2, 4, 16, 32, 64)
        found["n"] = tuple(v for v in sizes if v <= max(sizes[0], pow2(columns.extent)))
    if bound is not None:
        deep = (4, 8, 16, 32) if rows is not None else (32, 128, 512, 1024, 2048, 4096)
        found["k"] = tuple(v for v in deep if v <= max(deep[0], pow2(bound.extent)))
        if splits(stage):
            long = bound.extent // 4096
            found["split"] = tuple(v for v in (1, 8, 64, 256) if v == 1 or v <= long)
    return found
