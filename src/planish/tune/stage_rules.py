"""One stage's schedule as a few choices: what they may be, and what rules choose by themselves.

The stage's vector axis is the one along which most of what it touches is contiguous. Then a tile
of results is kept in registers, as large as a small model of loads and multiply-adds says is
best. Operands that are walked often and lie badly are packed. `choices` is what the rules say,
`domain` what a search may say instead, and `steps` makes schedule steps of either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from planish.tensor.expr import Access, walk
from planish.tensor.schedule import Step, step
from planish.tune.stage_shape import SMALL, WAYS, StageShape
from planish.tune.tile_model import LATENCY, best_tile, even_block

Choices = Mapping[str, int]

_DOMAINS: dict[str, dict[str, tuple[int, ...]]] = {
    "elementwise": {"vectors": (1, 2, 4, 8)},
    "across": {"rows": (1, 2, 3, 4, 6, 8), "vectors": (1, 2, 4, 8)},
    "streamed": {"depth": (4, 8, 16), "vectors": (2, 4, 8)},
    "narrow": {"rows": (1, 2, 3, 4, 6, 8)},
    "tiled": {
        "rows": tuple(range(1, 17)), "vectors": tuple(range(1, 9)), "unroll": (1, 2, 4, 8),
        "pack": (0, 1, 2), "depth": (0, 32, 64, 128, 256, 512), "height": (0, 24, 48, 96, 192, 384),
        "outer": (0, 1), "prefetch": (0, 1), "second": (1, 2, 3, 4),
    },
}  # fmt: skip


class StageRules(StageShape):
    """One stage on one machine.

    strides  bytes by tensor name, where an argument is not contiguous
    """

    def domain(self) -> Mapping[str, tuple[int, ...]]:
        """The values that each choice may take."""
        return _DOMAINS.get(self.kind, {})

    def choices(self) -> dict[str, int]:
        """What the rules choose."""
        if self.kind == "elementwise":
            work = sum(1 for e in walk(self.stage.body) if e.parts)
            return {"vectors": 1 if self.is_heavy() or work > 12 else 4}
        if self.kind == "across":
            rows = min(4, self.extents[self.rows_axis]) if self.rows_axis else 1
            vectors = min(self._vectors(), max(1, LATENCY // rows))
            return {"rows": rows, "vectors": min(vectors, 2) if self.is_heavy() else vectors}
        if self.kind == "streamed":
            return {"depth": 8, "vectors": 4}
        if self.kind == "narrow":
            columns = self.extents[self.stage.axes[1]]
            return {"rows": max(1, min(4, (self.target.registers - 3) // columns - 1))}
        return self._tiled_choices() if self.kind == "tiled" else {}

    def fits(self, given: Choices) -> bool:
        """Whether the results that the choices keep at once leave registers for operands."""
        values = {**self.choices(), **given}
        if self.kind == "narrow":
            columns = self.extents[self.stage.axes[1]]
            return (values["rows"] + 1) * columns + 3 <= self.target.registers
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
        product = self.product()
        if product is None:
            if self.strided_window() is not None:
                return {**found, "pack": 1, "outer": 1}
            outer = self.extents[self.vector] > width and self._walked() > self.target.l2 // 4
            reused = math.prod(self.extents[a] for a in self.stage.axes if a != self.vector)
            pack = outer and reused >= 24 * rows and self.weights() is not None
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
        badly = self.stride(b, self.vector) != 1
        if not badly and many <= 48 and depth >= 256 and depth * across * size > 256 << 10:
            # Few rows: a block of the other operand's rows is read in order, then the next one.
            return {"depth": 64, "outer": 1}
        near = depth * width * size <= self.target.l1 and across > width and len(stage.axes) == 2
        if self.collides() and near and not badly and many >= 4 * rows:
            # What passes of rows share is copied to where it does not compete for cache sets.
            return {"pack": 2, "outer": 1, "prefetch": 1}
        small = many < max(96, 4 * rows) or depth < 8 or depth * across * size <= SMALL
        if (small or across <= width) and not badly:
            # A result that no cache holds is written row by row.
            large = many * across * stage.out.type.size > self.target.l2
            return {"outer": int(many > rows and across > width and not large)}
        batched = len(stage.axes) > 2
        # A panel of the packed operand is to stay in the second cache while all rows pass it.
        if depth * width * size <= self.target.l2 // 2 or across <= width or batched:
            return {"pack": 1, "outer": 1, "prefetch": 1}
        kc = even_block(depth, self.target.l2 // 4 // (width * size), 4)
        mc = even_block(many, max(rows, self.target.l2 // 4 // (kc * size)), rows)
        return {"pack": 1, "outer": 1, "prefetch": 1, "depth": kc if kc < depth else 0,
                "height": mc if mc < many else 0}  # fmt: skip

    def _tile_sizes(self) -> tuple[int, int]:
        """Rows and vectors of the register tile, by cycles that the whole stage would take."""
        most_rows = self.extents[self.rows_axis] if self.rows_axis else 1
        most_vectors = self._vectors()
        spare = 12 if self.is_heavy() else 2
        spare = 8 if self._quads() is not None else spare
        # Rows that lie a large power of two apart fall into few sets of the cache; vectors that lie
        # across two lines are loaded twice.
        fetch = 1.0 if self.collides() or self._straddles() else 0.15
        if self._rows_collide():
            most_rows = min(most_rows, WAYS)
        return best_tile(most_rows, most_vectors, self.target.registers - spare, fetch)

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
        if self.stride(b, k) != 1:
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
        product = self.product() if m else None
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
        if self.product() is None and self.strided_window() is None:
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
            window = self.strided_window()
            weights = self.weights()
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
