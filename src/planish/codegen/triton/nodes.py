"""Values that only kernels have: guarded reads, held values, positions; and walks over all values.

A tensor program knows none of these; `plan` and the writers of kernels put them in.
"""

from __future__ import annotations

from dataclasses import dataclass

from planish.tensor.expr import Access, Cast, Const, Expr, Index, Op
from planish.tensor.types import Type


@dataclass(frozen=True)
class Guarded(Expr):
    """`value` where all indices lie inside [0, length), else `around`: a padded tensor's read."""

    value: Expr
    inside: tuple[tuple[Index, int], ...]
    around: Const

    @property
    def type(self) -> Type:  # type: ignore[override]
        """The value's."""
        return self.value.type


@dataclass(frozen=True)
class Held(Expr):
    """A value that an earlier statement of the same kernel has left in a variable."""

    name: str
    type: Type


@dataclass(frozen=True)
class Position(Expr):
    """Where a program's lane stands: an affine index as a value."""

    index: Index
    type: Type

    def __str__(self) -> str:
        return str(self.index)


def accesses_of(expr: Expr) -> list[Access]:
    """Accesses of an expression, those inside of guards included, each once."""
    if isinstance(expr, Access):
        return [expr]
    return list(dict.fromkeys(a for part in parts_of(expr) for a in accesses_of(part)))


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """The operands of a node."""
    if isinstance(expr, Op):
        return expr.arguments
    if isinstance(expr, Cast):
        return (expr.argument,)
    if isinstance(expr, Guarded):
        return (expr.value,)
    return ()
