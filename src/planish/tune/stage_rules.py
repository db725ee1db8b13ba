"""One stage's schedule as a few choices: what they may be, and what rules choose by themselves.

The stage's vector axis is the one along which most of what it touches is contiguous. Then a tile
of results is kept in registers, as large as a small model of loads and multiply-adds says is
best. Operands that are walked often and lie badly are packed. `choices` is what the rules say,
`domain` what a search may say instead, and `steps` makes schedule steps of either.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.codegen.layout import row_major
from planish.codegen.native import has_dot4
from planish.measure.machine import Processor
from planish.tensor.expr import Access, Cast, Expr, Op, children, walk
from planish.tensor.program import Stage
from planish.tensor.schedule import Step, step

# Multiply-adds wait four cycles for each other; two begin in each.
_LATENCY = 8

# Ways of the first cache, and bytes of one: lines so far apart share a set.
_WAYS, _WAY = 8, 4096

# Operations that take tens of instructions.
HEAVY = ("exp", "log", "tanh", "erf")

Choices = Mapping[str, int]

_DOMAINS: dict[str, dict[str, tuple[int, ...]]] = {
    "elementwise": {"vectors": (1, 2, 4, 8)},
    "across": {"rows": (1, 2, 3, 4, 6, 8), "vectors": (1, 2, 4, 8)},
    "streamed": {"depth": (4, 8, 16), "vectors": (2, 4, 8)},
    "narrow": {"rows": (2, 3, 4, 6, 8)},
    "tiled": {
        "rows": tuple(range(1, 17)), "vectors": tuple(range(1, 9)), "unroll": (1, 2, 4, 8),
        "pack": (0, 1, 2), "depth": (0, 32, 64, 128, 256, 512), "height": (0, 24, 48, 96, 192, 384),
        "outer": (0, 1), "prefetch": (0, 1), "second": (1, 2, 3, 4),
    },
}  # fmt: skip


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


class StageRules:
    """One stage on one machine.

    strides  bytes by tensor name, where an argument is not contiguous
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

    def domain(self) -> Mapping[str, tuple[int, ...]]:
        """The values that each choice may take."""
        return _DOMAINS.get(self.kind, {})

    def choices(self) -> dict[str, int]:
        """What the rules choose."""
        if self.kind == "elementwise":
            work = sum(1 for e in walk(self.stage.body) if children(e))
            return {"vectors": 1 if self._is_heavy() or work > 12 else 4}
        if self.kind == "across":
            rows = min(4, self.extents[self.rows_axis]) if self.rows_axis else 1
            vectors = min(self._vectors(), max(1, _LATENCY // rows))
            return {"rows": rows, "vectors": min(vectors, 2) if self._is_heavy() else vectors}
        if self.kind == "streamed":
            return {"depth": 8, "vectors": 4}
        if self.kind == "narrow":
            columns = self.extents[self.stage.axes[1]]
            return {"rows": max(1, min(4, (self.target.registers - 3) // columns - 1))}
        return self._tiled_choices() if self.kind == "tiled" else {}

    def fits(self, given: Choices) -> bool:
        """Whether the results that the choices keep at once leave registers for operands."""
        values = {**self.choices(), **given}
        if self.kind != "tiled":
            return True
        rows = min(values["rows"], self.extents[self.rows_axis]) if self.rows_axis else 1
        vectors = min(values["vectors"], self._vectors())
        second = values["second"] if self._second_axis() else 1
        return (rows + 1) * second * vectors + 1 <= self.target.registers

    def steps(self, given: Choices | None = None) -> list[Step]:
        """The stage's steps, for given choices (the rules' where one is not given)."""
        values = {**self.choices(), **(given or {})}
        if self.kind == "elementwise":
            return self._elementwise(values["vectors"])
        if self.kind == "across":
            return self._across(values["rows"], values["vectors"])
        if self.kind == "streamed":
            return self._streamed(values["depth"], values["vectors"])
        if self.kind == "narrow":
            return self._few_columns(values["rows"])
        return self._tiled(values) if self.kind == "tiled" else []

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

    def _stride(self, access: Access, axis: str) -> int:
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
            if length < 2 or (not bound and self._stride(stage.out, axis) != 1):
                continue
            strided = [a for a in stage.reads if self._stride(a, axis) not in (0, 1)]
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
                return (a, b) if plain and whole and self._stride(a, k) == 1 else None
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

    def _is_heavy(self) -> bool:
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
            if axis in (m, n) or self.extents[axis] < 3 or self._product() is not None:
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

    def _collides(self) -> bool:
        """Whether an operand is walked down columns whose rows share cache sets, and not packed."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        rows = math.prod(self.extents[a] for a in self.stage.axes if a != self.vector)
        return rows <= 64 and any(
            self._stride(a, axis) * a.type.size % 1024 == 0 and self._stride(a, axis)
            for a in reads
            for axis in self.stage.bound
        )

    def _rows_collide(self) -> bool:
        """Whether an operand's rows begin in one set of the first cache, and are not packed."""
        axis = self.rows_axis
        reads = [a for a in self.stage.reads if axis and axis in self._axes(a)]
        return any(self._stride(a, axis) * a.type.size % _WAY == 0 for a in reads)

    def _walked(self) -> int:
        """Bytes of the operands that lie along the vector axis."""
        reads = [a for a in self.stage.reads if self.vector in self._axes(a)]
        return sum(math.prod(a.tensor.shape) * a.type.size for a in reads)

    def _product(self) -> tuple[Access, Access] | None:
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
        if "i8" not in types or not types <= {"i8", "u8"} or self._stride(product[0], k) != 1:
            return None
        worth = self.extents[self.rows_axis] >= 8 and self.extents[k] >= 8
        return product if worth and self._stride(product[1], self.vector) == 1 else None

    def _weights(self) -> Access | None:
        """A convolution's weights: read along vectors, the same for all rows, by plain axes."""
        outputs = {a for a in self.stage.axes if a != self.vector}
        found = [a for a in self.stage.reads if self.vector in self._axes(a)]
        if len(found) != 1 or outputs & set(self._axes(found[0])):
            return None
        plain = all(len(i.terms) == 1 and i.terms[0][1] == 1 for i in found[0].indices)
        return found[0] if plain and self._stride(found[0], self.vector) == 1 else None

    def _strided_window(self) -> Access | None:
        """The one operand that lies badly along the vector axis and is worth spreading out."""
        strided = [a for a in self.stage.reads if self._stride(a, self.vector) not in (0, 1)]
        if len(strided) == 1 and self._is_worth_packing(strided[0], self.vector):
            return strided[0]
        return None

    # What the rules choose for a tile of results.

    def _tiled_choices(self) -> dict[str, int]:
        rows, vectors = self._tile_sizes()
        # A large tile hides the loop behind its own work; more unrolling only costs compile time.
        unroll = 2 if rows * vectors >= 16 else 4
        found = {"rows": rows, "vectors": vectors, "unroll": unroll, "pack": 0, "depth": 0,
                 "height": 0, "outer": 0, "prefetch": 0, "second": 1}  # fmt: skip
        if not self.rows_axis:
            return found
        width = vectors * self.lanes
        if self._quads() is not None:
            return {**found, "unroll": 4, "pack": 1, "outer": 1}
        product = self._product()
        if product is None:
            if self._strided_window() is not None:
                return {**found, "pack": 1, "outer": 1}
            outer = self.extents[self.vector] > width and self._walked() > self.target.l2 // 4
            reused = math.prod(self.extents[a] for a in self.stage.axes if a != self.vector)
            pack = outer and reused >= 24 * rows and self._weights() is not None
            if vectors == 1 and not outer and self._second_axis():
                # With one vector a row, elements for all lanes would be half of all loads.
                rows, second = (8, 3) if self.target.registers >= 28 else (3, 3)
                return {**found, "rows": rows, "second": second, "unroll": 1}
            return {**found, "outer": int(outer), "pack": int(pack)}
        return {**found, **self._product_choices(product[1], rows, width)}

    def _product_choices(self, b: Access, rows: int, width: int) -> dict[str, int]:
        """Packing and cache blocks of a product, `b` being walked by vectors."""
        stage = self.stage
        depth, across = self.extents[stage.bound[0]], self.extents[self.vector]
        many, size = self.extents[self.rows_axis], b.type.size
        badly = self._stride(b, self.vector) != 1
        if not badly and many <= 48 and depth >= 256 and depth * across * size > 256 << 10:
            # Few rows: a block of the other operand's rows is read in order, then the next one.
            return {"depth": 64, "outer": 1}
        near = depth * width * size <= self.target.l1 and across > width and len(stage.axes) == 2
        if self._collides() and near and not badly and many >= 4 * rows:
            # What passes of rows share is copied to where it does not compete for cache sets.
            return {"pack": 2, "outer": 1, "prefetch": 1}
        small = many < max(96, 4 * rows) or depth < 8 or depth * across * size <= 192 << 10
        if (small or across <= width) and not badly:
            # A result that no cache holds is written row by row.
            large = many * across * stage.out.type.size > self.target.l2
            return {"outer": int(many > rows and across > width and not large)}
        batched = len(stage.axes) > 2
        # A panel of the packed operand is to stay in the second cache while all rows pass it.
        if depth * width * size <= self.target.l2 // 2 or across <= width or batched:
            return {"pack": 1, "outer": 1, "prefetch": 1}
        kc = _even(depth, self.target.l2 // 4 // (width * size), 4)
        mc = _even(many, max(rows, self.target.l2 // 4 // (kc * size)), rows)
        return {"pack": 1, "outer": 1, "prefetch": 1, "depth": kc if kc < depth else 0,
                "height": mc if mc < many else 0}  # fmt: skip

    def _tile_sizes(self) -> tuple[int, int]:
        """Rows and vectors of the register tile, by cycles that the whole stage would take."""
        most_rows = self.extents[self.rows_axis] if self.rows_axis else 1
        most_vectors = self._vectors()
        spare = 12 if self._is_heavy() else 2
        spare = 8 if self._quads() is not None else spare
        # Rows that lie a large power of two apart fall into few sets of the cache.
        fetch = 1.0 if self._collides() else 0.15
        if self._rows_collide():
            most_rows = min(most_rows, _WAYS)
        return _best_tile(most_rows, most_vectors, self.target.registers - spare, fetch)

    # Steps.

    def _elementwise(self, vectors: int) -> list[Step]:
        name, block = self.stage.name, self.lanes * vectors
        others = [a for a in self.stage.axes if a != self.vector]
        found = [step("reorder", name, *others, self.vector)]
        if self.extents[self.vector] > block:
            found.append(step("split", name, self.vector, block))
        return [*found, step("vectorise", name, self.vector)]

    def _across(self, rows: int, vectors: int) -> list[Step]:
        """A reduction in lanes: several vectors of a row, several rows that share operands."""
        stage, name, axis = self.stage, self.stage.name, self.rows_axis
        block = vectors * self.lanes
        rows = min(rows, self.extents[axis]) if axis else 1
        found: list[Step] = []
        outer = list(stage.axes)
        inner = [a for a in stage.bound if a != self.vector]
        if rows > 1 and self.extents[axis] > rows:
            found.append(step("split", name, axis, rows))
            outer[outer.index(axis)] = f"{axis}/{rows}"
        elif rows > 1:
            outer.remove(axis)
        if self.extents[self.vector] > block:
            found.append(step("split", name, self.vector, block))
            inner.append(f"{self.vector}/{block}")
        last = [axis] if rows > 1 else []
        found.append(step("reorder", name, *outer, *inner, *last, self.vector))
        found += [step("unroll", name, axis)] if last else []
        return [*found, step("vectorise", name, self.vector)]

    def _streamed(self, depth: int, vectors: int) -> list[Step]:
        """Some rows at a time over all columns: memory is read in order, sums stay cached."""
        name, k, n = self.stage.name, self.stage.bound[0], self.vector
        width = vectors * self.lanes
        found = [step("split", name, k, depth), step("split", name, n, width)]
        found.append(step("reorder", name, f"{k}/{depth}", f"{n}/{width}", k, n))
        return [*found, step("unroll", name, k), step("vectorise", name, n)]

    def _few_columns(self, rows: int) -> list[Step]:
        """Sums in lanes of several rows and all columns at once: rows are read but once."""
        assert self.narrow is not None
        name, k, b = self.stage.name, self.vector, self.narrow[1]
        m, n = self.stage.axes
        found = []
        if self._stride(b, k) != 1:
            found.append(step("pack", name, b.tensor.name, "as", n, k))
        found.append(step("split", name, k, self.lanes))
        found += [step("split", name, m, rows)] if rows > 1 else []
        outer, inner = ([f"{m}/{rows}"], [m]) if rows > 1 else ([m], [])
        found.append(step("reorder", name, *outer, f"{k}/{self.lanes}", *inner, n, k))
        unrolled = [step("unroll", name, axis) for axis in (*inner, n)]
        return [*found, *unrolled, step("vectorise", name, k)]

    def _tiled(self, values: Choices) -> list[Step]:
        """A tile of rows and vectors in registers, in blocks that caches hold."""
        stage, name, n, m = self.stage, self.stage.name, self.vector, self.rows_axis
        rows = min(values["rows"], self.extents[m]) if m else 1
        width = min(values["vectors"], self._vectors()) * self.lanes
        sizes = [f"{m}={rows}"] if rows > 1 else []
        if values["second"] > 1 and not (values["outer"] or values["pack"]):
            sizes += [f"{axis}={values['second']}" for axis in [self._second_axis()] if axis]
        found = [step("tile", name, *sizes, f"{n}={width}", "vector", n)]
        found += self._unrolling(values["unroll"])
        product = self._product() if m else None
        blocks, inner = [], stage.bound[-1]
        kc, mc = values["depth"], values["height"]
        if product is not None and values["unroll"] < kc < self.extents[inner]:
            found.append(step("split", name, inner, kc))
            blocks.append(f"{inner}/{kc}")
        if product is not None and rows < mc < self.extents[m]:
            mc = mc // rows * rows
            found.append(step("split", name, m, mc))
            blocks.append(f"{m}/{mc}")
        if m and (values["outer"] or blocks):
            found.append(self._ordered(values["outer"], blocks, rows, width))
        if m and values["pack"]:
            found += self._packing(product, blocks, rows, width, near=values["pack"] == 2)
        if values["prefetch"]:
            found.append(step("prefetch", name, stage.out.tensor.name))
        return found

    def _unrolling(self, unroll: int) -> list[Step]:
        name, inner = self.stage.name, self.stage.bound[-1]
        if unroll < 2:
            return []
        if self.extents[inner] > unroll:
            return [step("split", name, inner, unroll), step("unroll", name, inner)]
        return [step("unroll", name, inner)] if len(self.stage.bound) > 1 else []

    def _ordered(self, outer: int, blocks: list[str], rows: int, width: int) -> Step:
        """Batch axes, cache blocks, then tiles: vectors outside rows, or the other way round."""
        n, m = self.vector, self.rows_axis
        tiles = [f"{m}/{rows}"] if self.extents[m] > rows else []
        vectors = [f"{n}/{width}"] if self.extents[n] > width else []
        batch = [x for x in self.stage.axes if x not in (m, n)]
        if self._product() is None and self._strided_window() is None:
            # Weights of a convolution stay while all rows pass them.
            tile = f"{m}/{rows}" if rows > 1 else m
            names = [tile if x == m else x for x in self.stage.axes if x != n]
            kept = [x for x in names if x != tile or tiles]
            return step("reorder", self.stage.name, *(vectors + kept if outer else kept + vectors))
        order = vectors + tiles if outer else tiles + vectors
        return step("reorder", self.stage.name, *batch, *blocks, *order)

    def _packing(
        self,
        product: tuple[Access, Access] | None,
        blocks: list[str],
        rows: int,
        width: int,
        *,
        near: bool,
    ) -> list[Step]:
        """Copies of operands; `near` makes that of each block of columns just before its use."""
        stage, name, n, m = self.stage, self.stage.name, self.vector, self.rows_axis
        batch = [x for x in stage.axes if x not in (m, n)]
        if product is None:
            window = self._strided_window()
            weights = self._weights()
            if window is None and weights is not None:
                inner = [x for x in stage.bound if x in self._axes(weights)]
                order = [f"{n}/{width}", *inner, n]
                return [step("pack", name, weights.tensor.name, "as", *order)]
            if window is None:
                return []
            own = [x for x in dict.fromkeys(self._axes(window)) if x != n]
            shared = [x for x in batch if x in own]
            at = ["at", batch[-1]] if shared and batch[-1] in own else []
            order = [*shared, *(x for x in own if x not in shared), n]
            return [step("pack", name, window.tensor.name, *at, "as", *order)]
        a, b = product
        k = stage.bound[0]
        quads = [f"{k}/4"] if self._quads() is not None and self.extents[k] > 4 else []
        own = [x for x in batch if x in self._axes(b)]
        deep = next((x for x in blocks if x.startswith(f"{k}/")), "")
        high = next((x for x in blocks if x.startswith(f"{m}/")), "")
        place = deep or (batch[-1] if own else "")
        at = ["at", place] if place else []
        order = [*quads, n, k] if quads else [k, n]
        if near and not blocks and not batch and self.extents[n] > width:
            return [step("pack", name, b.tensor.name, "at", f"{n}/{width}", "as", *order)]
        found = [step("pack", name, b.tensor.name, *at, "as", *own, f"{n}/{width}", *order)]
        if high and not batch:
            tiles = [f"{m}/{rows}"] if rows > 1 else []
            found.append(step("pack", name, a.tensor.name, "at", high, "as", *tiles, m, k))
        return found


def _uncast(expr: Expr) -> Expr:
    """What a conversion of bytes to i32 converts; anything else as it is."""
    if isinstance(expr, Cast) and expr.type.name == "i32" and expr.argument.type.size == 1:
        return expr.argument
    return expr


@functools.lru_cache(maxsize=1 << 12)
def _best_tile(most_rows: int, most_vectors: int, registers: int, fetch: float) -> tuple[int, int]:
    """Rows and vectors of the tile that takes the fewest cycles, `fetch` for loading a vector."""
    best, best_cost = (1, 1), math.inf
    for vectors in range(1, min(8, most_vectors) + 1):
        for rows in range(1, min(16, most_rows) + 1):
            if rows * vectors + vectors > registers:
                continue
            cost = 0.0
            for r, count_r in _parts(most_rows, rows):
                for v, count_v in _parts(most_vectors, vectors):
                    work = max(r * v, r + v, _LATENCY)
                    cost += count_r * count_v * (work / 2 + 0.15 * r + fetch * v)
            if cost < best_cost * 0.999:
                best, best_cost = (rows, vectors), cost
    return best


def _parts(total: int, size: int) -> list[tuple[int, int]]:
    """Sizes with how often they occur when `total` is walked in steps of `size`."""
    full, rest = divmod(total, size)
    return [(s, c) for s, c in ((size, full), (rest, 1)) if s and c]


def _even(total: int, most: int, multiple: int) -> int:
    """A block of at most about `most`, such that the blocks are nearly equal."""
    count = max(1, -(-total // most))
    size = -(-total // count)
    return -(-size // multiple) * multiple
