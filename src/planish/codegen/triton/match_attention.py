"""Attention recognised: scores, row maxima, row sums of exponentials, the product with V.

The four statements are scores S[q, k] = f(sum(d: Q K)), their row maxima, the row sums of
exp(S - max), and the product of exp(S - max), divided by the sums before or after, with V.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.codegen.triton.match_contraction import (
    Contraction,
    as_contraction,
    factors_of,
    stripped,
)
from planish.codegen.triton.plan import (
    renamed,
)
from planish.codegen.triton.source import Numbers
from planish.tensor.expr import Access, Cast, Expr, Op, Tensor, accesses, plain_axes
from planish.tensor.program import Stage
from planish.tensor.types import F32


@dataclass(frozen=True)
class Attention:
    """The statements, and what they come to with axes of common names.

    scores  the first contraction; `score` is the value under the exponential, over it
    values  V; `divided` says that the sums divide before the second product
    """

    stages: tuple[Stage, ...]
    scores: Contraction
    score: Expr
    values: Access
    out: Stage
    held: Access
    sums: Access
    keys: tuple[str, ...]


def as_attention(
    waiting: Sequence[Stage], outputs: Sequence[Tensor], strides: Mapping[str, tuple[int, ...]],
    numbers: Numbers,
) -> Attention | None:  # fmt: skip
    """Attention at the head of these statements, or None."""
    if len(waiting) < 4:
        return None
    first, top, total, out = waiting[:4]
    if any(s.out.tensor in outputs for s in (first, top, total)):
        return None
    if [s.reduce for s in (first, top, total, out)] != ["sum", "max", "sum", "sum"]:
        return None
    if any(plain_axes(s.out) is None for s in (first, top, total, out)):
        return None
    if top.post is not None or total.post is not None or len(out.bound) != 1:
        return None
    scores = as_contraction(first, numbers, strides)
    if scores is None or first.out.tensor.type != F32:
        return None
    read = next((a for a in accesses(top.body) if a.tensor == first.out.tensor), None)
    if read is None:
        return None
    found = _probabilities(out, first, top, total)
    if found is None:
        return None
    score, values, held, sums = found
    names = _names(first, held)
    if names is None:
        return None
    moved = as_contraction(renamed(first, names), numbers, strides)
    if moved is None or len(moved.n) != 1 or moved.n[0] != out.bound[0]:
        return None
    if set(moved.batch + moved.m) != set(out.axes) - value_axes(values, out):
        return None
    if len(value_axes(values, out)) != 1:
        return None
    return Attention(
        (first, top, total, out), moved, score, values, out, held, sums, tuple(out.bound)
    )


def value_axes(values: Access, out: Stage) -> set[str]:
    """Axes of the result that only V has."""
    rest = {
        axis
        for a in accesses(out.body)
        if a.tensor != values.tensor
        for i in a.indices
        for axis in i.axes
    }
    return set(out.axes) - rest


def _names(first: Stage, read: Access) -> dict[str, str] | None:
    """The score's axes by the names that the last statement has."""
    own, asked = plain_axes(first.out), plain_axes(read)
    if own is None or asked is None:
        return None
    names = dict(zip(own, asked, strict=True))
    for b in first.bound:
        names[b] = f"{b}_" if b in names.values() else b
    return names


def _probabilities(
    out: Stage, first: Stage, top: Stage, total: Stage
) -> tuple[Expr, Access, Access, Access] | None:
    """The score, V, and the reads of S and of the sums in the last statement."""
    factors, constant = factors_of(out.body)
    if constant is not None or len(factors) != 2:
        return None
    for one, other in (factors, factors[::-1]):
        values = stripped(other)
        if not isinstance(values, Access):
            continue
        weight = _through(one)
        sums: Access | None = None
        if isinstance(weight, Op) and weight.name == "div":
            below = stripped(weight.arguments[1])
            if not isinstance(below, Access) or below.tensor != total.out.tensor:
                return None
            sums, weight = below, _through(weight.arguments[0])
        elif out.post is not None:
            sums = next((a for a in accesses(out.post) if a.tensor == total.out.tensor), None)
        if sums is None or not (isinstance(weight, Op) and weight.name == "exp"):
            continue
        inside = weight.arguments[0]
        if not (isinstance(inside, Op) and inside.name == "sub"):
            continue
        score, high = stripped(inside.arguments[0]), stripped(inside.arguments[1])
        if not isinstance(high, Access) or high.tensor != top.out.tensor:
            continue
        held = next((a for a in accesses(score) if a.tensor == first.out.tensor), None)
        if held is None or not _same(top, total, out, score, held, first):
            continue
        return score, values, held, sums
    return None


def _through(expr: Expr) -> Expr:
    """Without conversions of floats: probabilities are rounded anyway."""
    while isinstance(expr, Cast) and expr.type.is_float and expr.argument.type.is_float:
        expr = expr.argument
    return expr


def _same(top: Stage, total: Stage, out: Stage, score: Expr, held: Access, first: Stage) -> bool:
    """Whether the maxima and the sums are of this very score."""
    for stage in (top, total):
        read = next((a for a in accesses(stage.body) if a.tensor == first.out.tensor), None)
        asked, own = plain_axes(held), plain_axes(read) if read is not None else None
        if read is None or asked is None or own is None:
            return False
        moved = renamed(stage, dict(zip(own, asked, strict=True)))
        if stage is top and stripped(moved.body) != score:
            return False
        if stage is total:
            body = _through(moved.body)
            if not (isinstance(body, Op) and body.name == "exp"):
                return False
            inside = body.arguments[0]
            if not (isinstance(inside, Op) and inside.name == "sub"):
                return False
            below = stripped(inside.arguments[1])
            if stripped(inside.arguments[0]) != score or not isinstance(below, Access):
                return False
            if below.tensor != top.out.tensor:
                return False
        if set(moved.bound) != set(out.bound):
            return False
    return True
