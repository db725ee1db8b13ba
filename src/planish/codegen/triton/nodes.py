"""Values that only kernels have: guarded reads, held values, positions.

A tensor program knows none of these; `plan` and the writers of kernels put them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.tensor.expr import Const, Expr, Index
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

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.value,)

    def having(self, parts: Sequence[Expr]) -> Guarded:
        return Guarded(parts[0], self.inside, self.around)

    def at(self, indices: Mapping[str, Index]) -> Guarded:
        inside = tuple((i.at(indices), n) for i, n in self.inside)
        return Guarded(self.value, inside, self.around)


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

    def at(self, indices: Mapping[str, Index]) -> Position:
        return Position(self.index.at(indices), self.type)

    def __str__(self) -> str:
        return str(self.index)
