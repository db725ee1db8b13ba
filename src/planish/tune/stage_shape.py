"""What a stage is like: its vector axis, what its rows share, how its operands lie in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.codegen.layout import row_major
from planish.codegen.units import has_dot4
from planish.measure.machine import Processor
from planish.tensor.expr import Access, Cast, Expr, Op, walk
from planish.tensor.program import Stage

# Ways of the first cache, and bytes of one: lines so far apart share a set.
WAYS, _WAY = 8, 4096
_LINE = 64
# Bytes of an operand walked by vectors up to which it is read where it lies.
SMALL = 192 << 10

# Operations that take tens of instructions.
HEAVY = ("exp", "log", "tanh", "erf")


@dataclass(frozen=True)
class Target:
    """What the rules know of a machine: vector bytes, vector registers, caches in bytes.

    dot4  whether it multiplies and adds bytes by four
    """

    vector: int
    registers: int
    l1: int
    l2: int
    dot4: bool = False

    @classmethod
    def of(cls, machine: Processor, vector: int, *, native: bool = True) -> Target:
        """The machine's, with vectors of so many bytes; what only it may have, if `native`."""
        registers = 31 if vector == 64 else 15
        return cls(vector, registers, machine.l1, machine.l2, native and has_dot4(vector))


class StageShape:
    """One stage on one machine.

    strides  bytes by tensor name, where an argument is not contiguous
    vector   the axis taken in lanes, "" for none; `rows_axis` the one whose rows share an operand
    kind     elementwise, across, streamed, narrow, tiled, or "" for what has no loops to speak of
    """

    def __init__(
        self, stage: Stage, target: Target, strides: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.strides = strides
        self.stage = stage
        self.target = target
        self.extents = stage.extents
        self.lanes = target.vector // (8 if stage.computed_types & {"f64", "i64"} else 4)
        self.narrow = self._narrow()
        self.vector = stage.bound[0] if self.narrow else self._vector_axis()
        self.rows_axis = self._reused_axis()
        self.kind = self._kind()

    def _kind(self) -> str:
        if not self.stage.all_axes or not self.vector or 0 in self.extents.values():
            return ""
        if not self.stage.reduce:
            return "elementwise"
        if self.narrow:
            return "narrow"
        if self.vector in self.stage.bound:
            return "across"
        return "streamed" if not self.rows_axis and self._is_streamed() else "tiled"

    # What a stage is like.

    def _vectors(self) -> int:
        """Vectors that the whole vector axis takes."""
        return -(-self.extents[self.vector] // self.lanes)

    def stride(self, access: Access, axis: str) -> int:
        """Elements that one step along the axis moves."""
        size = access.tensor.type.size
        given = self.strides.get(access.tensor.name) or row_major(access.tensor.shape, size)
        moved = sum(i.coefficient(axis) * s for i, s in zip(access.indices, given, strict=True))
        return moved // size if moved % size == 0 else moved

    def _axes(self, access: Access) -> tuple[str, ...]:
        return tuple(name for index in access.indices for name in index.axes)

    def _vector_axis(self) -> str:
        stage = self.stage
        best, best_cost = "", math.inf
        for axis in stage.all_axes:
            bound = axis in stage.bound
            length = self.extents[axis]
            if length < 2 or (not bound and self.stride(stage.out, axis) != 1):
                continue
            strided = [a for a in stage.reads if self.stride(a, axis) not in (0, 1)]
            if any(a.type.name not in ("f32", "i32", "f64") for a in strided):
                continue
            used = length / (-(-length // self.lanes) * self.lanes)
            gathers = 4 * len(strided)
            if len(strided) == 1 and not bound and self._is_worth_packing(strided[0], axis):
                gathers = 0
            cost = (1 + gathers + (0.6 if bound else 0)) / used
            if cost < best_cost:
                best, best_cost = axis, cost
        return best

    def _narrow(self) -> tuple[Access, Access] | None:
        """The operands of a product with few columns: by rows and contiguous, and by columns."""
        stage, body = self.stage, self.stage.body
        if len(stage.axes) != 2 or len(stage.bound) != 1 or not isinstance(body, Op):
            return None
        (m, n), k = stage.axes, stage.bound[0]
        shape = (self.extents[m] >= 8, 2 <= self.extents[n] <= 6, self.extents[k] >= 2 * self.lanes)
        if not all(shape) or stage.modulo is not None or len(body.arguments) != 2:
            return None
        pair = [a for a in body.arguments if isinstance(a, Access) and a.type.size >= 4]
        for a, b in (pair, pair[::-1]) if len(pair) == 2 else ():
            if self._axes(a) == (m, k) and set(self._axes(b)) == {k, n} and a.tensor != b.tensor:
                plain = all(i.terms[0][1] == 1 and not i.constant for x in pair for i in x.indices)
                whole = body.type.is_float and len(b.indices) == 2
                return (a, b) if plain and whole and self.stride(a, k) == 1 else None
        return None

    def _is_worth_packing(self, access: Access, axis: str) -> bool:
        """Whether a product's operand, strided along the axis, is used often once it is packed."""
        body = self.stage.body
        if not isinstance(body, Op) or body.name != "mul" or access not in body.arguments:
            return False
        if not all(isinstance(a, Access) for a in body.arguments):
            return False
        rows = [a for a in self.stage.axes if a not in self._axes(access)]
        return math.prod(self.extents[a] for a in rows) >= 24 and self.extents[axis] >= 8

    def is_heavy(self) -> bool:
        return any(isinstance(e, Op) and e.name in HEAVY for e in walk(self.stage.body))

    def _reused_axis(self) -> str:
        """The output axis that some operand does not depend on: its rows share that operand."""
        stage = self.stage
        candidates = []
        for axis in stage.axes:
            if axis == self.vector or self.extents[axis] < 2:
                continue
            reads = [a for a in stage.reads if set(self._axes(a)) & set(stage.bound)]
            without = [a for a in reads if axis not in self._axes(a)]
            if without and len(without) < len(reads):
                candidates.append(axis)
        return max(candidates, key=lambda a: self.extents[a], default="")

    def _second_axis(self) -> str:
        """Another output axis whose vectors meet the same elements as those of the first rows."""
        m, n = self.rows_axis, self.vector
        for axis in self.stage.axes:
            if axis in (m, n) or self.extents[axis] < 3 or self.product() is not None:
                continue
            shared = [a for a in self.stage.reads if m in self._axes(a)]
            vectors = [a for a in self.stage.reads if n in self._axes(a)]
            if (
                m
                and all(axis not in self._axes(a) for a in shared)
                and all(axis in self._axes(a) and m not in self._axes(a) for a in vectors)
            ):
                return axis
        return ""

    def _is_streamed(self) -> bool:
        """Whether an operand of many long rows, used once, is summed up row by row."""
        stage = self.stage
        if len(stage.bound) != 1 or len(stage.axes) != 1 or stage.out.type != stage.body.type:
            return False
        depth, across = self.extents[stage.bound[0]], self.extents[self.vector]
        size = stage.body.type.size
        fits = across * size <= self.target.l2 // 8
        return fits and across * size >= 2048 and depth >= 32 and depth * across * size > 256 << 10

    def collides(self) -> bool:
        """Whether an operand is walked down columns whose rows share cache sets, and not packed."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        rows = math.prod(self.extents[a] for a in self.stage.axes if a != self.vector)
        return rows <= 64 and any(
            self.stride(a, axis) * a.type.size % 1024 == 0 and self.stride(a, axis)
            for a in reads
            for axis in self.stage.bound
        )

    def _straddles(self) -> bool:
        """Whether a small product's vectors, as long as a line of cache, lie across lines."""
        product = self.product()
        if product is None or self.target.vector < _LINE or not self.rows_axis:
            return False
        b, depth = product[1], self.extents[self.stage.bound[0]]
        row = self.stride(b, self.stage.bound[0]) * b.type.size
        return row % _LINE != 0 and depth * self.extents[self.vector] * b.type.size <= SMALL

    def _rows_collide(self) -> bool:
        """Whether an operand's rows begin in one set of the first cache, and are not packed."""
        axis = self.rows_axis
        reads = [a for a in self.stage.reads if axis and axis in self._axes(a)]
        return any(self.stride(a, axis) * a.type.size % _WAY == 0 for a in reads)

    def _walked(self) -> int:
        """Bytes of the operands that lie along the vector axis."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        return sum(math.prod(a.tensor.shape) * a.type.size for a in reads)

    def product(self) -> tuple[Access, Access] | None:
        """The operands of a sum of products: the one walked by rows, the one by vectors."""
        body = self.stage.body
        if not isinstance(body, Op) or len(body.arguments) != 2 or len(self.stage.bound) != 1:
            return None
        return self._pair(body.arguments) or self._quads()

    def _pair(self, factors: Sequence[Expr]) -> tuple[Access, Access] | None:
        pair = [a for a in factors if isinstance(a, Access)]
        if len(pair) != 2 or any(
            len(i.terms) != 1 or i.terms[0][1] != 1 or i.constant for a in pair for i in a.indices
        ):
            return None
        if any(len(set(self._axes(a))) != len(a.indices) for a in pair):
            return None
        vectors = [a for a in pair if self.vector in self._axes(a)]
        rows = [a for a in pair if self.vector not in self._axes(a)]
        if len(vectors) != 1 or len(rows) != 1 or vectors[0].tensor == rows[0].tensor:
            return None
        if self.rows_axis in self._axes(vectors[0]):
            return None  # every row has vectors of its own
        return rows[0], vectors[0]

    def _quads(self) -> tuple[Access, Access] | None:
        """The operands of a product of bytes that are worth taking four at a time."""
        stage, body = self.stage, self.stage.body
        if not self.target.dot4 or stage.reduce != "sum" or stage.modulo is not None:
            return None
        if not isinstance(body, Op) or body.name != "mul" or body.type.name != "i32":
            return None
        product = self._pair([_uncast(factor) for factor in body.arguments])
        if product is None or len(stage.bound) != 1 or not self.rows_axis:
            return None
        types, k = {a.type.name for a in product}, stage.bound[0]
        if "i8" not in types or not types <= {"i8", "u8"} or self.stride(product[0], k) != 1:
            return None
        worth = self.extents[self.rows_axis] >= 8 and self.extents[k] >= 8
        return product if worth and self.stride(product[1], self.vector) == 1 else None

    def weights(self) -> Access | None:
        """A convolution's weights: read along vectors, the same for all rows, by plain axes."""
        outputs = {a for a in self.stage.axes if a != self.vector}
        found = [a for a in self.stage.reads if self.vector in self._axes(a)]
        if len(found) != 1 or outputs & set(self._axes(found[0])):
            return None
        plain = all(len(i.terms) == 1 and i.terms[0][1] == 1 for i in found[0].indices)
        return found[0] if plain and self.stride(found[0], self.vector) == 1 else None

    def strided_window(self) -> Access | None:
        """The one operand that lies badly along the vector axis and is worth spreading out."""
        strided = [a for a in self.stage.reads if self.stride(a, self.vector) not in (0, 1)]
        if len(strided) == 1 and self._is_worth_packing(strided[0], self.vector):
            return strided[0]
        return None


def _uncast(expr: Expr) -> Expr:
    """What a conversion of bytes to i32 converts; anything else as it is."""
    if isinstance(expr, Cast) and expr.type.name == "i32" and expr.argument.type.size == 1:
        return expr.argument
    return expr
