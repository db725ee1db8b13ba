"""Where an element stands: positions along axes as values, and argmax and argmin made of them.

A table of 0, 1, 2, .. is an ordinary part of the program, made by a few short statements, so that
every code generator and the reference have it at no cost of their own. Code generators that know
an axis' position in a register (Triton's) see `Positions` and leave the table out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from planish.base.errors import UsageError
from planish.base.hashing import digest
from planish.tensor.expr import Access, Axis, Cast, Const, Expr, Tensor, axes, free_axes
from planish.tensor.extents import infer_extents
from planish.tensor.functions import axes_of, define, equal, max, min, pad, where
from planish.tensor.program import Definition
from planish.tensor.types import I32


class Positions(Tensor):
    """A computed tensor of one dimension that holds 0, 1, 2, .. in i32."""


def position(axis: Axis) -> Expr:
    """The position along an axis, whose extent must be given: `axes("k=128")`. An i32 value."""
    if axis.extent is None:
        raise UsageError(
            f"nothing says how long the axis '{axis.name}' is",
            hint=f'give its extent: axes("{axis.name}=128")',
        )
    return _table(axis.extent)[axis]


def argmax(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """Where the greatest element over axes is: an i32, row-major over several axes.

    Of equal ones the first. A NaN counts as infinity, so that the first NaN is found unless an
    infinity stands before it (NumPy and torch: also then).
    """
    return _extreme(max, inf, over, body)


def argmin(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """Where the least element over axes is; a NaN counts as minus infinity. Else as argmax."""
    return _extreme(min, -inf, over, body)


def _extreme(
    best: Callable[[Sequence[Axis], Expr], Expr],
    nan: float,
    over: Axis | Sequence[Axis],
    body: Expr,
) -> Expr:
    bound = axes_of(over)
    given = {a.name: a.extent for a in bound if a.extent is not None}
    extents = infer_extents(body, given)
    absent = [a.name for a in bound if a.name not in extents]
    if not bound:
        raise UsageError("argmax and argmin are over one axis at least")
    if absent:
        raise UsageError(f"argmax: the body does not depend on the axis '{absent[0]}'")
    lengths = [extents[a.name] for a in bound]
    if prod(lengths) >= 1 << 31:
        raise UsageError(f"positions are 32 bits wide, and {prod(lengths)} elements do not fit")
    if not prod(lengths):
        raise UsageError("argmax and argmin are of one element at least, and there is none")
    value = _stored(body, extents)
    if value.type.is_float:
        value = where(equal(value, value), value, nan)
    flat: Expr | None = None
    for at, (axis, length) in enumerate(zip(bound, lengths, strict=True)):
        own: Expr = _table(length)[Axis(axis.name, length)]
        step = prod(lengths[at + 1 :])
        own = own * step if step > 1 else own
        flat = own if flat is None else flat + own
    assert flat is not None
    hit = equal(value, best(bound, value))
    return min(bound, where(hit, flat, prod(lengths) - 1))


def _stored(body: Expr, extents: dict[str, int]) -> Expr:
    """A value that is the same whenever it is read.

    What is computed twice may be rounded twice (a product fused with a sum here and not there),
    and would then not equal its own maximum; so it is computed once, into a tensor.
    """
    inner = body
    while isinstance(inner, Cast):
        inner = inner.argument
    if isinstance(inner, Access):
        return body
    free = [Axis(name, extents[name]) for name in free_axes(body)]
    return define(f"compared_{digest(str(body))[:8]}", free, body)[tuple(free)]


def _table(length: int) -> Positions:
    """0, 1, 2, .. at least up to the length: squared again and again from 0, 1."""
    if length >= 1 << 31:
        raise UsageError(f"positions are 32 bits wide, and an axis of {length} does not fit")
    (i,) = axes("at_first=1")
    zero = define("position_0", [i], Const(0, I32))
    have: Tensor = pad(zero, ((0, 1),), 1)
    step = 2
    while step * step < length:
        have = _grown(have, step, step)
        step *= step
    return _grown(have, step, -(-length // step))


def _grown(have: Tensor, step: int, times: int) -> Positions:
    """The table of `times` times as many, from one of `step`."""
    length = step * times
    high, low = Axis(f"high_{length}", times), Axis(f"low_{length}", step)
    names = (high.name, low.name)
    extents = ((high.name, times), (low.name, step))
    body = _element(have, high) * step + _element(have, low)
    places = (high * step + low.index,)
    made = Definition(names, body, extents, places=places)
    return Positions(f"position_{length}", (length,), I32, made)


def _element(table: Tensor, axis: Axis) -> Expr:
    return Access(table, (axis.index,), ((axis.name, axis.extent or 0),))
