"""What statements of all forms have in common: arguments, what follows a reduction, the store."""

from __future__ import annotations

from planish.codegen.triton.scope import Scope
from planish.codegen.triton.source import (
    Code,
)
from planish.tensor.expr import Expr, Tensor
from planish.tensor.program import Accumulator, Stage


def arguments(*stages: Stage) -> tuple[Tensor, ...]:
    """Tensors read and written, those written last."""
    written = dict.fromkeys(s.out.tensor for s in stages)
    read = dict.fromkeys(a.tensor for s in stages for a in s.reads)
    return (*(t for t in read if t not in written), *written)


def finish(code: Code, scope: Scope, stage: Stage, result: str) -> None:
    """What comes after the reduction, and the store."""
    value = result
    if stage.post is not None:
        for held in accumulators(stage.post):
            scope.hold(held, result)
        value = scope.value(stage.post)
    scope.store(stage.out, value)


def accumulators(expr: Expr) -> set[Expr]:
    if isinstance(expr, Accumulator):
        return {expr}
    return {a for p in expr.parts for a in accumulators(p)}
