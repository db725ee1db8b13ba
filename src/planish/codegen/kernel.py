"""Kernels: what a stage does where only reductions and unrolled or vector loops are left.

Every output point of the kernel has its place in registers. Values that several points share
are computed once (by value numbering), those that no reduction loop changes before the loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.layout import Place, move
from planish.codegen.values import Chunk, Offsets, Ranges, Shape, Values, moves_as
from planish.tensor.expr import Access, Op
from planish.tensor.loops import For
from planish.tensor.types import Type, identity

_COMBINE = {"sum": "add", "prod": "mul"}


def build_kernel(
    shape: Shape, pointers: Sequence[tuple[Access, int]], places: Mapping[str, Place]
) -> vir.Kernel:
    """The kernel's instructions. Raises UsageError where the schedule cannot be kept."""
    return _Builder(shape, pointers, places).build()


class _Builder(Values):
    def __init__(
        self,
        shape: Shape,
        pointers: Sequence[tuple[Access, int]],
        places: Mapping[str, Place],
    ) -> None:
        super().__init__(shape, pointers, places)
        self.product = self._plain_product()

    def build(self) -> vir.Kernel:
        shape, stage = self.shape, self.stage
        points = self._points()
        chunks: list[Chunk | None] = list(self._chunks(self.axis)) if self.axis else [None]
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

    def _chunks(self, axis: str) -> list[Chunk]:
        length = self.shape.lengths[axis]
        return [Chunk(at, min(self.lanes, length - at)) for at in range(0, length, self.lanes)]

    # Reductions.

    def _reduce(self, points: list[Offsets], chunks: list[Chunk | None]) -> None:
        stage, shape = self.stage, self.shape
        type = stage.body.type
        across = self.axis in stage.bound
        slots: list[Chunk | None] = chunks
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

    def _vector_slots(self) -> list[Chunk]:
        """One accumulator for each vector of the innermost range of the reduced vector axis."""
        own = [loop for loop in self.shape.loops if loop.axis == self.axis]
        length = self.shape.lengths[self.axis]
        if len(own) > 1:
            length = min(length, own[-2].step)
        return [Chunk(at, self.lanes) for at in range(0, length, self.lanes)]

    def _loops(
        self,
        loops: Sequence[For],
        lengths: Ranges,
        offsets: Offsets,
        points: list[Offsets],
        slots: list[Chunk | None],
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
            pointer = self.pointers[moves_as(access)]
            step = move(access, self.places[access.tensor.name], loop.axis, loop.step)
            if step:
                found[pointer] = step
        return tuple(found.items())

    def _innermost(
        self,
        lengths: Ranges,
        offsets: Offsets,
        points: list[Offsets],
        slots: list[Chunk | None],
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
                    self._accumulate(point, slot, at, Chunk(slot.offset, min(self.lanes, left)))
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
        slots: list[Chunk | None],
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
        self, access: Access, points: list[Offsets], slots: list[Chunk | None]
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
        self, point: Offsets, slot: Chunk | None, at: Offsets, chunk: Chunk | None
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
        self, register: int, value: int, computed: str, chunk: Chunk | None, partial: bool
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

    def _finish(self, offsets: Offsets, chunk: Chunk | None, total: int, type: Type) -> None:
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


def _moved(offsets: Offsets, axis: str, by: int) -> Offsets:
    found = dict(offsets)
    found[axis] = found.get(axis, 0) + by
    return tuple(found.items())
