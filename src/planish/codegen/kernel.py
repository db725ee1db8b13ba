"""Kernels: what a stage does where only reductions and unrolled or vector loops are left.

Every output point of the kernel has its place in registers. Values that several points share
are computed once (by value numbering), those that no reduction loop changes before the loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.arithmetic import Arithmetic
from planish.codegen.layout import Place, move, start
from planish.tensor.expr import Access, Cast, Const, Expr, Op, children, walk
from planish.tensor.loops import For
from planish.tensor.program import Accumulator, Stage
from planish.tensor.types import Type, identity

Ranges = Mapping[str, int]

_COMBINE = {"sum": "add", "prod": "mul"}


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


class _Chunk(NamedTuple):
    """Lanes of the vector axis: where they begin and how many count."""

    offset: int
    lanes: int


def build_kernel(
    shape: Shape, pointers: Sequence[tuple[Access, int]], places: Mapping[str, Place]
) -> vir.Kernel:
    """The kernel's instructions. Raises UsageError where the schedule cannot be kept."""
    return _Builder(shape, pointers, places).build()


def lanes_for(types: Sequence[str], length: int, vector: int) -> int:
    """Lanes of a kernel: as many as registers hold of the widest type, no more than needed."""
    widest = max(8 if t in ("f64", "i64") else 4 for t in types)
    lanes = vector // widest
    while lanes > 16 // widest and lanes // 2 >= length:
        lanes //= 2
    return lanes


class _Builder:
    def __init__(
        self,
        shape: Shape,
        pointers: Sequence[tuple[Access, int]],
        places: Mapping[str, Place],
    ) -> None:
        self.shape = shape
        self.stage = stage = shape.stage
        self.places = places
        self.pointers = {_moves_as(access): pointer for access, pointer in pointers}
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
        self.accumulators: dict[tuple[Offsets, _Chunk | None], int] = {}
        self.moved: dict[int, tuple[list[int], list[int], bool]] = {}
        self.product = self._plain_product()

    def build(self) -> vir.Kernel:
        shape, stage = self.shape, self.stage
        points = self._points()
        chunks: list[_Chunk | None] = list(self._chunks(self.axis)) if self.axis else [None]
        if stage.out.tensor.name in shape.prefetch:
            self._prefetch(points, chunks)
        if not stage.reduce:
            for offsets in points:
                for chunk in chunks:
                    self._store(offsets, chunk, self._root(stage.body, offsets, chunk))
        else:
            self._reduce(points, chunks)
        return vir.Kernel(stage.name, self.lanes, self.math.items, self.math.count)

    def _points(self) -> list[Offsets]:
        """Output points written out, in the order of their loops (each axis once)."""
        order = list(dict.fromkeys(loop.axis for loop in self.shape.loops))
        kept = [a for a in order if a in self.stage.axes and a != self.axis]
        points: list[Offsets] = [()]
        for axis in kept:
            points = [
                (*point, (axis, at)) for point in points for at in range(self.shape.lengths[axis])
            ]
        return points

    def _chunks(self, axis: str) -> list[_Chunk]:
        length = self.shape.lengths[axis]
        return [_Chunk(at, min(self.lanes, length - at)) for at in range(0, length, self.lanes)]

    # Reductions.

    def _reduce(self, points: list[Offsets], chunks: list[_Chunk | None]) -> None:
        stage, shape = self.stage, self.shape
        type = stage.body.type
        across = self.axis in stage.bound
        slots: list[_Chunk | None] = chunks
        if across:
            slots = list(self._vector_slots())
        if len(points) * len(slots) > 256:
            raise UsageError(f"{stage.name}: {len(points) * len(slots)} results in registers")
        start_value = identity(stage.reduce, type)
        for offsets in points:
            for slot in slots:
                register = self.math.new()
                self.math.emit("const", type.computed, register, imm=start_value)
                self.accumulators[offsets, slot] = register
        loops = [loop for loop in shape.loops if loop.axis in stage.bound]
        lengths = {axis: shape.lengths[axis] for axis in stage.bound}
        start_values = self.math.items
        self.in_loops = True
        body = self._loops(loops, lengths, (), points, slots)
        self.in_loops = False
        self.math.items = [*start_values, *self.before_loops, *body]
        self.memo = dict(self.fixed)
        for offsets in points:
            if across:
                total = self._across([self.accumulators[offsets, slot] for slot in slots], type)
                self._finish(offsets, None, total, type)
                continue
            for chunk in chunks:
                self._finish(offsets, chunk, self.accumulators[offsets, chunk], type)

    def _vector_slots(self) -> list[_Chunk]:
        """One accumulator for each vector of the innermost range of the reduced vector axis."""
        own = [loop for loop in self.shape.loops if loop.axis == self.axis]
        length = self.shape.lengths[self.axis]
        if len(own) > 1:
            length = min(length, own[-2].step)
        return [_Chunk(at, self.lanes) for at in range(0, length, self.lanes)]

    def _loops(
        self,
        loops: Sequence[For],
        lengths: Ranges,
        offsets: Offsets,
        points: list[Offsets],
        slots: list[_Chunk | None],
    ) -> list[vir.Item]:
        """The reduction loops, and in the innermost all points."""
        if not loops or loops[0].kind == "vector":
            return self._innermost(lengths, offsets, points, slots)
        loop = loops[0]
        if loop.kind == "unroll":
            items: list[vir.Item] = []
            for at in range(0, lengths[loop.axis], loop.step):
                size = min(loop.step, lengths[loop.axis] - at)
                inside = _moved(offsets, loop.axis, at)
                items += self._loops(loops[1:], {**lengths, loop.axis: size}, inside, points, slots)
            return items
        full, rest = divmod(lengths[loop.axis], loop.step)
        segments = []
        for trips, size in ((full, loop.step), (1, rest)):
            if trips and size:
                inner = {**lengths, loop.axis: size}
                body = self._loops(loops[1:], inner, offsets, points, slots)
                segments.append(vir.Segment(trips, body))
        if len(segments) == 1 and segments[0].trips == 1:
            return segments[0].body
        return [vir.Loop(self._moves(loop), segments)]

    def _moves(self, loop: For) -> tuple[tuple[int, int], ...]:
        found: dict[int, int] = {}
        for access in (self.stage.out, *self.stage.reads):
            pointer = self.pointers[_moves_as(access)]
            step = move(access, self.places[access.tensor.name], loop.axis, loop.step)
            if step:
                found[pointer] = step
        return tuple(found.items())

    def _innermost(
        self,
        lengths: Ranges,
        offsets: Offsets,
        points: list[Offsets],
        slots: list[_Chunk | None],
    ) -> list[vir.Item]:
        self.math.items = []
        self.memo = {}
        across = self.axis in self.stage.bound
        if self.product is not None and not across:
            self._products(*self.product, offsets, points, slots)
            return self.math.items
        for point in points:
            at = tuple(sorted((*point, *offsets)))
            if not across:
                for slot in slots:
                    self._accumulate(point, slot, at, slot)
                continue
            for slot in slots:
                assert slot is not None
                left = lengths[self.axis] - slot.offset
                if left > 0:
                    self._accumulate(point, slot, at, _Chunk(slot.offset, min(self.lanes, left)))
        return self.math.items

    def _plain_product(self) -> tuple[Access, Access] | None:
        """The operands of a sum of products of elements that every reduction loop moves."""
        stage, body = self.stage, self.stage.body
        if not isinstance(body, Op) or body.name != "mul" or stage.reduce != "sum":
            return None
        a, b = body.arguments
        if not (isinstance(a, Access) and isinstance(b, Access) and body.type.is_float):
            return None
        names = {a.tensor.name, b.tensor.name}
        if names & self.shape.prefetch or not all(self._axes(x) & self.inner for x in (a, b)):
            return None
        return a, b

    def _products(
        self,
        a: Access,
        b: Access,
        offsets: Offsets,
        points: list[Offsets],
        slots: list[_Chunk | None],
    ) -> None:
        """accumulator += a * b at all points: what `_accumulate` does, for the commonest body.

        Kernels consist of little else, and compiling is to take milliseconds.
        """
        type = self.stage.body.type.computed
        items, lanes = self.math.items, self.lanes
        loaded: tuple[dict[object, int], ...] = ({}, {})
        places = [self._displacements(x, points, slots) for x in (a, b)]
        bases = [self._displacement(x, offsets, None) for x in (a, b)]
        for row, point in enumerate(points):
            for column, slot in enumerate(slots):
                pair = []
                for side, access in enumerate((a, b)):
                    rows, columns, varies = places[side]
                    at = bases[side] + rows[row] + columns[column]
                    key = (at, slot) if varies else at
                    register = loaded[side].get(key)
                    if register is None:
                        register = self._load_at(access, at, slot if varies else None)
                        loaded[side][key] = register
                    pair.append(register)
                total = self.accumulators[point, slot]
                items.append(vir.Ins("fma", type, total, (pair[0], pair[1], total), n=lanes))

    def _displacements(
        self, access: Access, points: list[Offsets], slots: list[_Chunk | None]
    ) -> tuple[list[int], list[int], bool]:
        """Bytes from the kernel's first element for each point and each slot; if slots matter."""
        found = self.moved.get(id(access))
        if found is None:
            start_at = self._displacement(access, (), None)
            rows = [self._displacement(access, point, None) - start_at for point in points]
            varies = self.axis in self._axes(access)
            columns = [
                self._displacement(access, (), slot) - start_at if varies else 0 for slot in slots
            ]
            found = self.moved[id(access)] = (rows, columns, varies)
        return found

    def _accumulate(
        self, point: Offsets, slot: _Chunk | None, at: Offsets, chunk: _Chunk | None
    ) -> None:
        """accumulator = accumulator (op) body, in those lanes that count."""
        stage = self.stage
        register = self.accumulators[point, slot]
        type = stage.body.type
        partial = self.axis in stage.bound and chunk is not None and chunk.lanes < self.lanes
        if stage.modulo is not None:
            value = self._value(stage.body, at, chunk)
            modulus = self.math.constant(stage.modulo, type.computed)
            reduced = self._floor_mod(value, modulus, type.computed)
            total = self.math.op("add", type.computed, register, reduced)
            value = self._floor_mod(total, modulus, type.computed)
            self._take(register, value, type.computed, chunk, partial)
            return
        body = stage.body
        multiplied = isinstance(body, Op) and body.name == "mul" and stage.reduce == "sum"
        if multiplied and type.is_float and not partial:
            assert isinstance(body, Op)
            a = self._value(body.arguments[0], at, chunk)
            b = self._value(body.arguments[1], at, chunk)
            self.math.emit("fma", type.computed, register, (a, b, register))
            return
        value = self._value(body, at, chunk)
        name = _COMBINE.get(stage.reduce, stage.reduce)
        if not partial:
            self.math.emit(name, type.computed, register, (register, value))
            return
        total = self.math.op(name, type.computed, register, value)
        self._take(register, total, type.computed, chunk, partial)

    def _floor_mod(self, value: int, modulus: int, computed: str) -> int:
        """The remainder from 0 up, whatever the value's sign."""
        remainder = self.math.op("mod", computed, value, modulus)
        wrapped = self.math.op("add", computed, remainder, modulus)
        zero = self.math.constant(0, computed)
        return self.math.choose("lt", computed, remainder, zero, wrapped, remainder)

    def _take(
        self, register: int, value: int, computed: str, chunk: _Chunk | None, partial: bool
    ) -> None:
        if partial:
            assert chunk is not None
            self.math.emit("lanes", computed, register, (value, register), n=chunk.lanes)
        else:
            self.math.emit("mov", computed, register, (value,))

    def _across(self, registers: list[int], type: Type) -> int:
        """One value out of the lanes of several accumulators."""
        name = _COMBINE.get(self.stage.reduce, self.stage.reduce)
        while len(registers) > 1:
            half = (len(registers) + 1) // 2
            pairs = zip(registers[:half], registers[half:], strict=False)
            joined = [self._join(name, a, b, type) for a, b in pairs]
            registers = joined + registers[len(joined) : half]
        total = self.math.new()
        if self.stage.modulo is not None:
            name = "add"
        self.math.emit("hreduce", type.computed, total, (registers[0],), imm=name)
        if self.stage.modulo is not None:
            modulus = self.math.constant(self.stage.modulo, type.computed)
            total = self._floor_mod(total, modulus, type.computed)
        return total

    def _join(self, name: str, a: int, b: int, type: Type) -> int:
        return self.math.op(name, type.computed, a, b)

    def _finish(self, offsets: Offsets, chunk: _Chunk | None, total: int, type: Type) -> None:
        stage, shape = self.stage, self.shape
        if not (shape.first and shape.last) and stage.out.type != type:
            raise UsageError(
                f"{stage.name} is summed up in memory as {stage.out.type}, and needs {type}"
            )
        if not shape.first:
            before = self._load(stage.out, offsets, chunk)
            name = _COMBINE.get(stage.reduce, stage.reduce)
            total = self.math.op(name, type.computed, before, total)
            if stage.modulo is not None:
                modulus = self.math.constant(stage.modulo, type.computed)
                total = self._floor_mod(total, modulus, type.computed)
        if type.name != type.computed:
            total = self.math.wrap(total, type)
        if stage.post is not None and shape.last:
            total = self._root(stage.post, offsets, chunk, total)
        self._store(offsets, chunk, total)

    # Values.

    def _root(self, expr: Expr, offsets: Offsets, chunk: _Chunk | None, total: int = -1) -> int:
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

    def _value(self, expr: Expr, offsets: Offsets, chunk: _Chunk | None, total: int = -1) -> int:
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

    def _hoisted(self, expr: Expr, offsets: Offsets, chunk: _Chunk | None) -> int:
        """A value that the reduction loops do not change, computed before them."""
        items, memo = self.math.items, self.memo
        self.math.items, self.memo, self.in_loops = self.before_loops, self.fixed, False
        found = self._value(expr, offsets, chunk)
        self.math.items, self.memo, self.in_loops = items, memo, True
        return found

    def _operation(self, expr: Op, offsets: Offsets, chunk: _Chunk | None, total: int) -> int:
        names = expr.arguments
        condition = names[0]
        if (
            expr.name == "where"
            and isinstance(condition, Op)
            and condition.name in ("lt", "le", "gt", "ge", "eq", "ne")
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

    def _displacement(self, access: Access, offsets: Offsets, chunk: _Chunk | None) -> int:
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

    def _load(self, access: Access, offsets: Offsets, chunk: _Chunk | None) -> int:
        return self._load_at(access, self._displacement(access, offsets, chunk), chunk)

    def _load_at(self, access: Access, at: int, chunk: _Chunk | None) -> int:
        """Load from `at` bytes behind the access' pointer: lanes, or one element for all."""
        stored = access.tensor.type
        pointer = self.pointer_of.get(id(access), -1)
        if pointer < 0:
            pointer = self.pointer_of[id(access)] = self.pointers[_moves_as(access)]
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

    def _store(self, offsets: Offsets, chunk: _Chunk | None, value: int) -> None:
        out = self.stage.out
        pointer = self.pointers[_moves_as(out)]
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

    def _prefetch(self, points: list[Offsets], chunks: list[_Chunk | None]) -> None:
        pointer = self.pointers[_moves_as(self.stage.out)]
        lines: dict[tuple[Offsets, int], int] = {}
        for offsets in points:
            for chunk in chunks:
                at = self._displacement(self.stage.out, offsets, chunk)
                lines.setdefault((offsets, at // 64), at)
        for at in lines.values():
            self.math.emit("prefetch", "i32", -1, ptr=pointer, disp=at)


def _moved(offsets: Offsets, axis: str, by: int) -> Offsets:
    found = dict(offsets)
    found[axis] = found.get(axis, 0) + by
    return tuple(found.items())


def _moves_as(access: Access) -> object:
    return access.tensor.name, tuple(index.terms for index in access.indices)
