"""Rows that do not fit into a tile: each reduction is a pass over the row.

A maximum and the sum of exponentials relative to it share one pass (the online form of Milakov
and Gimelshein, arXiv 1805.02867).
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.codegen.triton.finish import accumulators
from planish.codegen.triton.match_contraction import (
    stripped,
)
from planish.codegen.triton.nodes import Held
from planish.codegen.triton.places import Dim
from planish.codegen.triton.scope import Scope, combined, neutral
from planish.codegen.triton.source import (
    Code,
    computed_type,
)
from planish.tensor.expr import Cast, Expr, Op, Tensor, accesses
from planish.tensor.program import Stage
from planish.tensor.types import Type


def emit_passes(
    code: Code, scope: Scope, stages: Sequence[Stage], k: Dim, tile: list[Dim],
    written: set[Tensor],
) -> None:  # fmt: skip
    """Rows longer than a tile: a loop for each reduction (or online pair) and one for the rest."""
    axis = len(tile) - 1
    shape = "(" + ", ".join(d.block for d in tile) + ",)"
    waiting = list(stages)
    pending: list[Stage] = []  # elementwise statements over whole rows, computed in the last loop
    for stage in stages:
        for expr in stage.expressions:
            scope.load_all(expr, k)
    while waiting:
        stage = waiting.pop(0)
        if not stage.reduce:
            if {d.name for d in scope.dims_of(stage.out)} >= {k.name}:
                pending.append(stage)
            else:
                name = code.fresh(stage.out.tensor.name + "_row")
                code.line(f"{name} = {scope.value(stage.body)}")
                leave(code, scope, stage, name, written)
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
            value = _lanes(scope, k, full_tile(scope, stage.body), start)
            code.line(f"{name} = {combined(stage.reduce, name, value, stage.body.type)}")
        code.line(f"{name} = {scope.reduced(stage.reduce, name, stage.body.type, axis)}")
        after(code, scope, stage, name)
        leave(code, scope, stage, name, written)
    if any(s.out.tensor in written for s in pending):
        with code.block(f"for start in range(0, {k.extent}, BLOCK_K):"), scope.inner():
            scope.define(k, "start")
            for stage in pending:
                name = code.fresh(stage.out.tensor.name + "_row")
                code.line(f"{name} = {scope.value(stage.body)}")
                leave(code, scope, stage, name, written)


def full_tile(scope: Scope, body: Expr) -> str:
    """A value with the full shape of the tile."""
    text = scope.value(body)
    if any(set(scope.dims_of(a)) == set(scope.tile) for a in accesses(body)):
        return text
    return f"tl.broadcast_to({text}, ({', '.join(d.block for d in scope.tile)},))"


def after(code: Code, scope: Scope, stage: Stage, name: str) -> None:
    if stage.post is None:
        return
    with scope.inner():
        for accumulator in accumulators(stage.post):
            scope.hold(accumulator, name)
        text = scope.value(stage.post)
    code.line(f"{name} = {text}")


def leave(code: Code, scope: Scope, stage: Stage, name: str, written: set[Tensor]) -> None:
    """Keep a statement's value for later ones, and write it where that is asked for."""
    out = stage.out.tensor
    final = stage.post if stage.post is not None else stage.body
    value = name
    if out.type.is_narrow_float and not _is_rounded(final, out.type):
        value = scope.rounded(name, out.type)
    scope.hold(Held(out.name, out.type), value)
    if out in written:
        scope.store(stage.out, name)


def _is_rounded(expr: Expr, type: Type) -> bool:
    return isinstance(expr, Cast) and expr.type == type


def _row_values(code: Code, scope: Scope, pending: Sequence[Stage]) -> None:
    """Elementwise values of rows that a reduction reads, computed again in its loop."""
    for stage in pending:
        name = code.fresh(stage.out.tensor.name + "_row")
        code.line(f"{name} = {scope.value(stage.body)}")
        leave(code, scope, stage, name, set())


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
        and stripped(inside.arguments[0]) == stripped(top.body)
        and stripped(inside.arguments[1]) == held
    )  # fmt: skip


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
        value = _lanes(scope, k, full_tile(scope, top.body), 'float("-inf")')
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
    leave(code, scope, top, high, written)
    after(code, scope, total, low)
    leave(code, scope, total, low, written)
