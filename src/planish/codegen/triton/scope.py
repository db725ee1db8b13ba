"""Expressions to Triton text, over the dimensions of a tile.

A dimension stands for one or several axes, flattened; every value has the rank of the tile, with
length 1 along dimensions that it does not depend on. Loads are named and made once in a scope.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from planish.base.errors import UsageError
from planish.codegen.triton.source import (
    Code,
    argument,
    computed_type,
    number_text,
    row_major_elements,
    triton_type,
)
from planish.tensor.expr import Access, Cast, Const, Expr, Index, Op, Tensor
from planish.tensor.program import Accumulator
from planish.tensor.types import BOOL, Type, identity


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
class Dim:
    """A dimension: axes with their extents, outermost first.

    block   name of the constant with the tile's length; "" where one program has one point
    length  its value
    always  tiles may reach beyond the end although the length divides the extent
    """

    name: str
    axes: tuple[tuple[str, int], ...]
    block: str = ""
    length: int = 1
    always: bool = False

    @property
    def extent(self) -> int:
        """Points of all axes together."""
        return prod(n for _, n in self.axes)

    @property
    def masked(self) -> bool:
        """Whether the last tile reaches beyond the end."""
        return bool(self.block) and (self.always or self.extent % self.length != 0)


class Scope:
    """Writes values into `code`; `tile` are the dimensions of its values, in order."""

    def __init__(
        self,
        code: Code,
        tile: Sequence[Dim],
        programs: Sequence[Dim],
        strides: Mapping[str, tuple[int, ...]],
        reads: Sequence[Access],
    ) -> None:
        self.code = code
        self.tile = tuple(tile)
        self._strides = strides
        self._reads = list(reads)
        self._dims = {axis: d for d in (*tile, *programs) for axis, _ in d.axes}
        self._index: dict[str, str] = {}  # `@` dimension, or axis, to its variable
        self._memo: dict[object, str] = {}
        self._wide = any(
            prod(a.tensor.shape) >= 1 << 31 or self._reach(a.tensor) >= 1 << 31 for a in reads
        )

    def _reach(self, tensor: Tensor) -> int:
        return sum(s * (n - 1) for s, n in zip(self.strides(tensor), tensor.shape, strict=True))

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        """Strides in elements."""
        return self._strides.get(tensor.name) or row_major_elements(tensor.shape)

    # -- indices ---------------------------------------------------------------------------------

    def define(self, dim: Dim, start: str) -> str:
        """Write the index of a dimension, and of its axes where an access needs them apart."""
        name = self.code.fresh(dim.axes[0][0] if len(dim.axes) == 1 else dim.name * 2)
        text = f"{start} + tl.arange(0, {dim.block})" if dim.block else start
        if start == "0" and dim.block:
            text = f"tl.arange(0, {dim.block})"
        if self._wide:
            text = f"({text}).to(tl.int64)"
        self.code.line(f"{name} = {text}")
        self.bind(dim, name)
        return name

    def share(self, dim: Dim, other: Scope) -> None:
        """Use the variables that another scope has for a dimension."""
        for key in ("@" + dim.name, *(axis for axis, _ in dim.axes)):
            if key in other._index:
                self._index[key] = other._index[key]

    def index_of(self, dim: Dim) -> str:
        """The variable with a dimension's index."""
        return self._index["@" + dim.name]

    def bind(self, dim: Dim, name: str) -> None:
        """Say which variable holds the dimension's index."""
        self._index["@" + dim.name] = name
        if len(dim.axes) == 1:
            self._index[dim.axes[0][0]] = name
            return
        if all(self._flat(a, dim) is not None for a in self._reads):
            return
        inner = dim.extent
        for at, (axis, extent) in enumerate(dim.axes):
            inner //= extent
            text = name if inner == 1 else f"{name} // {inner}"
            if at and extent:
                text += f" % {extent}"
            own = self.code.fresh(axis)
            self.code.line(f"{own} = {text}")
            self._index[axis] = own

    def _coefficients(self, access: Access, dim: Dim) -> list[int]:
        """Elements from one step of each axis of the dimension."""
        strides = self.strides(access.tensor)
        return [
            sum(i.coefficient(axis) * s for i, s in zip(access.indices, strides, strict=True))
            if n > 1
            else 0  # there is but one place to be
            for axis, n in dim.axes
        ]

    def _flat(self, access: Access, dim: Dim) -> int | None:
        """The step of the flattened index, where one is enough; else None."""
        long = [
            (step, n)
            for step, (_, n) in zip(self._coefficients(access, dim), dim.axes, strict=True)
            if n > 1
        ]
        if any(a != b * n for (a, _), (b, n) in pairwise(long)):
            return None
        return long[-1][0] if long else 0

    def place(self, dim: Dim, text: str) -> str:
        """A vector along a tile's dimension, with the tile's rank."""
        if len(self.tile) == 1 or dim not in self.tile:
            return text
        at = self.tile.index(dim)
        where = ", ".join(":" if i == at else "None" for i in range(len(self.tile)))
        return f"{text}[{where}]"

    def index_text(self, index: Index) -> str:
        """An affine index as a value of the tile's rank."""
        parts = []
        for axis, c in index.terms:
            text = self.place(self._dims[axis], self._axis(axis))
            parts.append(text if c == 1 else f"{text} * {c}")
        if index.constant or not parts:
            parts.append(str(index.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def _axis(self, axis: str) -> str:
        """The variable of an axis; taken apart from its dimension where that was not needed yet."""
        if axis not in self._index:
            dim = self._dims[axis]
            inner = prod(n for _, n in dim.axes[[a for a, _ in dim.axes].index(axis) + 1 :])
            extent = dict(dim.axes)[axis]
            return f"({self.index_of(dim)} // {inner} % {extent})"
        return self._index[axis]

    def pointer(self, access: Access) -> str:
        """Base plus offset in elements."""
        strides = self.strides(access.tensor)
        fixed = sum(i.constant * s for i, s in zip(access.indices, strides, strict=True))
        parts = [argument(access.tensor.name)]
        if fixed:
            parts.append(str(fixed))
        programs = [d for d in dict.fromkeys(self._dims.values()) if d not in self.tile]
        for dim in (*programs, *self.tile):
            flat = self._flat(access, dim)
            if flat is not None:
                steps = [(self._index.get("@" + dim.name, ""), flat)]
            else:
                names = [axis for axis, _ in dim.axes]
                steps = [
                    (self._axis(axis), c)
                    for axis, c in zip(names, self._coefficients(access, dim), strict=True)
                ]
            for name, step in steps:
                if step == 0:
                    continue
                text = self.place(dim, name)
                parts.append(text if step == 1 else f"{text} * {step}")
        return " + ".join(parts).replace("+ -", "- ")

    def store(self, access: Access, value: str) -> None:
        """Write a value of the tile's rank (or a narrower one) to memory."""
        mask = self.mask(self.dims_of(access))
        words = f", mask={mask}" if mask else ""
        pointer = self.pointer(access)
        if not self.dims_of(access):
            pointer += f" + tl.zeros(({'1, ' * len(self.tile)}), tl.int32)"
        self.code.line(f"tl.store({pointer}, {value}{words})")

    def mask(self, dims: Sequence[Dim]) -> str:
        """Lanes inside of these dimensions; "" where no tile reaches beyond."""
        parts = []
        for dim in dims:
            if dim.masked and dim in self.tile:
                vector = f"{self.index_of(dim)} < {dim.extent}"
                parts.append(self.place(dim, f"({vector})") if len(self.tile) > 1 else vector)
        return " & ".join(f"({p})" if len(parts) > 1 and " < " in p and p[0] != "(" else p
                          for p in parts)  # fmt: skip

    def dims_of(self, access: Access) -> list[Dim]:
        """The tile's dimensions that an access depends on."""
        return [d for d in self.tile if any(self._coefficients(access, d))]

    # -- values ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def inner(self) -> Iterator[None]:
        """What is named inside (a loop) is unknown outside."""
        memo = dict(self._memo)
        yield
        self._memo = memo

    def hold(self, key: Expr, text: str) -> None:
        """A value that is in a variable already."""
        self._memo[key] = text

    def raw(self, access: Access, guard: str = "", other: str = "0") -> str:
        """The variable with the loaded elements, in their stored type."""
        key = ("raw", access, guard)
        if key not in self._memo:
            mask = self.mask(self.dims_of(access))
            mask = " & ".join(p if not guard else f"({p})" for p in (mask, guard) if p)
            words = f", mask={mask}, other={other}" if mask else ""
            name = self.code.fresh(access.tensor.name.lower() + "_tile")
            text = f"tl.load({self.pointer(access)}{words})"
            if access.type is BOOL:
                text += " != 0"
            self.code.line(f"{name} = {text}")
            self._memo[key] = name
        return self._memo[key]

    def load_all(self, expr: Expr, without: Dim) -> None:
        """Load now what does not depend on a dimension that will be looped over."""
        for access in accesses_of(expr):
            if not any(self._coefficients(access, without)):
                self.raw(access)

    def value(self, expr: Expr) -> str:
        """Text of a value in its computed type."""
        if expr in self._memo:
            return self._memo[expr]
        if isinstance(expr, Access):
            return self._widened(self.raw(expr), expr.type)
        if isinstance(expr, Guarded):
            return self._guarded(expr)
        if isinstance(expr, Const):
            return number_text(expr.value)
        if isinstance(expr, Cast):
            return self._cast(expr)
        if isinstance(expr, Op):
            name = self.code.fresh(_HINTS.get(expr.name, "t"))
            text = self._operation(expr)
            self.code.line(f"{name} = {text}")
            self._memo[expr] = name
            return name
        assert not isinstance(expr, Accumulator), "the reduction's result is held"
        raise UsageError(f"no Triton form of {expr}")

    @staticmethod
    def _widened(name: str, type: Type) -> str:
        return f"{name}.to(tl.float32)" if type.name in ("f16", "bf16") else name

    def _guarded(self, expr: Guarded) -> str:
        if isinstance(expr.value, Access):
            return self._widened(self.raw_guarded(expr), expr.type)
        guard, around = self._guard(expr), number_text(expr.around.value)
        return f"tl.where({guard}, {self.value(expr.value)}, {around})"

    def raw_guarded(self, expr: Guarded) -> str:
        """The loaded elements of a padded read."""
        assert isinstance(expr.value, Access)
        return self.raw(expr.value, self._guard(expr), number_text(expr.around.value))

    def _guard(self, expr: Guarded) -> str:
        checks = []
        for index, length in expr.inside:
            low, high = self._range(index)
            text = self.index_text(index)
            checks += [f"({text} >= 0)"] * (low < 0) + [f"({text} < {length})"] * (high >= length)
        return " & ".join(checks)

    def _range(self, index: Index) -> tuple[int, int]:
        """The least and the greatest value of an index."""
        ends = [(c * (n - 1)) for axis, c in index.terms
                for n in [dict(self._dims[axis].axes)[axis]]]  # fmt: skip
        low, high = (sum(f(0, e) for e in ends) for f in (min, max))
        return index.constant + low, index.constant + high

    def _typed(self, expr: Expr) -> str:
        """A value whose type Triton knows, be it a number."""
        text = self.value(expr)
        if isinstance(expr, Const):
            return f"tl.full((), {text}, {computed_type(expr.type)})"
        return text

    def _cast(self, expr: Cast) -> str:
        text, source, target = self._typed(expr.argument), expr.argument.type, expr.type
        if source == target:
            return text
        if target is BOOL:
            return f"({text} != 0)"
        if target.name in ("f16", "bf16"):
            # Rounded to f32 first, as the reference has it.
            text = text if source.name == "f32" else f"{text}.to(tl.float32)"
            return f"{text}.to({triton_type(target)}).to(tl.float32)"
        if source.name in ("f16", "bf16") and target.name == "f32":
            return text
        if source.is_float and not target.is_float and target.size < 4:
            return f"{text}.to(tl.int32).to({triton_type(target)})"
        return f"{text}.to({triton_type(target)})"

    def _operation(self, expr: Op) -> str:
        name = expr.name
        typed = name in ("where", "min", "max")
        x = [self._typed(a) if typed else self.value(a) for a in expr.arguments]
        if all(isinstance(a, Const) for a in expr.arguments):
            x = [self._typed(a) for a in expr.arguments]
        if name in _INFIX:
            return f"{x[0]} {_INFIX[name]} {x[1]}"
        if name in ("div", "mod"):
            sign = {"div": "/", "mod": "%"}[name]
            if expr.type.is_float:
                return f"{x[0]} {sign} {x[1]}"
            sign = {"div": "//", "mod": "%"}[name]
            if isinstance(expr.arguments[1], Const) and expr.arguments[1].value:
                return f"{x[0]} {sign} {x[1]}"
            by = self._typed(expr.arguments[1])
            return f"tl.where({by} == 0, 0, {self._typed(expr.arguments[0])} {sign} " + (
                f"tl.where({by} == 0, 1, {by})).to({computed_type(expr.type)})"
            )
        if name in ("min", "max"):
            return f"tl.where({x[0]} {'<' if name == 'min' else '>'} {x[1]}, {x[0]}, {x[1]})"
        if name == "where":
            return f"tl.where({', '.join(x)})"
        if name == "neg":
            return f"-{x[0]}"
        if name == "not":
            return f"{x[0]} == 0" if expr.type is BOOL else f"~{x[0]}"
        if name == "tanh":
            return f"{self.code.helper('_tanh')}({x[0]})"
        return f"tl.{name}({', '.join(x)})"

    # -- reductions ------------------------------------------------------------------------------

    def reduced(self, name: str, text: str, type: Type, axis: int) -> str:
        """A tile reduced along one of its dimensions, which is kept with length 1."""
        tail = f"{axis}, keep_dims=True)"
        if type is BOOL:
            word = {"and": "min", "min": "min", "xor": "xor_sum"}.get(name, "max")
            return f"(tl.{word}({text}.to(tl.int32), {tail} != 0)"
        if name in ("sum", "max", "min"):
            found = f"tl.{name}({text}, {tail}"
            return found if type.size >= 4 else f"{found}.to({triton_type(type)})"
        if name == "xor":
            found = f"tl.xor_sum({text}, {tail}"
            return found if type.size >= 4 else f"{found}.to({triton_type(type)})"
        helper = {"prod": "_product", "and": "_all_bits", "or": "_any_bits"}[name]
        return f"tl.reduce({text}, {axis}, {self.code.helper(helper)}, keep_dims=True)"


def combined(name: str, a: str, b: str, type: Type) -> str:
    """Two partial results of a reduction joined."""
    if type is BOOL:
        name = {"min": "and", "max": "or"}.get(name, name)
    sign = {"sum": "+", "prod": "*", "and": "&", "or": "|", "xor": "^"}.get(name)
    return f"{a} {sign} {b}" if sign else f"tl.{name}imum({a}, {b})"


def neutral(name: str, type: Type) -> str:
    """What a masked lane holds, so that it changes nothing."""
    text = number_text(identity(name, type))
    # A plain number would widen narrow whole numbers.
    return text if type.size >= 4 else f"tl.full((), {text}, {computed_type(type)})"


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


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_HINTS = {"exp": "e", "mul": "product", "add": "total", "sub": "difference", "div": "quotient"}
