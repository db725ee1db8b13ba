"""Statements over the same rows in one kernel: softmax, layer norms, an argmax.

Every statement reduces a row or computes its elements. Where a row fits into a tile, it is read
once and everything stays in registers; else `passes` walks over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from planish.codegen.triton.finish import arguments
from planish.codegen.triton.match_rows import Rows
from planish.codegen.triton.nodes import Held
from planish.codegen.triton.passes import after, emit_passes, full_tile, leave
from planish.codegen.triton.places import Dim
from planish.codegen.triton.scope import Scope, neutral
from planish.codegen.triton.source import (
    Code,
    Config,
    KernelSource,
    argument,
    pow2,
)
from planish.tensor.expr import Access, Expr, Tensor, map_accesses
from planish.tensor.program import Stage

WHOLE = 16384  # elements of a row that still fit into the registers of a block


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
    reads = [a for s in stages for a in [*s.reads, s.out]]
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
        "k": tuple(v for v in sorted({512, 1024, 2048, 4096, 8192, pow2(length)})
                   if v < length or v == pow2(length)),
        "warps": (1, 2, 4, 8, 16),
        "persistent": (0, 264, 528),
    }  # fmt: skip
    return KernelSource(
        name, "rows", text, tensors, tuple(s.out.tensor.name for s in kept),
        (persistent or tiles, 1, 1), config,
        tuple(map(str, found.stages)), work, moved, domain,
        {"points": count, "row": length, "type": "f32"},
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
        emit_passes(code, scope, stages, k, tile, written)


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
        value = full_tile(scope, stage.body)
        if lanes:
            value = f"tl.where({lanes}, {value}, {neutral(stage.reduce, stage.body.type)})"
        code.line(f"{name} = {scope.reduced(stage.reduce, value, stage.body.type, axis)}")
        after(code, scope, stage, name)
    else:
        code.line(f"{name} = {scope.value(stage.body)}")
    leave(code, scope, stage, name, written)
