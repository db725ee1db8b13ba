"""Blocks: what a kernel does to all its results at once, where its expression is simple enough.

Sums of products and the like, of an element for all lanes and one in lanes, become a `vir.Tile`
for every step of the innermost reduction, instead of hundreds of instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planish.codegen import vir
from planish.codegen.shape import AHEAD, Chunk, Offsets, Spot
from planish.codegen.values import Values
from planish.codegen.view import Operand
from planish.tensor.expr import Access, Expr, Op
from planish.tensor.types import Type

_INNER = ("mul", "add", "sub", "min", "max")


class Pair(NamedTuple):
    """The operands of a tile; `swapped`: the one in lanes stands first in the expression."""

    rows: Operand
    lanes: Operand
    swapped: bool


class Blocks(Values):
    """The part of a kernel's builder that knows when a whole tile is taken at once.

    type, computed  of what is summed up
    combine         the operation that joins two results
    across          whether lanes are summed up, too
    factors         of a sum of products of floats
    corrections     registers of what is taken away at the end (products of bytes)
    totals          registers of the results, by point and slot
    """

    type: Type
    computed: str
    combine: str
    across: bool
    factors: Sequence[Expr] | None
    corrections: list[int]
    totals: list[list[int]]

    def _chunks(self, axis: str) -> list[Chunk]:
        length = self.shape.lengths[axis]
        return [Chunk(at, min(self.lanes, length - at)) for at in range(0, length, self.lanes)]

    def _pair(self) -> Pair | None:
        """The two operands, where the whole tile can be taken at once."""
        stage, body, size = self.stage, self.stage.body, vir.SIZE[self.computed]
        if not stage.reduce or stage.modulo is not None or self.across:
            return None
        if not self.points:
            return None
        if not isinstance(body, Op) or body.name not in _INNER or not self.axis:
            return None
        partial = self.shape.lengths[self.axis] % self.lanes
        if self.lanes * size < 16 or (partial and self.shape.vector < 64):
            return None
        pair = []
        for factor in body.arguments:
            if not isinstance(factor, Access) or factor.type.name != self.computed:
                return None
            pair.append(self.view.operand(factor))
        for rows, lanes in (pair, pair[::-1]):
            if (
                self.axis not in rows.axes
                and lanes.axes.isdisjoint(self.kept)
                and lanes.moved(self.axis, 1) == size
                and not self.inner.isdisjoint(rows.axes)
                and not self.inner.isdisjoint(lanes.axes)
            ):
                return Pair(rows, lanes, rows is not pair[0])
        return None

    def _started(self, spots: list[list[Spot]], start: int | float) -> list[list[int]]:
        """The results' registers, filled with what the reduction starts from."""
        first, totals = self.math.count, []
        for row in spots:
            totals.append(list(range(self.math.count, self.math.count + len(row))))
            self.math.count += len(row)
        registers = tuple(range(first, self.math.count))
        if registers:
            self.math.emit("fill", self.computed, -1, imm=vir.Fill(start, registers))
        return totals

    def _tile(self, pair: Pair, offsets: Offsets) -> vir.Ins:
        """All points and slots, where the reductions have come to `offsets`."""
        rows, lanes, swapped = pair
        at = [o.start + sum(o.moved(axis, by) for axis, by in offsets) for o in (rows, lanes)]
        moved = tuple([at[0] + along for along in self._along(rows)])
        chunks = self._chunks(self.axis)
        places = tuple([(at[1] + lanes.moved(self.axis, c.offset), c.lanes) for c in chunks])
        assert isinstance(self.stage.body, Op)
        inner = "fma" if self.factors is not None else self.stage.body.name
        tile = vir.Tile(
            tuple(map(tuple, self.totals)), (rows.pointer, moved), (lanes.pointer, places), inner,
            self.combine, swapped, AHEAD if lanes.tensor in self.shape.prefetch else 0,
        )  # fmt: skip
        return vir.Ins("tile", self.computed, n=self.lanes, imm=tile)

    def _is_plainly_stored(self) -> bool:
        """Whether results go to memory as they are."""
        stage, shape, out = self.stage, self.shape, self.view.operands[0]
        return (
            bool(self.axis and self.points)
            and not self.across
            and shape.first
            and (stage.post is None or not shape.last)
            and stage.out.type == self.type
            and self.type.name == self.computed
            and self.lanes * out.size >= 16
            and (shape.vector == 64 or not shape.lengths[self.axis] % self.lanes)
            and not self.corrections
        )

    def _store_all(self, spots: list[list[Spot]]) -> None:
        out = self.view.operands[0]
        self._check_lanes(out)
        rows, chunks = self._along(out), [spot.chunk for spot in spots[0]]
        columns = [(out.start + out.moved(self.axis, c.offset), c.lanes) for c in chunks if c]
        places = tuple([(row + at, n) for row in rows for at, n in columns])
        totals = tuple([total for row in self.totals for total in row])
        self.math.emit("stores", out.computed, -1, totals, ptr=out.pointer, imm=vir.Stores(places))
