"""Contractions recognised: sums of products of two operands.

Axes are sorted into four groups by the operands they index: batch (both, and the result), m and n
(one of them, and the result), k (summed over). Each group is flattened into one dimension, so that
a convolution, whose operand is indexed by h + r, is a contraction as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from planish.codegen.triton.nodes import Guarded
from planish.codegen.triton.source import Numbers, row_major_elements
from planish.tensor.expr import Access, Cast, Const, Expr, Op, accesses
from planish.tensor.program import Stage
from planish.tensor.small_floats import LAYOUTS
from planish.tensor.types import F32, I32, TYPES, Type

_SMALLEST = 8  # rows and columns below which a tensor core is mostly idle


@dataclass(frozen=True)
class Operand:
    """One factor: its elements as they enter the dot."""

    value: Expr
    stored: Type | None  # where it is a plain read, the type of its elements


@dataclass(frozen=True)
class Contraction:
    """A stage as a contraction; axes outermost first."""

    stage: Stage
    left: Operand
    right: Operand
    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    factor: float | None
    type: Type  # of the dot's operands
    precision: str

    @property
    def accumulator(self) -> Type:
        """Sums are taken in f32, those of whole numbers in i32."""
        return I32 if self.type.name == "i8" else F32

    def extent(self, axes: Sequence[str]) -> int:
        """Points of a group."""
        return prod(self.stage.extents[a] for a in axes)


def as_contraction(
    stage: Stage, numbers: Numbers, strides: Mapping[str, tuple[int, ...]]
) -> Contraction | None:
    """The stage as a contraction, or None where it is none (or too small for tensor cores)."""
    if stage.reduce != "sum" or stage.modulo is not None or stage.body.type not in (F32, I32):
        return None
    factors, constant = factors_of(stage.body)
    if constant is not None and not stage.body.type.is_float:
        return None
    best: tuple[int, Contraction] | None = None
    for sides in product((0, 1), repeat=len(factors)) if 2 <= len(factors) <= 5 else ():
        left = [f for f, side in zip(factors, sides, strict=True) if side == 0]
        right = [f for f, side in zip(factors, sides, strict=True) if side == 1]
        if not left or not right:
            continue
        found = _grouped(stage, left, right, constant, numbers, strides)
        if found is None:
            continue
        worth = found.extent(found.m) * found.extent(found.n) - 4 * (len(left) > 1) - len(right)
        if best is None or worth > best[0]:
            best = (worth, found)
    return best[1] if best is not None else None


def factors_of(body: Expr) -> tuple[list[Expr], float | None]:
    """What is multiplied, and the constant among it."""
    if isinstance(body, Op) and body.name == "mul":
        found: list[Expr] = []
        constant: float | None = None
        for part in body.arguments:
            inner, number = factors_of(part)
            found += inner
            if number is not None:
                constant = number if constant is None else constant * number
        return found, constant
    if isinstance(body, Const):
        return [], float(body.value)
    return [body], None


def _grouped(
    stage: Stage, left: list[Expr], right: list[Expr], constant: float | None, numbers: Numbers,
    strides: Mapping[str, tuple[int, ...]],
) -> Contraction | None:  # fmt: skip
    of_left, of_right = _axes(left), _axes(right)
    kept = set(stage.axes)
    batch = [a for a in stage.axes if a in of_left and a in of_right]
    m = [a for a in stage.axes if a in of_left and a not in of_right]
    n = [a for a in stage.axes if a in of_right and a not in of_left]
    if len(batch) + len(m) + len(n) != len(kept) or not m or not n:
        return None
    if not all(b in of_left and b in of_right for b in stage.bound):
        return None
    by_stride = _output_steps(stage, strides)
    if min(by_stride[a] for a in m) < min(by_stride[a] for a in n):
        left, right, m, n = right, left, n, m
    extents = stage.extents
    if min(prod(extents[a] for a in m), prod(extents[a] for a in n)) < _SMALLEST:
        return None
    first, second = _operand(left), _operand(right)
    type = _dot_type(first, second, stage.body.type, numbers)
    if type is None:
        return None
    steps = _steps(stage, strides)
    return Contraction(
        stage, first, second, tuple(batch),
        tuple(sorted(m, key=lambda a: (-by_stride[a], a))),
        tuple(sorted(n, key=lambda a: (-by_stride[a], a))),
        tuple(sorted(stage.bound, key=lambda a: (-steps[a], a))),
        constant, type, "ieee" if numbers.precision == "narrow" else numbers.precision,
    )  # fmt: skip


def _axes(factors: list[Expr]) -> set[str]:
    return {axis for f in factors for a in accesses(f) for i in a.indices for axis in i.axes} | {
        axis for f in factors for i in _guard_indices(f) for axis in i
    }


def _guard_indices(expr: Expr) -> list[tuple[str, ...]]:
    if isinstance(expr, Guarded):
        return [i.axes for i, _ in expr.inside]
    return []


def _output_steps(stage: Stage, strides: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    tensor = stage.out.tensor
    given = strides.get(tensor.name) or row_major_elements(tensor.shape)
    return {
        axis: sum(i.coefficient(axis) * s for i, s in zip(stage.out.indices, given, strict=True))
        for axis in stage.axes
    }


def _steps(stage: Stage, strides: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """For each axis the smallest step that any operand takes along it."""
    found: dict[str, int] = {}
    for access in accesses(stage.body):
        given = strides.get(access.tensor.name) or row_major_elements(access.tensor.shape)
        for axis in stage.all_axes:
            step = sum(i.coefficient(axis) * s for i, s in zip(access.indices, given, strict=True))
            if step:
                found[axis] = min(found.get(axis, step), step)
    return {axis: found.get(axis, 0) for axis in stage.all_axes}


def _operand(factors: list[Expr]) -> Operand:
    value = factors[0]
    for other in factors[1:]:
        value = Op("mul", (value, other), value.type)
    inner = value
    while isinstance(inner, Cast) and _keeps(inner):
        inner = inner.argument
    plain = isinstance(inner, Access) or (
        isinstance(inner, Guarded) and isinstance(inner.value, Access)
    )
    if isinstance(inner, Cast) and inner.type.name in ("f16", "bf16"):
        return Operand(inner, inner.type)  # rounded to 16 bits by the program itself
    return Operand(inner, inner.type) if plain else Operand(value, None)


def _keeps(cast: Cast) -> bool:
    """Whether the conversion loses nothing."""
    source, target = cast.argument.type, cast.type
    if target.name == "f32":
        return source.is_narrow_float or source.name in ("i8", "u8", "i16", "bool", "f32")
    return target.name == "i32" and source.name == "i8"


def _dot_type(a: Operand, b: Operand, body: Type, numbers: Numbers) -> Type | None:
    names = {o.stored.name if o.stored else "" for o in (a, b)}
    if names <= set(LAYOUTS) and body.is_float:
        return TYPES[min(names)] if numbers.f8 and len(names) == 1 else TYPES["f16"]
    # Every f8 is a number of both 16-bit types.
    names = {"i8" if n in LAYOUTS and body.is_float else n for n in names}
    if not body.is_float:
        return TYPES["i8"] if names == {"i8"} else None
    if names <= {"f16", "i8"} and "f16" in names:
        return TYPES["f16"]
    if names <= {"bf16", "i8"} and "bf16" in names:
        return TYPES["bf16"]
    half = names & {"f16", "bf16"}
    if numbers.precision == "narrow" and len(half) == 1 and names - half == {""}:
        return TYPES[half.pop()]
    return F32


def stripped(expr: Expr) -> Expr:
    """Without conversions that keep every value."""
    while isinstance(expr, Cast) and expr.type.name == "f32" and expr.argument.type.is_float:
        expr = expr.argument
    return expr
