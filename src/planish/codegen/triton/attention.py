"""Attention in its online form: scores never leave the registers.

The kernel walks over k with running maxima and sums (Dao et al., arXiv 2205.14135). Probabilities
are rounded to V's type for the second product where that has 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from planish.codegen.triton.causal import reach
from planish.codegen.triton.contraction import side
from planish.codegen.triton.finish import accumulators, arguments
from planish.codegen.triton.match_attention import Attention, value_axes
from planish.codegen.triton.match_contraction import (
    Contraction,
    stripped,
)
from planish.codegen.triton.places import Dim
from planish.codegen.triton.plan import (
    renamed,
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
from planish.tensor.expr import Access, Cast, Expr, Op, accesses
from planish.tensor.program import Accumulator
from planish.tensor.types import F32


def emit_attention(
    found: Attention, given: Config, strides: Mapping[str, tuple[int, ...]], name: str
) -> KernelSource:
    """The kernel: one block a tile of queries, a loop over tiles of keys."""
    scores, out = found.scores, found.out
    depth = scores.extent(scores.k)
    extents = {**scores.stage.extents, **out.extents}
    [e_axis] = value_axes(found.values, out)
    config = given.over(_default(scores, depth))
    queries = Dim("m", tuple((a, extents[a]) for a in scores.m), "BLOCK_M", config.m)
    keys = Dim("n", tuple((a, extents[a]) for a in scores.n), "BLOCK_N", config.n)
    d = Dim("k", tuple((a, extents[a]) for a in scores.k), "BLOCK_D", max(16, pow2(depth)))
    e = Dim("e", ((e_axis, extents[e_axis]),), "BLOCK_E", max(16, pow2(extents[e_axis])))
    batch = Dim("b", tuple((a, extents[a]) for a in scores.batch)) if scores.batch else None
    inner = renamed(scores.stage, {})
    reads = [*inner.reads, *accesses(found.score), *out.reads, out.out]
    mine = {s.out.tensor for s in found.stages[:3]}
    reads = [a for a in reads if a.tensor not in mine]
    tensors = tuple(t for t in arguments(*found.stages) if t not in mine)
    code = Code({argument(t.name) for t in tensors} | {name})
    programs = [batch] if batch else []
    left = Scope(code, (queries, d), programs, strides, reads)
    right = Scope(code, (d, keys), programs, strides, reads)
    grid = Scope(code, (queries, keys), programs, strides, reads)
    value = Scope(code, (keys, e), programs, strides, reads)
    last = Scope(code, (queries, e), programs, strides, reads)
    scopes = (left, right, grid, value, last)

    def define(dim: Dim, start: str, used: Sequence[Scope]) -> None:
        used[0].define(dim, start)
        for other in used[1:]:
            other.share(dim, used[0])

    if batch:
        define(batch, "tl.program_id(1)", scopes)
    define(queries, "tl.program_id(0) * BLOCK_M", (left, grid, last))
    define(d, "0", (left, right))
    define(e, "0", (value, last))
    q = side(code, left, scores.left, scores.type, d, "q")
    code.line('high = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)')
    code.line("total = tl.zeros((BLOCK_M, 1), tl.float32)")
    code.line("acc = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)")
    narrow = found.values.type.name in ("f16", "bf16")
    wanted = found.values.type if narrow else F32
    exact = f', input_precision="{scores.precision}"'
    behind = reach(found)
    end = str(keys.extent)
    if behind is not None:  # no query of the block sees a key behind these
        last_seen = f"(tl.program_id(0) + 1) * BLOCK_M{f' + {behind}' if behind else ''}"
        end = code.fresh("end")
        code.line(f"{end} = tl.minimum({last_seen}, {keys.extent})")
    loop = f"for start in range(0, {end}, BLOCK_N):"
    with code.block(loop), right.inner(), grid.inner(), value.inner():
        define(keys, "start", (right, grid, value))
        k = side(code, right, scores.right, scores.type, d, "k")
        precision = exact if scores.type == F32 else ""
        code.line(f"s = tl.dot({q}, {k}{precision})")
        if scores.factor is not None:
            code.line(f"s = s * {scores.factor!r}")
        post = scores.stage.post
        if post is not None:
            for accumulator in accumulators(post):
                grid.hold(accumulator, "s")
            code.line(f"s = {grid.value(post)}")
            for accumulator in accumulators(post):
                grid.hold(accumulator, "s")
        grid.hold(found.held, "s")
        text = grid.value(found.score)
        if text != "s":
            code.line(f"s = {text}")
        lanes = grid.mask([keys])
        if lanes:
            code.line(f's = tl.where({lanes}, s, float("-inf"))')
        code.line("grown = tl.maximum(high, tl.max(s, 1, keep_dims=True))")
        code.line('safe = tl.where(grown == float("-inf"), 0.0, grown)')
        code.line("p = tl.exp(s - safe)")
        code.line("scale = tl.exp(high - safe)")
        code.line("total = total * scale + tl.sum(p, 1, keep_dims=True)")
        plain = narrow or found.values.type == F32
        v = value.raw(found.values) if plain else f"({value.value(found.values)}).to(tl.float32)"
        p = f"p.to({triton_type(wanted)})" if narrow else "p"
        precision = exact if wanted == F32 else ""
        code.line(f"acc = tl.dot({p}, {v}, acc * scale{precision})")
        code.line("high = grown")
    code.line("acc = acc / total")
    _finish(code, last, found)
    blocks = {"BLOCK_M": config.m, "BLOCK_N": config.n, "BLOCK_D": d.length, "BLOCK_E": e.length}
    text = code.module(
        name, [argument(t.name) for t in tensors], blocks, "\n".join(map(str, found.stages))
    )
    points = prod(extents[a] for a in scores.batch) * _pairs(queries.extent, keys.extent, behind)
    work = 2 * points * (depth + extents[e_axis])
    moved = sum(prod(t.shape) * t.type.size for t in tensors)
    return KernelSource(
        name, "attention", text, tensors, (out.out.tensor.name,),
        (-(-queries.extent // config.m), batch.extent if batch else 1, 1), config,
        tuple(map(str, found.stages)), work, moved,
        {"m": (16, 32, 64, 128), "n": (16, 32, 64, 128), "warps": (4, 8), "stages": (1, 2, 3, 4)},
        {"rows": queries.extent, "columns": keys.extent, "depth": depth, "batch":
         batch.extent if batch else 1, "type": scores.type.name, "head": d.length + e.length,
         "operand_bytes": scores.type.size, "precision": scores.precision},
    )  # fmt: skip


def _pairs(queries: int, keys: int, behind: int | None) -> int:
    """Pairs of a query and a key that it sees."""
    if behind is None:
        return queries * keys
    return sum(min(max(query + behind + 1, 0), keys) for query in range(queries))


def _finish(code: Code, scope: Scope, found: Attention) -> None:
    """What comes after; a division by the sums has happened already."""
    value = "acc"
    post = found.out.post
    if post is not None:
        undivided = _undivided(post, found.sums)
        for accumulator in accumulators(undivided):
            scope.hold(accumulator, "acc")
        value = scope.value(undivided)
    scope.store(found.out.out, value)


def _undivided(expr: Expr, sums: Access) -> Expr:
    """`acc / sums` as `acc`."""
    if isinstance(expr, Op) and expr.name == "div":
        above, below = stripped(expr.arguments[0]), stripped(expr.arguments[1])
        if isinstance(above, Accumulator) and below == sums:
            return above
    if isinstance(expr, Op):
        return Op(expr.name, tuple(_undivided(a, sums) for a in expr.arguments), expr.type)
    if isinstance(expr, Cast):
        return Cast(_undivided(expr.argument, sums), expr.type)
    return expr


def _default(scores: Contraction, depth: int) -> Config:
    queries, keys = scores.extent(scores.m), scores.extent(scores.n)
    most = 128 if depth <= 64 and scores.type.size <= 2 else 64
    m = max(16, min(most, pow2(queries)))
    return Config(m=m, n=max(16, min(64, pow2(keys))), warps=4, stages=3)
