"""Values inside a kernel: expressions at its points, computed once each, and memory accesses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.arithmetic import Arithmetic
from planish.codegen.shape import AHEAD, Chunk, Offsets, Shape, Spot, lanes_for
from planish.codegen.view import Operand, StageView
from planish.tensor.expr import COMPARISONS, Access, Cast, Const, Expr, Op
from planish.tensor.program import Accumulator


class _Info(NamedTuple):
    """What the builder knows of an expression.

    axes    those it depends on; "*" is the reduction's result
    same    by point: points where this number is equal have one value
    varies  whether slots differ
    number  equal for equal expressions
    """

    axes: frozenset[str]
    same: list[int]
    varies: bool
    number: int


class Values:
    """The part of a kernel's builder that knows expressions and memory."""

    def __init__(self, view: StageView, shape: Shape) -> None:
        self.view = view
        self.shape = shape
        self.stage = stage = view.stage
        vectors = [loop.axis for loop in shape.loops if loop.kind == "vector"]
        self.axis = vectors[0] if vectors else ""
        self.lanes = 1
        if self.axis:
            self.lanes = lanes_for(stage.computed_types, shape.lengths[self.axis], shape.vector)
        self.inner = {loop.axis for loop in shape.loops if loop.axis in stage.bound}
        # Output axes written out, in the order of their loops.
        order = dict.fromkeys(loop.axis for loop in shape.loops)
        self.kept = [a for a in order if a in stage.axes and a != self.axis]
        self.points = 1
        for axis in self.kept:
            self.points *= shape.lengths[axis]
        self.math = Arithmetic([], self.lanes)
        self.before_loops: list[vir.Ins] = []
        self.in_loops = False
        # Bytes that unrolled reduction loops have moved each operand by, where values are wanted.
        self.bases: dict[int, int] = {}
        self.offsets: Offsets = ()
        self.memo: dict[object, int] = {}
        self.fixed: dict[object, int] = {}
        self._infos: dict[int, _Info] = {}
        self._numbers: dict[Hashable, int] = {}
        self._rows: dict[int, list[int]] = {}
        self._classes: dict[frozenset[str], list[int]] = {}

    def _root(self, expr: Expr, spot: Spot, total: int = -1) -> int:
        """The value of a stage's whole expression: storing it narrows it anyway."""
        out = self.stage.out.type
        if isinstance(expr, Cast) and expr.type == out and out.name != "bool":
            inner = expr.argument.type
            if inner.computed == out.computed and inner.is_float == out.is_float:
                expr = expr.argument
        return self._value(expr, spot, total)

    # Expressions.

    def _info(self, expr: Expr) -> _Info:
        found = self._infos.get(id(expr))
        if found is not None:
            return found
        key: Hashable
        if isinstance(expr, Access):
            operand = self.view.operand(expr)
            axes, same = operand.axes, self._along(operand)
            key = id(operand)
        else:
            parts = [self._info(part) for part in expr.parts]
            axes = frozenset().union(*[part.axes for part in parts])
            if isinstance(expr, Accumulator):
                axes = frozenset(("*",))
            same = self._same(axes)
            # 0 and -0.0 are equal, and not the same constant.
            own = expr.name if isinstance(expr, Op) else repr(getattr(expr, "value", None))
            key = type(expr), own, expr.type.name, *[part.number for part in parts]
        number = self._numbers.setdefault(key, len(self._numbers))
        found = _Info(axes, same, self.axis in axes or "*" in axes, number)
        if not isinstance(expr, Const | Accumulator):
            self._infos[id(expr)] = found
        return found

    def _same(self, axes: frozenset[str]) -> list[int]:
        """By point, a number that is equal where these axes are."""
        own = frozenset(self.kept) if "*" in axes else axes.intersection(self.kept)
        found = self._classes.get(own)
        if found is None:
            found = [0]
            for axis in self.kept:
                length = self.shape.lengths[axis]
                if axis in own:
                    found = [n * length + at for n in found for at in range(length)]
                else:
                    found = [n for n in found for _ in range(length)]
            self._classes[own] = found
        return found

    def _value(self, expr: Expr, spot: Spot, total: int = -1) -> int:
        info = self._infos.get(id(expr))
        if info is None:
            if isinstance(expr, Accumulator):
                return total
            if isinstance(expr, Const):
                return self.math.constant(expr.value, expr.type.computed)
            info = self._info(expr)
        axes, same, varies, number = info
        key = (number, same[spot[0]], spot[1] if varies else -1)
        found = self.memo.get(key)
        if found is None:
            found = self.fixed.get(key)
        if found is not None:
            return found
        if self.in_loops and not axes & self.inner:
            return self._hoisted(expr, spot)
        if isinstance(expr, Access):
            found = self._load(self.view.operand(expr), spot)
        elif isinstance(expr, Cast):
            argument = self._value(expr.argument, spot, total)
            found = self.math.cast(argument, expr.argument.type, expr.type)
        else:
            assert isinstance(expr, Op)
            found = self._operation(expr, spot, total)
        self.memo[key] = found
        return found

    def _hoisted(self, expr: Expr, spot: Spot) -> int:
        """A value that the reduction loops do not change, computed before them."""
        items, memo = self.math.items, self.memo
        self.math.items, self.memo, self.in_loops = self.before_loops, self.fixed, False
        found = self._value(expr, spot)
        self.math.items, self.memo, self.in_loops = items, memo, True
        return found

    def _operation(self, expr: Op, spot: Spot, total: int) -> int:
        names = expr.arguments
        condition = names[0]
        if (
            expr.name == "where"
            and isinstance(condition, Op)
            and condition.name in COMPARISONS
            and condition.arguments[0].type.computed == expr.type.computed
        ):
            a, b = (self._value(x, spot, total) for x in condition.arguments)
            x, y = (self._value(v, spot, total) for v in names[1:])
            compared = condition.arguments[0].type.computed
            return self.math.choose(condition.name, compared, a, b, x, y, expr.type.computed)
        values = [self._value(v, spot, total) for v in names]
        return self.math.operation(expr.name, values, [v.type for v in names], expr.type)

    # Memory.

    def _along(self, operand: Operand) -> list[int]:
        """By point, bytes from the operand at the kernel's first point."""
        rows = self._rows.get(id(operand))
        if rows is None:
            rows = [0]
            for axis in self.kept:
                length = self.shape.lengths[axis]
                if axis in operand.axes:
                    steps = [operand.moved(axis, at) for at in range(length)]
                    rows = [row + step for row in rows for step in steps]
                elif length != 1:
                    rows = [row for row in rows for _ in range(length)]
            self._rows[id(operand)] = rows
        return rows

    def _displacement(self, operand: Operand, spot: Spot) -> int:
        base = self.bases.get(id(operand))
        if base is None:
            base = operand.start + sum(operand.moved(axis, at) for axis, at in self.offsets)
            self.bases[id(operand)] = base
        at = base + self._along(operand)[spot.point]
        if spot.chunk is not None and spot.chunk.offset:
            at += operand.moved(self.axis, spot.chunk.offset)
        return at

    def _load(self, operand: Operand, spot: Spot) -> int:
        """Lanes, or one element for all."""
        at, chunk = self._displacement(operand, spot), spot.chunk
        pointer, type = operand.pointer, operand.computed
        stride = operand.moved(self.axis, 1) if chunk is not None else 0
        if stride == 0:
            return self.math.load("bcast", type, pointer, at, self.lanes, operand.stored)
        assert chunk is not None
        if operand.in_quads(self._quad_axis(operand), self.axis):
            return self._load_of_quad(operand, at, chunk)
        if stride == operand.size:
            if self.in_loops and operand.tensor in self.shape.prefetch:
                self.math.emit("prefetch", "i32", -1, ptr=pointer, disp=at + AHEAD)
            return self.math.load("load", type, pointer, at, chunk.lanes, operand.stored)
        return self.math.load("gather", type, pointer, at, chunk.lanes, (operand.stored, stride))

    def _quad_axis(self, operand: Operand) -> str:
        """The axis that is written out in the kernel and may be the operand's fours."""
        for loop in reversed(self.shape.loops):
            if loop.kind == "unroll" and loop.step == 1 and loop.axis in operand.axes:
                return loop.axis
        return ""

    def _load_of_quad(self, operand: Operand, at: int, chunk: Chunk) -> int:
        """One byte of each four, as a number: fours begin at multiples of 4."""
        whole = self.math.load("load", "i32", operand.pointer, at & ~3, chunk.lanes, "i32")
        left = self.math.op("shl", "i32", whole, imm=24 - 8 * (at & 3)) if (at & 3) < 3 else whole
        right = "sra" if operand.access.type.signed else "srl"
        return self.math.op(right, "i32", left, imm=24)

    def _store(self, spot: Spot, value: int) -> None:
        out = self.view.operands[0]
        chunk = spot.chunk
        if chunk is not None:
            self._check_lanes(out)
        self.math.emit(
            "store", out.computed, -1, (value,), ptr=out.pointer,
            disp=self._displacement(out, spot), n=1 if chunk is None else chunk.lanes,
            imm=out.stored,
        )  # fmt: skip

    def _check_lanes(self, out: Operand) -> None:
        if out.moved(self.axis, 1) != out.size:
            raise UsageError(
                f"{self.stage.out} is not contiguous along the vector axis {self.axis}",
                hint="vectorise along the output's last axis, or not at all",
            )

    def _prefetch(self, spots: Sequence[Sequence[Spot]]) -> None:
        """Every line of memory that a row of results touches."""
        out = self.view.operands[0]
        columns = [out.moved(self.axis, chunk.offset) if chunk else 0 for _, _, chunk in spots[0]]
        places: list[int] = []
        for row in self._along(out):
            lines: dict[int, int] = {}
            for column in columns:
                at = out.start + row + column
                lines.setdefault(at // 64, at)
            places += lines.values()
        self.math.emit("touch", "i32", -1, ptr=out.pointer, imm=vir.Touch(tuple(places)))
