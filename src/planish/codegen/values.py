"""Values inside a kernel: expressions at its points, computed once each, and memory accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.arithmetic import Arithmetic
from planish.codegen.layout import Place, move, start
from planish.tensor.expr import COMPARISONS, Access, Cast, Const, Expr, Op, children, walk
from planish.tensor.loops import For
from planish.tensor.program import Accumulator, Stage

Ranges = Mapping[str, int]


# Bytes that operands are prefetched ahead of their use: far enough for the second cache.
_AHEAD = 2048

# A point of a kernel: offsets along the axes, without the vector axis.
Offsets = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Shape:
    """What a kernel is built from.

    loops    those inside it, outermost first
    lengths  the stage's axes, as long as they are here
    first    whether reductions begin here; else what is stored is gone on with
    last     whether they end here, and `post` is applied
    vector   bytes of a vector register
    prefetch names of tensors that are touched ahead of their use
    """

    stage: Stage
    loops: Sequence[For]
    lengths: Ranges
    first: bool
    last: bool
    vector: int
    prefetch: frozenset[str]


class Chunk(NamedTuple):
    """Lanes of the vector axis: where they begin and how many count."""

    offset: int
    lanes: int


def lanes_for(types: Sequence[str], length: int, vector: int) -> int:
    """Lanes of a kernel: as many as registers hold of the widest type, no more than needed."""
    widest = max(8 if t in ("f64", "i64") else 4 for t in types)
    lanes = vector // widest
    while lanes > 16 // widest and lanes // 2 >= length:
        lanes //= 2
    return lanes


class Values:
    """The part of a kernel's builder that knows expressions and memory."""

    def __init__(
        self,
        shape: Shape,
        pointers: Sequence[tuple[Access, int]],
        places: Mapping[str, Place],
    ) -> None:
        self.shape = shape
        self.stage = stage = shape.stage
        self.places = places
        self.pointers = {moves_as(access): pointer for access, pointer in pointers}
        vectors = [loop.axis for loop in shape.loops if loop.kind == "vector"]
        self.axis = vectors[0] if vectors else ""
        types = {
            e.type.computed for part in (stage.body, stage.post) if part for e in walk(part)
        } | {stage.out.type.computed}
        self.lanes = 1
        if self.axis:
            self.lanes = lanes_for(sorted(types), shape.lengths[self.axis], shape.vector)
        self.inner = {loop.axis for loop in shape.loops if loop.axis in stage.bound}
        self.free: dict[int, frozenset[str]] = {}
        # Displacements of accesses by (axis, offset), and where they start.
        self.known: dict[int, dict[object, int]] = {}
        self.pointer_of: dict[int, int] = {}
        self.most = len(stage.all_axes)
        self.math = Arithmetic([], self.lanes)
        self.before_loops: list[vir.Item] = []
        self.in_loops = False
        self.memo: dict[object, int] = {}
        self.fixed: dict[object, int] = {}
        self.accumulators: dict[tuple[Offsets, Chunk | None], int] = {}
        self.moved: dict[int, tuple[list[int], list[int], bool]] = {}

    def _root(self, expr: Expr, offsets: Offsets, chunk: Chunk | None, total: int = -1) -> int:
        """The value of a stage's whole expression: storing it narrows it anyway."""
        out = self.stage.out.type
        if isinstance(expr, Cast) and expr.type == out and out.name != "bool":
            inner = expr.argument.type
            if inner.computed == out.computed and inner.is_float == out.is_float:
                expr = expr.argument
        return self._value(expr, offsets, chunk, total)

    def _axes(self, expr: Expr) -> frozenset[str]:
        found = self.free.get(id(expr))
        if found is None:
            if isinstance(expr, Access):
                found = frozenset(a for i in expr.indices for a in i.axes)
            else:
                found = frozenset(a for part in children(expr) for a in self._axes(part))
                if isinstance(expr, Accumulator):
                    found = frozenset(("*",))
            self.free[id(expr)] = found
        return found

    def _value(self, expr: Expr, offsets: Offsets, chunk: Chunk | None, total: int = -1) -> int:
        if isinstance(expr, Accumulator):
            return total
        if isinstance(expr, Const):
            return self.math.constant(expr.value, expr.type.computed)
        axes = self._axes(expr)
        own = offsets if len(axes) >= self.most else tuple(o for o in offsets if o[0] in axes)
        part = chunk if self.axis in axes else None
        key = (id(expr), own, part, total if "*" in axes else -1)
        found = self.memo.get(key)
        if found is None:
            found = self.fixed.get(key)
        if found is not None:
            return found
        if self.in_loops and not axes & self.inner:
            return self._hoisted(expr, offsets, chunk)
        if isinstance(expr, Access):
            found = self._load(expr, offsets, chunk)
        elif isinstance(expr, Cast):
            argument = self._value(expr.argument, offsets, chunk, total)
            found = self.math.cast(argument, expr.argument.type, expr.type)
        else:
            assert isinstance(expr, Op)
            found = self._operation(expr, offsets, chunk, total)
        self.memo[key] = found
        return found

    def _hoisted(self, expr: Expr, offsets: Offsets, chunk: Chunk | None) -> int:
        """A value that the reduction loops do not change, computed before them."""
        items, memo = self.math.items, self.memo
        self.math.items, self.memo, self.in_loops = self.before_loops, self.fixed, False
        found = self._value(expr, offsets, chunk)
        self.math.items, self.memo, self.in_loops = items, memo, True
        return found

    def _operation(self, expr: Op, offsets: Offsets, chunk: Chunk | None, total: int) -> int:
        names = expr.arguments
        condition = names[0]
        if (
            expr.name == "where"
            and isinstance(condition, Op)
            and condition.name in COMPARISONS
            and condition.arguments[0].type.computed == expr.type.computed
        ):
            a, b = (self._value(x, offsets, chunk, total) for x in condition.arguments)
            x, y = (self._value(v, offsets, chunk, total) for v in names[1:])
            return self.math.choose(
                condition.name,
                condition.arguments[0].type.computed,
                a,
                b,
                x,
                y,
                expr.type.computed,
            )
        values = [self._value(v, offsets, chunk, total) for v in names]
        return self.math.operation(expr.name, values, [v.type for v in names], expr.type)

    # Memory.

    def _displacement(self, access: Access, offsets: Offsets, chunk: Chunk | None) -> int:
        own = self.known.get(id(access))
        if own is None:
            own = self.known[id(access)] = {"": start(access, self.places[access.tensor.name])}
        at = own[""]
        for axis, offset in offsets:
            if offset:
                at += self._moved_by(access, own, axis, offset)
        if chunk is not None and chunk.offset:
            at += self._moved_by(access, own, self.axis, chunk.offset)
        return at

    def _moved_by(self, access: Access, own: dict[object, int], axis: str, offset: int) -> int:
        found = own.get((axis, offset))
        if found is None:
            found = move(access, self.places[access.tensor.name], axis, offset)
            own[axis, offset] = found
        return found

    def _load(self, access: Access, offsets: Offsets, chunk: Chunk | None) -> int:
        return self._load_at(access, self._displacement(access, offsets, chunk), chunk)

    def _load_at(self, access: Access, at: int, chunk: Chunk | None) -> int:
        """Load from `at` bytes behind the access' pointer: lanes, or one element for all."""
        stored = access.tensor.type
        pointer = self.pointer_of.get(id(access), -1)
        if pointer < 0:
            pointer = self.pointer_of[id(access)] = self.pointers[moves_as(access)]
        register = self.math.new()
        stride = 0
        if chunk is not None:
            stride = self._moved_by(access, self.known[id(access)], self.axis, 1)
        if stride == 0:
            self.math.emit(
                "bcast", stored.computed, register, ptr=pointer, disp=at, imm=stored.name
            )
            return register
        assert chunk is not None
        if stride == stored.size:
            if self.in_loops and access.tensor.name in self.shape.prefetch:
                self.math.emit("prefetch", "i32", -1, ptr=pointer, disp=at + _AHEAD)
            self.math.emit(
                "load",
                stored.computed,
                register,
                ptr=pointer,
                disp=at,
                n=chunk.lanes,
                imm=stored.name,
            )
            return register
        self.math.emit(
            "gather",
            stored.computed,
            register,
            ptr=pointer,
            disp=at,
            n=chunk.lanes,
            imm=(stored.name, stride),
        )
        return register

    def _store(self, offsets: Offsets, chunk: Chunk | None, value: int) -> None:
        out = self.stage.out
        pointer = self.pointers[moves_as(out)]
        at = self._displacement(out, offsets, chunk)
        count = 1
        if chunk is not None:
            stride = move(out, self.places[out.tensor.name], self.axis, 1)
            if stride != out.type.size:
                raise UsageError(
                    f"{out} is not contiguous along the vector axis {self.axis}",
                    hint="vectorise along the output's last axis, or not at all",
                )
            count = chunk.lanes
        self.math.emit(
            "store",
            out.type.computed,
            -1,
            (value,),
            ptr=pointer,
            disp=at,
            n=count,
            imm=out.type.name,
        )

    def _prefetch(self, points: list[Offsets], chunks: list[Chunk | None]) -> None:
        pointer = self.pointers[moves_as(self.stage.out)]
        lines: dict[tuple[Offsets, int], int] = {}
        for offsets in points:
            for chunk in chunks:
                at = self._displacement(self.stage.out, offsets, chunk)
                lines.setdefault((offsets, at // 64), at)
        for at in lines.values():
            self.math.emit("prefetch", "i32", -1, ptr=pointer, disp=at)


def moves_as(access: Access) -> object:
    """Equal for accesses that loops move alike, whatever their constants are."""
    return access.tensor.name, tuple(index.terms for index in access.indices)
