"""Kernels: what a stage does where only reductions and unrolled or vector loops are left.

Every output point of the kernel has its place in registers. Values that several points share
are computed once (by value numbering), those that no reduction loop changes before the loops.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.dots import Dots
from planish.codegen.shape import Chunk, Offsets, Ranges, Shape, Spot
from planish.codegen.view import StageView
from planish.tensor.expr import Expr, Op
from planish.tensor.loops import For
from planish.tensor.types import identity

_COMBINE = {"sum": "add", "prod": "mul"}
_new = tuple.__new__


def build_kernel(view: StageView, shape: Shape) -> vir.Body:
    """The kernel's instructions. Raises UsageError where the schedule cannot be kept."""
    return _Builder(view, shape).build()


def kernel_form(view: StageView, shape: Shape) -> Hashable:
    """Equal for kernels of equal code, whatever their tensors and axes are called."""
    axes = view.stage.all_axes
    inner = [(axes.index(loop.axis), loop.step, loop.kind) for loop in shape.loops]
    moving = [axes[at] for at in sorted({at for at, _, _ in inner})]
    touched = shape.prefetch
    return (
        view.form, tuple(inner), tuple(shape.lengths.values()), shape.first, shape.last,
        shape.dot4,
        tuple([(operand.form(moving), operand.tensor in touched) for operand in view.operands]),
    )  # fmt: skip


class _Builder(Dots):
    def __init__(self, view: StageView, shape: Shape) -> None:
        super().__init__(view, shape)
        stage = self.stage
        self.type = stage.body.type
        self.computed = stage.body.type.computed
        self.combine = _COMBINE.get(stage.reduce, stage.reduce)
        self.across = self.axis in stage.bound
        self.factors: tuple[Expr, ...] | None = None  # of a sum of products of floats
        if stage.reduce == "sum" and self.type.is_float and isinstance(stage.body, Op):
            self.factors = stage.body.arguments if stage.body.name == "mul" else None
        self.quads = self._quads() if shape.dot4 else None
        self.tiled = self._pair() if self.quads is None else None
        self.corrections: list[int] = []
        self.totals = []
        # The first innermost body of each set of lengths, and where its unrolled loops stood.
        self.recorded: dict[object, tuple[list[vir.Ins], Offsets, int, int]] = {}

    def build(self) -> vir.Body:
        """All of it."""
        stage = self.stage
        chunks: list[Chunk | None] = list(self._chunks(self.axis)) if self.axis else [None]
        spots = [
            [Spot(point, slot, chunk) for slot, chunk in enumerate(chunks)]
            for point in range(self.points)
        ]
        if spots and stage.out.tensor.name in self.shape.prefetch:
            self._prefetch(spots)
        if stage.reduce:
            return vir.Body(self.lanes, self._reduce(spots), self.math.count)
        out = self.view.operands[0]
        if self.kept and self.axis and out.in_quads(self._quad_axis(out), self.axis):
            self._store_quads(spots)
            return vir.Body(self.lanes, [self.math.items], self.math.count)
        for row in spots:
            for spot in row:
                self._store(spot, self._root(stage.body, spot))
        return vir.Body(self.lanes, [self.math.items], self.math.count)

    # Reductions.

    def _reduce(self, spots: list[list[Spot]]) -> list[vir.Run]:
        stage, shape, math = self.stage, self.shape, self.math
        inner = spots
        if self.across:
            slots = list(enumerate(self._vector_slots()))
            inner = [[Spot(p, s, chunk) for s, chunk in slots] for p in range(self.points)]
        if (count := sum(map(len, inner))) > 256:
            raise UsageError(f"{stage.name}: {count} results in registers")
        start = identity(stage.reduce, self.type)
        self.totals = self._started(inner, start)
        if self.quads is not None and self.quads.signed:
            self.corrections = [math.op("const", "i32", imm=0) for _ in inner[0]]
        loops = [loop for loop in shape.loops if loop.axis in stage.bound]
        lengths = {axis: shape.lengths[axis] for axis in stage.bound}
        start_values = math.items
        self.in_loops = True
        body = self._loops(loops, lengths, (), inner)
        self.in_loops = False
        self.memo, self.bases, self.offsets = dict(self.fixed), {}, ()
        math.items = []
        if self._is_plainly_stored():
            self._store_all(spots)
            return [start_values + self.before_loops, *body, math.items]
        for row, totals in zip(spots, self.totals, strict=True):
            if self.across:
                self._finish(Spot(row[0].point, 0, None), self._joined(totals))
                continue
            for spot, total in zip(row, totals, strict=True):
                for more in self.corrections[spot.slot : spot.slot + 1]:
                    math.emit("sub", "i32", total, (total, more))
                self._finish(spot, total)
        return [start_values + self.before_loops, *body, math.items]

    def _vector_slots(self) -> list[Chunk]:
        """One accumulator for each vector of the innermost range of the reduced vector axis."""
        own = [loop for loop in self.shape.loops if loop.axis == self.axis]
        length = self.shape.lengths[self.axis]
        if len(own) > 1:
            length = min(length, own[-2].step)
        return [Chunk(at, self.lanes) for at in range(0, length, self.lanes)]

    def _loops(
        self, loops: Sequence[For], lengths: Ranges, offsets: Offsets, spots: list[list[Spot]]
    ) -> list[vir.Run]:
        """The reduction loops, and in the innermost all points."""
        if not loops or loops[0].kind == "vector":
            return [self._innermost(lengths, offsets, spots)]
        loop = loops[0]
        if self.quads is not None and loop.axis == self.quads.axis and lengths[loop.axis] == 4:
            return [self._dots(offsets, spots)]
        if loop.kind == "unroll":
            runs: list[vir.Run] = []
            for at in range(0, lengths[loop.axis], loop.step):
                size = min(loop.step, lengths[loop.axis] - at)
                inside = _moved(offsets, loop.axis, at)
                runs += self._loops(loops[1:], {**lengths, loop.axis: size}, inside, spots)
            return runs
        full, rest = divmod(lengths[loop.axis], loop.step)
        segments = []
        for trips, size in ((full, loop.step), (1, rest)):
            if trips and size:
                inner = {**lengths, loop.axis: size}
                body = self._loops(loops[1:], inner, offsets, spots)
                segments.append(vir.Segment(trips, body))
        if len(segments) == 1 and segments[0].trips == 1:
            return body
        moves = tuple((operand.pointer, by) for operand, by in self.view.moves(loop))
        return [vir.Loop(moves, segments)]

    def _innermost(
        self, lengths: Ranges, offsets: Offsets, spots: list[list[Spot]]
    ) -> list[vir.Ins]:
        if self.tiled is not None:
            return [self._tile(self.tiled, offsets)]
        key = lengths.get(self.axis)
        if key in self.recorded:
            return self._replayed(*self.recorded[key], offsets)
        items: list[vir.Ins] = []
        self.math.items = items
        self.memo, self.bases, self.offsets = {}, {}, offsets
        before = self.math.count
        for row, totals in zip(spots, self.totals, strict=True):
            for spot, total in zip(row, totals, strict=True):
                if not self.across:
                    self._accumulate(spot, total)
                    continue
                assert spot.chunk is not None
                left = lengths[self.axis] - spot.chunk.offset
                if left > 0:
                    chunk = Chunk(spot.chunk.offset, min(self.lanes, left))
                    self._accumulate(Spot(spot.point, spot.slot, chunk), total)
        self.recorded[key] = items, offsets, before, self.math.count
        return items

    def _replayed(
        self, items: list[vir.Ins], then: Offsets, before: int, behind: int, now: Offsets
    ) -> list[vir.Ins]:
        """The innermost body once more, where unrolled loops have come to another place.

        It has the same instructions; its own registers are fresh and its operands moved. What
        was computed before the loops is computed already.
        """
        old = dict(then)
        moved = [(axis, at, old.get(axis, 0)) for axis, at in now]
        by = [0] * len(self.view.pointers)
        for operand in self.view.operands:
            by[operand.pointer] = sum(
                operand.moved(axis, at) - operand.moved(axis, was) for axis, at, was in moved
            )
        count = self.math.count
        fresh = list(range(behind))
        for ins in items:
            if ins[2] >= before and fresh[ins[2]] == ins[2]:
                fresh[ins[2]] = count
                count += 1
        self.math.count = count
        ins_of = vir.Ins
        found = []
        for op, type, dst, src, ptr, disp, n, imm in items:
            if ptr >= 0:
                disp += by[ptr]
            # Spelt out, since a generator for each would take as long as all the rest.
            if len(src) == 3:
                a, b, c = src
                src = (fresh[a], fresh[b], fresh[c])
            elif len(src) == 2:
                a, b = src
                src = (fresh[a], fresh[b])
            elif src:
                src = tuple([fresh[s] for s in src])
            to = fresh[dst] if dst >= 0 else -1
            found.append(_new(ins_of, (op, type, to, src, ptr, disp, n, imm)))
        return found

    def _accumulate(self, spot: Spot, register: int) -> None:
        """register = register (op) body, in those lanes that count."""
        stage, computed, body = self.stage, self.computed, self.stage.body
        partial = self.across and spot.chunk is not None and spot.chunk.lanes < self.lanes
        if stage.modulo is not None:
            reduced = self._floor_mod(self._value(body, spot))
            total = self._floor_mod(self.math.op("add", computed, register, reduced))
            self._take(register, total, spot, partial)
            return
        factors = self.factors
        if factors is not None and not partial:
            a, b = self._value(factors[0], spot), self._value(factors[1], spot)
            self.math.emit("fma", computed, register, (a, b, register))
            return
        value = self._value(body, spot)
        if not partial:
            self.math.emit(self.combine, computed, register, (register, value))
            return
        self._take(register, self.math.op(self.combine, computed, register, value), spot, partial)

    def _floor_mod(self, value: int) -> int:
        """The remainder from 0 up, whatever the value's sign."""
        assert self.stage.modulo is not None
        computed = self.computed
        modulus = self.math.constant(self.stage.modulo, computed)
        remainder = self.math.op("mod", computed, value, modulus)
        wrapped = self.math.op("add", computed, remainder, modulus)
        zero = self.math.constant(0, computed)
        return self.math.choose("lt", computed, remainder, zero, wrapped, remainder)

    def _take(self, register: int, value: int, spot: Spot, partial: bool) -> None:
        if partial:
            assert spot.chunk is not None
            lanes = spot.chunk.lanes
            self.math.emit("lanes", self.computed, register, (value, register), n=lanes)
        else:
            self.math.emit("mov", self.computed, register, (value,))

    def _joined(self, registers: list[int]) -> int:
        """One value out of the lanes of several accumulators."""
        while len(registers) > 1:
            half = (len(registers) + 1) // 2
            pairs = zip(registers[:half], registers[half:], strict=False)
            joined = [self.math.op(self.combine, self.computed, a, b) for a, b in pairs]
            registers = joined + registers[len(joined) : half]
        total = self.math.op("hreduce", self.computed, registers[0], imm=self.combine)
        return self._floor_mod(total) if self.stage.modulo is not None else total

    def _finish(self, spot: Spot, total: int) -> None:
        stage, shape, type = self.stage, self.shape, self.type
        if not (shape.first and shape.last) and stage.out.type != type:
            raise UsageError(
                f"{stage.name} is summed up in memory as {stage.out.type}, and needs {type}"
            )
        if not shape.first:
            before = self._load(self.view.operands[0], spot)
            total = self.math.op(self.combine, type.computed, before, total)
            if stage.modulo is not None:
                total = self._floor_mod(total)
        if type.name != type.computed:
            total = self.math.wrap(total, type)
        if stage.post is not None and shape.last:
            total = self._root(stage.post, spot, total)
        self._store(spot, total)


def _moved(offsets: Offsets, axis: str, by: int) -> Offsets:
    found = dict(offsets)
    found[axis] = found.get(axis, 0) + by
    return tuple(found.items())
