"""A good schedule without any search: rules by what a stage reads, its shape and the caches.

The stage's vector axis is the one along which most of what it touches is contiguous. Then a tile
of results is kept in registers, as large as a small model of loads and multiply-adds says is
best. Operands that are walked often and lie badly are packed; stages that share their outer axis
are fused there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import UsageError
from planish.codegen.layout import row_major
from planish.measure.machine import Processor
from planish.tensor.expr import Access, Op, children, walk
from planish.tensor.loops import Nest, path_of, plain
from planish.tensor.program import Program, Stage
from planish.tensor.schedule import Schedule, Step, step

# Multiply-adds wait four cycles for each other; two begin in each.
_LATENCY = 8


@dataclass(frozen=True)
class Target:
    """What the rules know of a machine: vector bytes, vector registers, caches in bytes."""

    vector: int
    registers: int
    l1: int
    l2: int

    @classmethod
    def of(cls, machine: Processor, vector: int) -> Target:
        """The machine's, with vectors of so many bytes."""
        return cls(vector, 31 if vector == 64 else 15, machine.l1, machine.l2)


def default_schedule(
    program: Program,
    target: Target,
    threads: int = 1,
    strides: Mapping[str, tuple[int, ...]] | None = None,
) -> Schedule:
    """The rules' schedule; every step is known to apply.

    strides  bytes by tensor name, where an argument is not contiguous
    """
    steps: list[Step] = []
    nest = plain(program)
    for stage in program.stages:
        nest, added = _apply(nest, _Rules(stage, target, strides or {}).steps())
        steps += added
    nest, added = _fusions(nest, program)
    steps += added
    if threads > 1:
        nest, added = _threads(nest, program, threads)
        steps += added
    return Schedule(tuple(steps))


def _apply(nest: Nest, wanted: Sequence[Step]) -> tuple[Nest, list[Step]]:
    done = []
    for one in wanted:
        nest = one.apply(nest)
        done.append(one)
    return nest, done


def _fusions(nest: Nest, program: Program) -> tuple[Nest, list[Step]]:
    """Stages computed row by row together, where their outermost loops are the same."""
    done: list[Step] = []
    for producer, consumer in zip(program.stages, program.stages[1:], strict=False):
        reads = [a.tensor for s in program.stages for a in s.reads if s is not producer]
        if producer.out.tensor not in reads or not producer.axes or not consumer.axes:
            continue
        one = step("fuse", producer.name, consumer.name, consumer.axes[0])
        if producer.extents[producer.axes[0]] < 2:
            continue
        try:
            nest = one.apply(nest)
        except UsageError:
            continue
        done.append(one)
    return nest, done


def _threads(nest: Nest, program: Program, threads: int) -> tuple[Nest, list[Step]]:
    """Every outermost loop over an output axis is shared among threads."""
    done: list[Step] = []
    for stage in program.stages:
        path = path_of(nest, stage.name)
        if not stage.axes or path[0].kind == "parallel":
            continue
        for axis in stage.axes:
            length = stage.extents[axis]
            if length < threads:
                continue
            wanted = [
                step("split", stage.name, axis, -(-length // threads)),
                step("parallel", stage.name, f"{axis}/{-(-length // threads)}"),
            ]
            try:
                nest, added = _apply(nest, wanted)
            except UsageError:
                continue
            done += added
            break
    return nest, done


class _Rules:
    """One stage's schedule."""

    def __init__(
        self, stage: Stage, target: Target, strides: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.strides = strides
        self.stage = stage
        self.target = target
        self.extents = stage.extents
        types = {e.type.computed for e in walk(stage.body)}
        types.add(stage.out.type.computed)
        if stage.post is not None:
            types |= {e.type.computed for e in walk(stage.post)}
        self.lanes = target.vector // (8 if types & {"f64", "i64"} else 4)
        self.vector = self._vector_axis()

    def steps(self) -> list[Step]:
        """The stage's steps, outermost decisions first."""
        if not self.stage.all_axes or not self.vector or 0 in self.extents.values():
            return []
        if not self.stage.reduce:
            return self._elementwise()
        if self.vector in self.stage.bound:
            return self._across()
        return self._tiled()

    # The vector axis.

    def _stride(self, access: Access, axis: str) -> int:
        """Elements that one step along the axis moves."""
        size = access.tensor.type.size
        given = self.strides.get(access.tensor.name) or row_major(access.tensor.shape, size)
        moved = sum(i.coefficient(axis) * s for i, s in zip(access.indices, given, strict=True))
        return moved // size if moved % size == 0 else moved

    def _vector_axis(self) -> str:
        stage = self.stage
        best, best_cost = "", math.inf
        for axis in stage.all_axes:
            bound = axis in stage.bound
            length = self.extents[axis]
            if length < 2 or (not bound and self._stride(stage.out, axis) != 1):
                continue
            reads = stage.reads
            strided = [a for a in reads if self._stride(a, axis) not in (0, 1)]
            if any(a.type.name not in ("f32", "i32", "f64") for a in strided):
                continue
            vectors = -(-length // self.lanes)
            used = length / (vectors * self.lanes)
            gathers = 4 * len(strided)
            if len(strided) == 1 and not bound and self._is_worth_packing(strided[0], axis):
                gathers = 0
            cost = (1 + gathers + (0.6 if bound else 0)) / used
            if cost < best_cost:
                best, best_cost = axis, cost
        return best

    # Shapes of stages.

    def _elementwise(self) -> list[Step]:
        """Four vectors at a time, or fewer where the work on each is long."""
        name, length = self.stage.name, self.extents[self.vector]
        work = sum(1 for e in walk(self.stage.body) if children(e))
        functions = sum(
            1
            for e in walk(self.stage.body)
            if isinstance(e, Op) and e.name in ("exp", "log", "tanh", "erf")
        )
        block = self.lanes * (1 if functions or work > 12 else 4)
        others = [a for a in self.stage.axes if a != self.vector]
        found = [step("reorder", name, *others, self.vector)]
        if length > block:
            found.append(step("split", name, self.vector, block))
        found.append(step("vectorise", name, self.vector))
        return found

    def _across(self) -> list[Step]:
        """Reduction in lanes: several vectors of a row, several rows that share operands."""
        stage, name = self.stage, self.stage.name
        length = self.extents[self.vector]
        rows_axis = self._reused_axis()
        rows = 1
        if rows_axis:
            rows = min(4, self.extents[rows_axis])
        vectors = min(-(-length // self.lanes), max(1, _LATENCY // rows))
        if self._is_heavy():
            vectors = min(vectors, 2)
        block = vectors * self.lanes
        found: list[Step] = []
        outer = list(stage.axes)
        inner = [a for a in stage.bound if a != self.vector]
        last: list[str] = []
        if rows_axis and rows > 1 and self.extents[rows_axis] > rows:
            found.append(step("split", name, rows_axis, rows))
            outer[outer.index(rows_axis)] = f"{rows_axis}/{rows}"
        elif rows_axis and rows > 1:
            outer.remove(rows_axis)
        blocked = length > block
        if blocked:
            found.append(step("split", name, self.vector, block))
            inner.append(f"{self.vector}/{block}")
        if rows_axis and rows > 1:
            last.append(rows_axis)
        found.append(step("reorder", name, *outer, *inner, *last, self.vector))
        if last:
            found.append(step("unroll", name, rows_axis))
        found.append(step("vectorise", name, self.vector))
        return found

    def _is_heavy(self) -> bool:
        return any(
            isinstance(e, Op) and e.name in ("exp", "log", "tanh", "erf")
            for e in walk(self.stage.body)
        )

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

    def _axes(self, access: Access) -> tuple[str, ...]:
        return tuple(name for index in access.indices for name in index.axes)

    def _tiled(self) -> list[Step]:
        """A tile of rows and vectors in registers."""
        name = self.stage.name
        rows_axis = self._reused_axis()
        if not rows_axis and self._is_streamed():
            return self._by_rows()
        rows, vectors = self._tile_sizes(rows_axis)
        sizes = {rows_axis: rows} if rows_axis else {}
        width = vectors * self.lanes
        words = [f"{a}={n}" for a, n in sizes.items()] + [f"{self.vector}={width}"]
        found = [step("tile", name, *words, "vector", self.vector)]
        self._blocking(found, rows_axis, rows, width)
        return found

    def _is_streamed(self) -> bool:
        """Whether an operand of many long rows, used once, is summed up row by row."""
        stage = self.stage
        if len(stage.bound) != 1 or len(stage.axes) != 1 or stage.out.type != stage.body.type:
            return False
        depth, across = self.extents[stage.bound[0]], self.extents[self.vector]
        size = stage.body.type.size
        fits = across * size <= self.target.l2 // 8
        return fits and across * size >= 2048 and depth >= 32 and depth * across * size > 256 << 10

    def _by_rows(self) -> list[Step]:
        """Eight rows at a time over all columns: memory is read in order, sums stay cached."""
        name, k, n = self.stage.name, self.stage.bound[0], self.vector
        width = 4 * self.lanes
        return [
            step("split", name, k, 8),
            step("split", name, n, width),
            step("reorder", name, f"{k}/8", f"{n}/{width}", k, n),
            step("unroll", name, k),
            step("vectorise", name, n),
        ]

    def _tile_sizes(self, rows_axis: str) -> tuple[int, int]:
        """Rows and vectors of the register tile, by cycles that the whole stage would take."""
        most_rows = self.extents[rows_axis] if rows_axis else 1
        length = self.extents[self.vector]
        most_vectors = -(-length // self.lanes)
        spare = 2 if not self._is_heavy() else 12
        # Rows that lie a large power of two apart fall into few sets of the cache.
        fetch = 1.0 if self._collides() else 0.15
        best, best_cost = (1, 1), math.inf
        for vectors in range(1, min(8, most_vectors) + 1):
            for rows in range(1, min(16, most_rows) + 1):
                if rows * vectors + vectors + spare > self.target.registers:
                    continue
                cost = 0.0
                for r, count_r in _parts(most_rows, rows):
                    for v, count_v in _parts(most_vectors, vectors):
                        work = max(r * v, r + v, _LATENCY)
                        cost += count_r * count_v * (work / 2 + 0.15 * r + fetch * v)
                if cost < best_cost * 0.999:
                    best, best_cost = (rows, vectors), cost
        return best

    def _collides(self) -> bool:
        """Whether an operand is walked down columns whose rows share cache sets, and not packed."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        rows = math.prod(self.extents[a] for a in self.stage.axes if a != self.vector)
        return rows <= 64 and any(
            self._stride(a, axis) * a.type.size % 8192 == 0 and self._stride(a, axis)
            for a in reads
            for axis in self.stage.bound
        )

    def _walked(self) -> int:
        """Bytes of the operands that lie along the vector axis."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        return sum(math.prod(a.tensor.shape) * a.type.size for a in reads)

    def _blocking(self, found: list[Step], rows_axis: str, rows: int, width: int) -> None:
        """Unrolling of the innermost reduction; for products, packing and cache blocks."""
        stage, name = self.stage, self.stage.name
        inner = stage.bound[-1]
        # A large tile hides the loop behind its own work; more unrolling only costs compile time.
        unrolled = 2 if rows * width >= 16 * self.lanes else 4
        if self.extents[inner] > unrolled:
            found.append(step("split", name, inner, unrolled))
            found.append(step("unroll", name, inner))
        elif len(stage.bound) > 1:
            found.append(step("unroll", name, inner))
        product = self._product(self.vector)
        if product is None or not rows_axis or len(stage.bound) != 1:
            self._window_blocking(found, rows_axis, rows, width)
            return
        a, b = product
        k, n, m = inner, self.vector, rows_axis
        size = b.type.size
        depth, across, many = self.extents[k], self.extents[n], self.extents[m]
        lies_badly = self._stride(b, n) != 1
        if not lies_badly and many <= 48 and depth >= 256 and depth * across * size > 256 << 10:
            # Few rows: a block of the other operand's rows is read in order, then the next one.
            found.append(step("split", name, k, 64))
            outer_n = [f"{n}/{width}"] if across > width else []
            outer_m = [f"{m}/{rows}"] if many > rows else []
            batch = [x for x in stage.axes if x not in (m, n)]
            found.append(step("reorder", name, *batch, f"{k}/64", *outer_n, *outer_m))
            return
        small = many < max(96, 4 * rows) or depth < 8 or depth * across * size <= 192 << 10
        if (small or across <= width) and not lies_badly:
            # A result that no cache holds is written row by row.
            large = many * across * stage.out.type.size > self.target.l2
            if many > rows and across > width and not large:
                found.append(step("reorder", name, f"{n}/{width}", f"{m}/{rows}"))
            return
        batch = [x for x in stage.axes if x not in (m, n)]
        outer_n = [f"{n}/{width}"] if across > width else []
        outer_m = [f"{m}/{rows}"] if many > rows else []
        own = [x for x in batch if x in self._axes(b)]
        blocks = (*own, f"{n}/{width}", k, n)
        # A panel of the packed operand is to stay in the second cache while all rows pass it.
        if depth * width * size <= self.target.l2 // 2 or across <= width or batch:
            found.append(step("reorder", name, *batch, *outer_n, *outer_m))
            at = ["at", batch[-1]] if own else []
            found.append(step("pack", name, b.tensor.name, *at, "as", *blocks))
            found.append(step("prefetch", name, stage.out.tensor.name))
            return
        kc = _even(depth, self.target.l2 // 4 // (width * size), 4)
        mc = _even(many, max(rows, self.target.l2 // 4 // (kc * size)), rows)
        order = []
        if kc < depth:
            found.append(step("split", name, k, kc))
            order.append(f"{k}/{kc}")
        if mc < many:
            found.append(step("split", name, m, mc))
            order.append(f"{m}/{mc}")
        found.append(step("reorder", name, *order, *outer_n, *outer_m))
        at = ["at", f"{k}/{kc}"] if kc < depth else []
        found.append(step("pack", name, b.tensor.name, *at, "as", *blocks))
        if mc < many:
            at = ["at", f"{m}/{mc}"]
            found.append(step("pack", name, a.tensor.name, *at, "as", f"{m}/{rows}", m, k))
        found.append(step("prefetch", name, stage.out.tensor.name))

    def _window_blocking(self, found: list[Step], rows_axis: str, rows: int, width: int) -> None:
        """Convolutions: strided windows are spread out, large weights stay while all rows pass."""
        stage, name, n = self.stage, self.stage.name, self.vector
        if not rows_axis:
            return
        outer_n = [f"{n}/{width}"] if self.extents[n] > width else []
        outer_m = [f"{rows_axis}/{rows}"] if self.extents[rows_axis] > rows else []
        others = [x for x in stage.axes if x not in (n, rows_axis)]
        strided = [a for a in stage.reads if self._stride(a, n) not in (0, 1)]
        if len(strided) == 1 and self._is_worth_packing(strided[0], n):
            own = dict.fromkeys(x for x in self._axes(strided[0]) if x != n)
            shared = [x for x in others if x in own]
            found.append(step("reorder", name, *others, *outer_n, *outer_m))
            at = ["at", others[-1]] if shared and others[-1] in own else []
            order = [*shared, *(x for x in own if x not in shared), n]
            found.append(step("pack", name, strided[0].tensor.name, *at, "as", *order))
            return
        if outer_n and self._walked() > self.target.l2 // 4:
            found.append(step("reorder", name, *outer_n, *self._outer(rows_axis, rows)))

    def _outer(self, rows_axis: str, rows: int) -> list[str]:
        """Loops outside the tile but for those over vectors, in the order of the axes."""
        names = []
        for axis in self.stage.axes:
            if axis == rows_axis and self.extents[axis] > rows:
                names.append(f"{axis}/{rows}")
            elif axis not in (rows_axis, self.vector):
                names.append(axis)
        return names

    def _is_worth_packing(self, access: Access, axis: str) -> bool:
        """Whether a product's operand, strided along the axis, is used often once it is packed."""
        body = self.stage.body
        if not isinstance(body, Op) or body.name != "mul" or access not in body.arguments:
            return False
        if not all(isinstance(a, Access) for a in body.arguments):
            return False
        rows = [a for a in self.stage.axes if a not in self._axes(access)]
        return math.prod(self.extents[a] for a in rows) >= 24 and self.extents[axis] >= 8

    def _product(self, vector: str) -> tuple[Access, Access] | None:
        """The operands of a sum of products: the one walked by rows, the one by vectors."""
        body = self.stage.body
        if not isinstance(body, Op) or len(body.arguments) != 2:
            return None
        pair = [a for a in body.arguments if isinstance(a, Access)]
        if len(pair) != 2 or any(
            len(i.terms) != 1 or i.terms[0][1] != 1 or i.constant for a in pair for i in a.indices
        ):
            return None
        if any(len(set(self._axes(a))) != len(a.indices) for a in pair):
            return None
        vectors = [a for a in pair if vector in self._axes(a)]
        rows = [a for a in pair if vector not in self._axes(a)]
        if len(vectors) != 1 or len(rows) != 1 or vectors[0].tensor == rows[0].tensor:
            return None
        return rows[0], vectors[0]


def _parts(total: int, size: int) -> list[tuple[int, int]]:
    """Sizes with how often they occur when `total` is walked in steps of `size`."""
    full, rest = divmod(total, size)
    return [(s, c) for s, c in ((size, full), (rest, 1)) if s and c]


def _even(total: int, most: int, multiple: int) -> int:
    """A block of at most about `most`, such that the blocks are nearly equal."""
    count = max(1, -(-total // most))
    size = -(-total // count)
    return -(-size // multiple) * multiple
