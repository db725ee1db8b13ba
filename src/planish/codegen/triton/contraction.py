"""Contractions on tensor cores: a loop over k, with split-K, grouped order, a persistent grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from planish.codegen.triton.finish import arguments, finish
from planish.codegen.triton.match_contraction import (
    Contraction,
    Operand,
)
from planish.codegen.triton.nodes import Guarded
from planish.codegen.triton.places import Dim
from planish.codegen.triton.plan import (
    unlike,
)
from planish.codegen.triton.scope import Scope
from planish.codegen.triton.source import (
    Code,
    Config,
    KernelSource,
    argument,
    pow2,
    triton_type,
)
from planish.tensor.expr import Access, Expr, Index, Tensor, accesses
from planish.tensor.program import Stage
from planish.tensor.small_floats import LAYOUTS
from planish.tensor.types import F32, Type

_F8 = {"f8e4m3": "tl.float8e4nv", "f8e5m2": "tl.float8e5"}  # as the hardware multiplies them


def default_config(found: Contraction) -> Config:
    """Tiles by rule: as large as the result is, as deep as four warps keep busy."""
    wide = {1: 128, 2: 64}.get(found.type.size, 32)
    most = 128 if found.type.size <= 2 else 64
    rows, columns = found.extent(found.m), found.extent(found.n)
    m = max(16, min(most, pow2(rows)))
    n = max(16, min(most, pow2(columns)))
    k = max(32 if found.type.size == 1 else 16, min(wide, pow2(found.extent(found.k))))
    warps = 8 if m * n >= 128 * 128 else 4
    tiles = -(-rows // m) * -(-columns // n) * found.extent(found.batch)
    depth = found.extent(found.k) // k
    split = 1
    while tiles * split * 2 <= 132 and depth // (split * 2) >= 8:
        split *= 2
    return Config(m=m, n=n, k=k, warps=warps, stages=3, group=8, split=split)


def domain(found: Contraction) -> dict[str, tuple[int, ...]]:
    """Choices worth a look for each field."""
    rows, columns, depth = (found.extent(g) for g in (found.m, found.n, found.k))
    sizes = (16, 32, 64, 128, 256)

    def lengths(extent: int) -> tuple[int, ...]:
        """The four largest lengths that are not far beyond the extent."""
        return tuple(v for v in sizes if v <= max(16, pow2(extent)))[-4:]

    deep = tuple(v for v in (16, 32, 64, 128) if v <= max(32, pow2(depth)))
    return {
        "m": lengths(rows), "n": lengths(columns),
        "k": tuple(v for v in deep if found.type.size > 1 or v >= 32)[-3:],
        "warps": (4, 8), "stages": (1, 2, 3, 4), "group": (1, 8),
        "split": tuple(v for v in (1, 2, 4, 8) if v == 1 or depth >= 64 * v),
        "persistent": (0, 132),
    }  # fmt: skip


def emit_contraction(
    found: Contraction, given: Config, strides: Mapping[str, tuple[int, ...]], name: str
) -> list[KernelSource]:
    """The kernel; with split-K a second one that adds the parts up."""
    stage = found.stage
    config = given.over(default_config(found))
    if config.split > 1:
        return _split(found, config, strides, name)
    tensors = arguments(stage)
    code = Code({t.name for t in tensors} | {name})
    dims = _Dims.of(found, config)
    grid = _emit(code, found, dims, config, strides, stage)
    return [_source(code, found, config, tensors, grid, name, (str(stage.out.tensor.name),))]


def _split(
    found: Contraction, config: Config, strides: Mapping[str, tuple[int, ...]], name: str
) -> list[KernelSource]:
    """Parts of the sum by blocks of their own into a temporary, added up by a second kernel."""
    from planish.codegen.triton.tiles import emit_tile

    stage = found.stage
    free = (*found.batch, *found.m, *found.n)
    shape = (config.split, *(stage.extents[a] for a in free))
    parts = Tensor(f"{stage.out.tensor.name}_parts", shape, found.accumulator)
    tensors = (*dict.fromkeys(a.tensor for a in accesses(stage.body)), parts)
    axis = unlike("part", set(stage.all_axes))
    code = Code({t.name for t in tensors} | {name, axis})
    dims = _Dims.of(found, config)
    part = Dim("part", ((axis, config.split),))
    out = Access(parts, tuple(Index(((a, 1),)) for a in (axis, *free)))
    axes = (axis, *free)
    extents = {**stage.extents, axis: config.split}
    partial = Stage(f"{stage.name}_parts", out, axes, stage.bound, "sum", stage.body, None, extents)
    grid = _emit(code, found, dims, config, strides, partial, part)
    first = _source(code, found, config, tensors, grid, name, (parts.name,))
    value: Expr = Access(parts, out.indices)
    total: Expr | None = stage.post
    adding = Stage(
        stage.name, stage.out, stage.axes, (axis,), "sum", value, total,
        {**{a: stage.extents[a] for a in stage.axes}, axis: config.split},
    )  # fmt: skip
    return [first, emit_tile(adding, Config(), strides, f"{name}_add")]


@dataclass(frozen=True)
class _Dims:
    batch: Dim | None
    m: Dim
    n: Dim
    k: Dim

    @classmethod
    def of(cls, found: Contraction, config: Config) -> _Dims:
        def dim(name: str, axes: tuple[str, ...], block: str, length: int) -> Dim:
            return Dim(name, tuple((a, found.stage.extents[a]) for a in axes), block, length)

        batch = dim("b", found.batch, "", 1) if found.batch else None
        k = dim("k", found.k, "BLOCK_K", config.k)
        steps = -(-k.extent // (config.k * config.split)) * config.split
        k = replace(k, always=config.split > 1 and steps * config.k != k.extent)
        return cls(
            batch, dim("m", found.m, "BLOCK_M", config.m), dim("n", found.n, "BLOCK_N", config.n), k
        )


def _emit(
    code: Code, found: Contraction, dims: _Dims, config: Config,
    strides: Mapping[str, tuple[int, ...]], stage: Stage, part: Dim | None = None,
) -> tuple[int, int, int]:  # fmt: skip
    """The body of the kernel; returns the grid."""
    tiles_m, tiles_n = -(-dims.m.extent // dims.m.length), -(-dims.n.extent // dims.n.length)
    batches = dims.batch.extent if dims.batch else 1
    programs = [d for d in (dims.batch, part) if d is not None]
    reads = [*found.stage.reads, stage.out]
    total = tiles_m * tiles_n * batches
    persistent = config.persistent and part is None and config.persistent < total
    if persistent:
        header = f"for tile in range(tl.program_id(0), {total}, tl.num_programs(0)):"
        with code.block(header):
            if dims.batch:
                code.line(f"batch = tile // {tiles_m * tiles_n}")
                code.line(f"pid = tile % {tiles_m * tiles_n}")
            else:
                code.line("pid = tile")
            _tile(code, found, dims, config, strides, stage, reads, programs, ("batch", ""))
        return (config.persistent, 1, 1)
    code.line("pid = tl.program_id(0)")
    where = ("tl.program_id(1)", "tl.program_id(2)")
    _tile(code, found, dims, config, strides, stage, reads, programs, where)
    return (tiles_m * tiles_n, batches, config.split if part else 1)


def _tile(
    code: Code, found: Contraction, dims: _Dims, config: Config,
    strides: Mapping[str, tuple[int, ...]], stage: Stage, reads: list[Access],
    programs: list[Dim], where: tuple[str, str],
) -> None:  # fmt: skip
    tiles_m, tiles_n = -(-dims.m.extent // dims.m.length), -(-dims.n.extent // dims.n.length)
    _order(code, tiles_m, tiles_n, config.group)
    left = Scope(code, (dims.m, dims.k), programs, strides, reads)
    right = Scope(code, (dims.k, dims.n), programs, strides, reads)
    last = Scope(code, (dims.m, dims.n), programs, strides, reads)
    scopes = (left, right, last)
    for dim, start in zip(programs, where if dims.batch else (where[1],), strict=False):
        _define(dim, start, scopes)
    _define(dims.m, "pid_m * BLOCK_M", (left, last))
    _define(dims.n, "pid_n * BLOCK_N", (right, last))
    code.line(f"acc = tl.zeros((BLOCK_M, BLOCK_N), {triton_type(found.accumulator)})")
    depth = dims.k.extent
    split = config.split if stage is not found.stage else 1
    steps = -(-depth // (dims.k.length * split)) * split
    if split > 1:
        per = steps // split * dims.k.length
        part = scopes[0].index_of(programs[-1])
        header = f"for start in range({part} * {per}, {part} * {per} + {per}, BLOCK_K):"
    else:
        header = f"for start in range(0, {depth}, BLOCK_K):"
    with code.block(header), left.inner(), right.inner():
        _define(dims.k, "start", (left, right))
        a = side(code, left, found.left, found.type, dims.k, "a")
        b = side(code, right, found.right, found.type, dims.k, "b")
        extra = ""
        if found.type == F32:
            extra = f', input_precision="{found.precision}"'
        if found.type.name == "i8":
            extra = ", out_dtype=tl.int32"
        if found.type.name in LAYOUTS:
            # Hopper's own sums of f8 products are narrower than f32: no longer than one tile.
            extra = ", max_num_imprecise_acc=BLOCK_K"
        code.line(f"acc = tl.dot({a}, {b}, acc{extra})")
    if found.factor is not None:
        code.line(f"acc = acc * {found.factor!r}")
    finish(code, last, stage, "acc")


def _define(dim: Dim, start: str, scopes: Sequence[Scope]) -> None:
    scopes[0].define(dim, start)
    for other in scopes[1:]:
        other.share(dim, scopes[0])


def side(code: Code, scope: Scope, operand: Operand, type: Type, k: Dim, name: str) -> str:
    """One operand of the dot in the dot's type, zero where k lies beyond the end."""
    inner = operand.value
    stored = operand.stored
    if stored is not None and isinstance(inner, Access):
        text = _converted(code, scope.raw(inner), stored, type)
    elif stored is not None and isinstance(inner, Guarded) and inner.around.value == 0:
        text = _converted(code, scope.raw_guarded(inner), stored, type)
    else:
        text = scope.value(operand.value)
        if k.masked:
            text = f"tl.where({scope.mask([k])}, {text}, {'0.0' if type.is_float else '0'})"
        if type.name in LAYOUTS:
            text = f"{scope.stored(text, type)}.to({_F8[type.name]}, bitcast=True)"
        elif type.name != "f32":
            text = f"({text}).to({triton_type(type)})"
    fresh = code.fresh(name)
    code.line(f"{fresh} = {text}")
    return fresh


def _converted(code: Code, text: str, stored: Type, type: Type) -> str:
    """Elements in the dot's type; bytes by packed bit operations, since conversions are scalar."""
    if type.name in LAYOUTS:
        return f"{text}.to({_F8[type.name]}, bitcast=True)"
    if stored == type:
        return text
    if stored.name in LAYOUTS:
        half = f"{code.helper(f'_{stored.name}_to_f16')}({text})"
        return half if type.name == "f16" else f"{half}.to(tl.float32).to({triton_type(type)})"
    if stored.name == "i8" and type.name in ("f16", "bf16"):
        return f"{code.helper(f'_i8_to_{type.name}')}({text})"
    return f"{text}.to({triton_type(type)})"


def _order(code: Code, tiles_m: int, tiles_n: int, group: int) -> None:
    """Which tile this program computes: down `group` rows of tiles, then the next column."""
    if tiles_n == 1:
        code.line("pid_m = pid")
        code.line("pid_n = 0")
        return
    if group <= 1 or tiles_m == 1:
        code.line(f"pid_m = pid // {tiles_n}")
        code.line(f"pid_n = pid % {tiles_n}")
        return
    code.line(f"first = pid // {group * tiles_n} * {group}")
    if tiles_m % group == 0:
        code.line(f"pid_m = first + pid % {group * tiles_n} % {group}")
        code.line(f"pid_n = pid % {group * tiles_n} // {group}")
        return
    code.line(f"rows = tl.minimum({tiles_m} - first, {group})")
    code.line(f"pid_m = first + pid % {group * tiles_n} % rows")
    code.line(f"pid_n = pid % {group * tiles_n} // rows")


def _source(
    code: Code, found: Contraction, config: Config, tensors: tuple[Tensor, ...],
    grid: tuple[int, int, int], name: str, outputs: tuple[str, ...],
) -> KernelSource:  # fmt: skip
    blocks = {"BLOCK_M": config.m, "BLOCK_N": config.n, "BLOCK_K": config.k}
    text = code.module(name, [argument(t.name) for t in tensors], blocks, str(found.stage))
    work = 2 * prod(found.extent(g) for g in (found.batch, found.m, found.n, found.k))
    moved = sum(prod(t.shape) * t.type.size for t in tensors)
    facts: dict[str, int | str] = {
        "rows": found.extent(found.m), "columns": found.extent(found.n),
        "depth": found.extent(found.k), "batch": found.extent(found.batch),
        "type": found.type.name, "operand_bytes": found.type.size,
        "precision": found.precision,
    }  # fmt: skip
    return KernelSource(
        name, "contraction", text, tensors, outputs, grid, config, (str(found.stage),), work,
        moved, domain(found), facts,
    )  # fmt: skip
