"""What a user writes besides operators: functions, reductions, named tensors, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish.base.errors import UsageError, unknown
from planish.tensor.expr import (
    REDUCTIONS,
    Access,
    Axis,
    Expr,
    Number,
    Operand,
    Reduce,
    Tensor,
    apply,
    cast,
    free_axes,
    number,
    walk,
)
from planish.tensor.extents import infer_extents
from planish.tensor.program import Definition
from planish.tensor.types import BOOL, F32, I32, Type, type_of


def tensor(name: str, shape: Sequence[int], type: str | Type = F32) -> Tensor:
    """An input of a program."""
    if not name.isidentifier():
        raise UsageError(f"'{name}' cannot name a tensor", hint="letters, digits, _")
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise UsageError(f"{name}: the shape {list(shape)} is not of whole numbers from 0 up")
    return Tensor(name, tuple(int(n) for n in shape), type_of(type))


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller one: `a` where `a < b`, else `b` (so a NaN in `a` gives `b`)."""
    return apply("min", a, b)


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger one: `a` where `a > b`, else `b` (so a NaN in `a` gives `b`)."""
    return apply("max", a, b)


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where the condition holds, else `b`; both are computed."""
    return apply("where", condition, a, b)


def equal(a: Operand, b: Operand) -> Expr:
    """Whether two elements are equal."""
    return apply("eq", a, b)


def absolute(x: Expr) -> Expr:
    """|x|"""
    return apply("abs", x)


def exp(x: Expr) -> Expr:
    """e to the power of x; at most 2 ULP off in f32 and f64."""
    return apply("exp", x)


def log(x: Expr) -> Expr:
    """The natural logarithm; at most 2 ULP off in f32 and f64."""
    return apply("log", x)


def sqrt(x: Expr) -> Expr:
    """The square root, correctly rounded."""
    return apply("sqrt", x)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x), both correctly rounded."""
    return apply("rsqrt", x)


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent; at most 4 ULP off."""
    return apply("tanh", x)


def erf(x: Expr) -> Expr:
    """The error function; at most 4 ULP off."""
    return apply("erf", x)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x))"""
    return 1.0 / (1.0 + exp(-x))


def relu(x: Expr) -> Expr:
    """max(x, 0)"""
    return maximum(x, 0)


def gelu(x: Expr, *, approximate: bool = False) -> Expr:
    """x times the normal distribution's integral; `approximate` takes the form with tanh."""
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + tanh(inner))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def axes_of(over: Axis | Sequence[Axis]) -> tuple[Axis, ...]:
    """What a reduction is over; raises UsageError for what is no axis, such as its name alone."""
    bound = (over,) if isinstance(over, Axis) else tuple(over)
    for axis in bound:
        if not isinstance(axis, Axis):
            name = over if isinstance(over, str) else axis
            raise UsageError(f"{name!r} is no axis", hint=f'axes("{name}") makes one')
    return bound


def reduce(
    name: str, over: Axis | Sequence[Axis], body: Expr, *, modulo: int | None = None
) -> Expr:
    """A reduction by name: sum, prod, min, max, and, or, xor.

    Sums and products of integers below 32 bits are taken in i32, those of f16 and bf16 in f32.
    An empty sum is 0, an empty product 1, an empty min or max the type's largest or smallest value.
    """
    if name not in REDUCTIONS:
        raise unknown("reduction", name, list(REDUCTIONS))
    bound = axes_of(over)
    if modulo is not None and (name != "sum" or body.type.is_float or modulo < 2):
        raise UsageError("modulo is of sums of integers and at least 2")
    names = tuple(a.name for a in bound)
    absent = [n for n in names if n not in free_axes(body)]
    if absent:
        raise UsageError(f"{name}: the body does not depend on the axis '{absent[0]}'")
    computed = type_of(body.type.computed)
    if name in ("and", "or", "xor"):
        if body.type.is_float:
            raise UsageError(f"a reduction by {name} is of integers and bool")
        computed = body.type
    elif name in ("min", "max") and not body.type.is_float:
        computed = body.type
    elif body.type is BOOL:
        computed = I32
    extents = tuple((a.name, a.extent) for a in bound if a.extent is not None)
    return Reduce(name, names, cast(body, computed), computed, extents, modulo)


def sum(over: Axis | Sequence[Axis], body: Expr, *, modulo: int | None = None) -> Expr:
    """The sum over axes; with `modulo`, in the integers modulo that number."""
    return reduce("sum", over, body, modulo=modulo)


def prod(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """The product over axes."""
    return reduce("prod", over, body)


def min(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """The least element over axes; unspecified among NaN."""
    return reduce("min", over, body)


def max(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """The greatest element over axes; unspecified among NaN."""
    return reduce("max", over, body)


def any_(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """Whether the body holds anywhere over the axes."""
    return reduce("or", over, cast(body, BOOL))


def all_(over: Axis | Sequence[Axis], body: Expr) -> Expr:
    """Whether the body holds everywhere over the axes."""
    return reduce("and", over, cast(body, BOOL))


def define(name: str, over: Sequence[Axis], body: Expr, type: str | Type | None = None) -> Tensor:
    """A tensor computed by the program: `S = define("S", [m], sum(k, A[m, k]))`."""
    names = tuple(a.name for a in over)
    free = free_axes(body)
    lost = [n for n in free if n not in names]
    if lost:
        raise UsageError(
            f"{name} leaves the axis '{lost[0]}' open",
            hint="reduce over it, or make it an axis of the tensor",
        )
    given = {a.name: a.extent for a in over if a.extent is not None}
    extents = infer_extents(body, given)
    absent = [n for n in names if n not in extents]
    if absent:
        raise UsageError(f"{name}: nothing says how long the axis '{absent[0]}' is")
    stored = type_of(type) if type is not None else body.type
    shape = tuple(extents[n] for n in names)
    definition = Definition(names, cast(body, stored), tuple(sorted(extents.items())))
    return Tensor(name, shape, stored, definition)


def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: Number = 0) -> Tensor:
    """`x` with that many more elements before and behind in each dimension."""
    if len(widths) != len(x.shape) or any(a < 0 or b < 0 for a, b in widths):
        raise UsageError(f"{x.name}: padding needs two widths from 0 up for each dimension")
    names = tuple(f"{x.name}_p{at}" for at in range(len(x.shape)))
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True))
    body = Access(x, tuple(Axis(n).index for n in names))
    definition = Definition(
        names,
        body,
        tuple(zip(names, x.shape, strict=True)),
        offsets=tuple(a for a, _ in widths),
        around=number(value, x.type),
    )
    return Tensor(f"{x.name}_padded", shape, x.type, definition)


def named_axes(expr: Expr) -> dict[str, int]:
    """Extents that axes were given by hand, in an expression."""
    found: dict[str, int] = {}
    for part in walk(expr):
        if isinstance(part, Access | Reduce):
            found.update(part.extents)
    return found
