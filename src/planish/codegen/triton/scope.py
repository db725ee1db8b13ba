"""Expressions to Triton text, over the dimensions of a tile.

Loads are named and made once in a scope, and so is every operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from planish.base.errors import UsageError
from planish.codegen.triton.nodes import Guarded, Position
from planish.codegen.triton.places import Dim, Places
from planish.codegen.triton.source import Code, computed_type, number_text, triton_type
from planish.tensor.expr import Access, Cast, Const, Expr, Index, Op, accesses
from planish.tensor.program import Accumulator
from planish.tensor.small_floats import LAYOUTS, encode
from planish.tensor.types import BOOL, Type, identity


class Scope(Places):
    """Writes values into `code`; `tile` are the dimensions of its values, in order."""

    def __init__(
        self,
        code: Code,
        tile: Sequence[Dim],
        programs: Sequence[Dim],
        strides: Mapping[str, tuple[int, ...]],
        reads: Sequence[Access],
    ) -> None:
        super().__init__(code, tile, programs, strides, reads)
        self._memo: dict[object, str] = {}

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
        for access in accesses(expr):
            if not any(self.coefficients(access, without)):
                self.raw(access)

    def value(self, expr: Expr) -> str:
        """Text of a value in its computed type."""
        if expr in self._memo:
            return self._memo[expr]
        if isinstance(expr, Access):
            return self._widened(self.raw(expr), expr.type)
        if isinstance(expr, Guarded):
            return self._guarded(expr)
        if isinstance(expr, Position):
            text = f"({self.index_text(expr.index)})"
            return f"{text}.to(tl.int32)" if self.wide else text
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

    def _widened(self, name: str, type: Type) -> str:
        if type.name in LAYOUTS:
            return f"{self.code.helper(f'_{type.name}_to_f16')}({name}).to(tl.float32)"
        return f"{name}.to(tl.float32)" if type.is_narrow_float else name

    def _guarded(self, expr: Guarded) -> str:
        if isinstance(expr.value, Access):
            return self._widened(self.raw_guarded(expr), expr.type)
        guard, around = self._guard(expr), number_text(expr.around.value)
        return f"tl.where({guard}, {self.value(expr.value)}, {around})"

    def raw_guarded(self, expr: Guarded) -> str:
        """The loaded elements of a padded read."""
        assert isinstance(expr.value, Access)
        around, type = expr.around.value, expr.type
        if type.name in LAYOUTS:
            around = int(encode(np.asarray(around), type.name))
        return self.raw(expr.value, self._guard(expr), number_text(around))

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
                for n in [dict(self.dims[axis].axes)[axis]]]  # fmt: skip
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
        if target.is_narrow_float:
            # Rounded to f32 first, as the reference has it.
            text = text if source.name == "f32" else f"{text}.to(tl.float32)"
            return self.rounded(text, target)
        if source.is_narrow_float and target.name == "f32":
            return text
        if source.is_float and not target.is_float and target.size < 4:
            return f"{text}.to(tl.int32).to({triton_type(target)})"
        return f"{text}.to({triton_type(target)})"

    def rounded(self, text: str, type: Type) -> str:
        """An f32 value rounded to a narrower type, and f32 again."""
        if type.name not in LAYOUTS:
            return f"{text}.to({triton_type(type)}).to(tl.float32)"
        return self._widened(f"{self.code.helper(f'_to_{type.name}')}({text})", type)

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


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_HINTS = {"exp": "e", "mul": "product", "add": "total", "sub": "difference", "div": "quotient"}
