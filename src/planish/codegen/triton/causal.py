"""Masks that hide all keys behind a query's own: tiles of hidden keys need not be visited."""

from __future__ import annotations

from math import inf

from planish.codegen.triton.match_attention import Attention
from planish.codegen.triton.match_contraction import stripped
from planish.codegen.triton.nodes import Position
from planish.tensor.expr import Const, Expr, Op

_SWAPPED = {"ge": "le", "gt": "lt"}


def reach(found: Attention) -> int | None:
    """How far behind its own position a query sees, where it sees no key further; None: all.

    A hidden key has the score -inf, adds nothing to sums and products and is no maximum. Only a
    value of V there that is no number would be seen: 0 times it is NaN.
    """
    scores = found.scores
    if len(scores.m) != 1 or len(scores.n) != 1:
        return None
    for expr in (found.score, scores.stage.post):
        expr = stripped(expr) if expr is not None else None
        if isinstance(expr, Op) and expr.name == "where":
            return _reach(expr, keys=scores.n[0], queries=scores.m[0])
        if expr != found.held:
            return None
    return None


def _reach(masked: Op, keys: str, queries: str) -> int | None:
    seen, _, hidden = masked.arguments
    if not isinstance(hidden, Const) or hidden.value != -inf or not isinstance(seen, Op):
        return None
    name, sides = seen.name, seen.arguments
    if name in _SWAPPED:
        name, sides = _SWAPPED[name], sides[::-1]
    if name not in ("le", "lt"):
        return None
    key, query = (_place(side) for side in sides)
    if key is None or query is None or (key[0], query[0]) != (keys, queries):
        return None
    return query[1] - key[1] - (name == "lt")


def _place(expr: Expr) -> tuple[str, int] | None:
    """An axis and a constant where the value is their sum."""
    if isinstance(expr, Position) and len(expr.index.terms) == 1:
        [(axis, step)] = expr.index.terms
        return (axis, expr.index.constant) if step == 1 else None
    if isinstance(expr, Op) and expr.name in ("add", "sub"):
        first, second = expr.arguments
        if expr.name == "add" and isinstance(first, Const):
            first, second = second, first
        place = _place(first)
        if place is not None and isinstance(second, Const):
            more = int(second.value)
            return place[0], place[1] + (more if expr.name == "add" else -more)
    return None
