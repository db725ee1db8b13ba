"""Index notation: axes, affine indices, tensors and the expressions over their elements.

An expression is a value at one point of its free axes. `A[m, k] * B[k, n]` has the free axes
m, k and n; `sum(k, ..)` binds k. Nothing is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from typing import cast as as_type

from planish.base.errors import UsageError
from planish.tensor.types import BOOL, F32, I32, Type, promote, type_of

if TYPE_CHECKING:
    from planish.tensor.program import Definition

# Elementwise operations by name, with their number of arguments.
ARITY = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "mod": 2, "min": 2, "max": 2, "neg": 1, "abs": 1,
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2, "where": 3,
    "and": 2, "or": 2, "xor": 2, "not": 1,
    "exp": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1, "erf": 1, "floor": 1,
}  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
FLOAT_ONLY = ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "floor")

# A reduction's operation, by name, with what it starts from.
REDUCTIONS = ("sum", "prod", "min", "max", "and", "or", "xor")

Number = int | float | bool


@dataclass(frozen=True)
class Index:
    """An affine index: a constant plus axes times whole numbers, sorted by axis."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def coefficient(self, axis: str) -> int:
        """What one step along the axis adds."""
        for name, coefficient in self.terms:
            if name == axis:
                return coefficient
        return 0

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes it depends on."""
        return tuple(name for name, _ in self.terms)

    def is_axis(self, name: str) -> bool:
        """Whether it is that axis and nothing else."""
        return self == Index(((name, 1),))

    def at(self, indices: Mapping[str, Index]) -> Index:
        """The index with others in the places of axes, all at once."""
        found = Index((), self.constant)
        for axis, c in self.terms:
            found = found + indices.get(axis, Index(((axis, 1),))) * c
        return found

    def __add__(self, other: Index | Axis | int) -> Index:
        other = as_index(other)
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + coefficient
        kept = tuple(sorted((n, c) for n, c in terms.items() if c))
        return Index(kept, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> Index:
        kept = tuple((name, c * factor) for name, c in self.terms if factor)
        return Index(kept, self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | Axis | int) -> Index:
        return self + as_index(other) * -1

    def __rsub__(self, other: Index | Axis | int) -> Index:
        return as_index(other) - self

    def __str__(self) -> str:
        parts = [name if c == 1 else f"{c}*{name}" for name, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


@dataclass(frozen=True)
class Axis:
    """A named axis; its extent is inferred from the tensors it indexes, unless it is given."""

    name: str
    extent: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", self.name):
            raise UsageError(f"'{self.name}' cannot name an axis", hint="letters, digits, _")

    @property
    def index(self) -> Index:
        """The axis as an index."""
        return Index(((self.name, 1),))

    def __add__(self, other: Index | Axis | int) -> Index:
        return self.index + other

    __radd__ = __add__

    def __sub__(self, other: Index | Axis | int) -> Index:
        return self.index - other

    def __rsub__(self, other: Index | Axis | int) -> Index:
        return as_index(other) - self.index

    def __mul__(self, factor: int) -> Index:
        return self.index * factor

    __rmul__ = __mul__


def as_index(value: Index | Axis | int) -> Index:
    """Anything that may stand between the brackets of an access."""
    if isinstance(value, Index):
        return value
    if isinstance(value, Axis):
        return value.index
    if isinstance(value, int) and not isinstance(value, bool):
        return Index((), value)
    raise UsageError(
        f"'{value}' is no index",
        hint="an index is affine: axes, whole numbers, + and -, and * by a whole number",
    )


def axes(names: str) -> tuple[Axis, ...]:
    """`axes("m n k")`; an extent may be given: `axes("h=32 w=32")`."""
    found = []
    for word in names.replace(",", " ").split():
        name, _, extent = word.partition("=")
        if extent and not extent.isdigit():
            raise UsageError(f"'{word}' gives no whole extent", hint="write h=32")
        found.append(Axis(name, int(extent) if extent else None))
    return tuple(found)


class Expr:
    """A value at one point; operators build larger ones.

    A code generator may bring nodes of its own: they say what their `parts` are, which node has
    others in their place, and which one has affine indices `at` the places of axes.
    """

    type: Type

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The operands."""
        return ()

    def having(self, parts: Sequence[Expr]) -> Expr:
        """The node with other operands of the same types."""
        return self

    def at(self, indices: Mapping[str, Index]) -> Expr:
        """The node, its operands left alone, with indices exchanged for axes."""
        return self

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return apply("mod", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return apply("ge", self, other)

    def __and__(self, other: Operand) -> Expr:
        return apply("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return apply("or", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return apply("xor", self, other)

    def __invert__(self) -> Expr:
        return apply("not", self)


ExprT = TypeVar("ExprT", bound=Expr)
Operand = Expr | int | float | bool


@dataclass(frozen=True)
class Const(Expr):
    """A number of a type."""

    value: Number
    type: Type

    def __str__(self) -> str:
        return f"{self.value}"


@dataclass(frozen=True)
class Tensor:
    """A named array of known shape; `definition` is set where a program computes it."""

    name: str
    shape: tuple[int, ...]
    type: Type
    definition: Definition | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique in a program, and hashing is frequent

    def __getitem__(self, indices: Index | Axis | int | tuple[Index | Axis | int, ...]) -> Access:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise UsageError(
                f"{self.name} has {len(self.shape)} dimensions and was given {len(given)} indices",
                hint=f"its shape is {list(self.shape)}",
            )
        found = tuple(as_index(i) for i in given)
        extents = {a.name: a.extent for a in given if isinstance(a, Axis) and a.extent is not None}
        return Access(self, found, tuple(sorted(extents.items())))

    def __iter__(self) -> Iterator[Access]:
        raise UsageError(f"{self.name} is a tensor and cannot be iterated", hint="index it")


@dataclass(frozen=True)
class Access(Expr):
    """One element of a tensor; `extents` are those its axes were given by hand."""

    tensor: Tensor
    indices: tuple[Index, ...]
    extents: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    @property
    def type(self) -> Type:  # type: ignore[override]
        """The tensor's."""
        return self.tensor.type

    def at(self, indices: Mapping[str, Index]) -> Access:
        return Access(self.tensor, tuple(i.at(indices) for i in self.indices))

    def __str__(self) -> str:
        return f"{self.tensor.name}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Op(Expr):
    """An elementwise operation."""

    name: str
    arguments: tuple[Expr, ...]
    type: Type

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.arguments

    def having(self, parts: Sequence[Expr]) -> Op:
        return Op(self.name, tuple(parts), self.type)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Cast(Expr):
    """A conversion: floats to integers towards zero, integers by wrapping, to bool by `!= 0`."""

    argument: Expr
    type: Type

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.argument,)

    def having(self, parts: Sequence[Expr]) -> Cast:
        return Cast(parts[0], self.type)

    def __str__(self) -> str:
        return f"{self.type}({self.argument})"


@dataclass(frozen=True)
class Reduce(Expr):
    """A reduction of the body over bound axes; `modulo` reduces every partial sum by it."""

    name: str
    bound: tuple[str, ...]
    body: Expr
    type: Type
    extents: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    modulo: int | None = None

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.body,)

    def having(self, parts: Sequence[Expr]) -> Reduce:
        return Reduce(self.name, self.bound, parts[0], self.type, self.extents, self.modulo)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.bound)}: {self.body})"


def apply(name: str, *operands: Operand) -> Expr:
    """An operation over operands of a common type; plain numbers take the others' type."""
    if len(operands) != ARITY[name]:
        raise UsageError(f"{name} takes {ARITY[name]} arguments, not {len(operands)}")
    first = 1 if name == "where" else 0
    typed = [o for o in operands[first:] if isinstance(o, Expr)]
    common = typed[0].type if typed else (F32 if any(_floats(operands)) else I32)
    for operand in typed[1:]:
        common = promote(common, operand.type)
    if any(_floats(operands[first:])) and not common.is_float:
        raise UsageError(f"{name}: a {common} value meets a float", hint='cast it: cast(x, "f32")')
    if name in FLOAT_ONLY and not common.is_float:
        raise UsageError(f"{name} is of floats, not of {common}", hint='cast it: cast(x, "f32")')
    if name in ("and", "or", "xor", "not") and common.is_float:
        raise UsageError(f"{name} is of integers and bool, not of {common}")
    if common in (BOOL,) and name in ("add", "sub", "mul", "div", "mod", "neg"):
        raise UsageError(f"{name} is not of bool", hint="use &, | and ^, or cast to an integer")
    if common.is_narrow_float:
        common = F32
    arguments = [_as(o, common) for o in operands[first:]]
    if name == "where":
        arguments.insert(0, _as(operands[0], BOOL))
    return Op(name, tuple(arguments), BOOL if name in COMPARISONS else common)


def _floats(operands: Sequence[Operand]) -> list[bool]:
    return [isinstance(o, float) for o in operands]


def _as(operand: Operand, wanted: Type) -> Expr:
    if not isinstance(operand, Expr):
        return number(operand, wanted)
    return operand if operand.type == wanted else Cast(operand, wanted)


def number(value: Number, wanted: Type) -> Const:
    """A constant of a type; refuses what the type cannot hold."""
    if wanted.is_float:
        return Const(float(value), wanted)
    if wanted is BOOL:
        return Const(int(bool(value)), BOOL)
    lowest = -(1 << (wanted.bits - 1)) if wanted.signed else 0
    if not lowest <= value < lowest + (1 << wanted.bits):
        raise UsageError(f"{value} does not fit into {wanted}")
    return Const(int(value), wanted)


def cast(x: Expr, to: str | Type) -> Expr:
    """`x` as a value of another type."""
    wanted = type_of(to)
    return x if x.type == wanted else Cast(x, wanted)


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all below it, operands before operations."""
    for part in expr.parts:
        yield from walk(part)
    yield expr


def accesses(expr: Expr) -> list[Access]:
    """The accesses below a node, each once, in order of appearance."""
    return list(dict.fromkeys(e for e in walk(expr) if isinstance(e, Access)))


def free_axes(expr: Expr) -> tuple[str, ...]:
    """Axes that are not bound by a reduction inside, in order of appearance."""
    if isinstance(expr, Access):
        return tuple(dict.fromkeys(a for i in expr.indices for a in i.axes))
    found = dict.fromkeys(a for part in expr.parts for a in free_axes(part))
    if isinstance(expr, Reduce):
        return tuple(a for a in found if a not in expr.bound)
    return tuple(found)


def rename(expr: ExprT, names: Mapping[str, str]) -> ExprT:
    """The expression with free axes renamed."""
    if isinstance(expr, Access):
        moved = tuple(
            Index(tuple(sorted((names.get(n, n), c) for n, c in i.terms)), i.constant)
            for i in expr.indices
        )
        return as_type(ExprT, Access(expr.tensor, moved))
    if isinstance(expr, Reduce):
        names = {k: v for k, v in names.items() if k not in expr.bound}
    return as_type(ExprT, expr.having([rename(part, names) for part in expr.parts]))


def with_indices(expr: ExprT, indices: Mapping[str, Index]) -> ExprT:
    """The expression with affine indices in the places of axes, all at once; binds none."""
    moved = expr.at(indices)
    return as_type(ExprT, moved.having([with_indices(part, indices) for part in moved.parts]))


def map_accesses(expr: Expr, change: Mapping[Access, Expr]) -> Expr:
    """The expression with accesses exchanged for values of their types."""
    if isinstance(expr, Access):
        return change.get(expr, expr)
    return expr.having([map_accesses(part, change) for part in expr.parts])


def plain_axes(access: Access) -> tuple[str, ...] | None:
    """The axes of an access whose indices are single, different axes; else None."""
    names = [i.axes[0] for i in access.indices if len(i.terms) == 1 and i.is_axis(i.axes[0])]
    if len(names) != len(access.indices) or len(set(names)) != len(names):
        return None
    return tuple(names)
