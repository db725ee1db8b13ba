"""Products of bytes, four at a time: operands and results that lie in fours."""

from __future__ import annotations

from typing import NamedTuple

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.blocks import Blocks
from planish.codegen.shape import Offsets, Spot
from planish.codegen.view import Operand
from planish.tensor.expr import Access, Cast, Op


class Quads(NamedTuple):
    """A sum of products of bytes that can be taken four at a time.

    axis    the one summed up
    rows    the operand of which four bytes are taken for all lanes
    lanes   the one that lies in fours, one four for each lane
    signed  whether both are
    """

    axis: str
    rows: Operand
    lanes: Operand
    signed: bool


class Dots(Blocks):
    """The part of a kernel's builder that knows bytes in fours.

    quads  the product that is taken so, if it is
    """

    quads: Quads | None

    def _store_quads(self, spots: list[list[Spot]]) -> None:
        """Bytes in fours, each four made in a register; those that are missing become zero."""
        out = self.view.operands[0]
        math, quads = self.math, self.shape.lengths[self._quad_axis(out)]
        if self.kept[-1:] != [self._quad_axis(out)] or quads > 4:
            raise UsageError(f"{self.stage.name}: bytes in fours are written four at a time")
        byte = math.constant(255, "i32")
        for begin in range(0, len(spots), quads):
            for column, first in enumerate(spots[begin]):
                joined = -1
                for at in range(quads):
                    spot = spots[begin + at][column]
                    value = math.op("and", "i32", self._root(self.stage.body, spot), byte)
                    value = math.op("shl", "i32", value, imm=8 * at) if at else value
                    joined = math.op("or", "i32", joined, value) if at else value
                assert first.chunk is not None
                math.emit(
                    "store", "i32", -1, (joined,), ptr=out.pointer,
                    disp=self._displacement(out, first), n=first.chunk.lanes, imm="i32",
                )  # fmt: skip

    def _quads(self) -> Quads | None:
        """Where the stage sums up products of bytes that lie in fours."""
        stage, body, bound = self.stage, self.stage.body, self.stage.bound
        if stage.reduce != "sum" or stage.modulo is not None or self.computed != "i32":
            return None
        loop = next((x for x in reversed(self.shape.loops) if x.axis in bound), None)
        if not isinstance(body, Op) or body.name != "mul" or loop is None or not self.axis:
            return None
        if loop.kind != "unroll" or loop.step != 1 or self.across or body.type.name != "i32":
            return None
        pair = []
        for factor in body.arguments:
            if not isinstance(factor, Cast) or not isinstance(factor.argument, Access):
                return None
            pair.append(self.view.operand(factor.argument))
        for rows, lanes in (pair, pair[::-1]):
            if (
                lanes.in_quads(loop.axis, self.axis)
                and self.axis not in rows.axes
                and rows.moved(loop.axis, 1) == rows.size == 1
                and {rows.stored, lanes.stored} in ({"i8"}, {"i8", "u8"})
            ):
                return Quads(loop.axis, rows, lanes, rows.stored == lanes.stored)
        return None

    def _dots(self, offsets: Offsets, spots: list[list[Spot]]) -> list[vir.Ins]:
        """All points, for four steps of the reduction at once.

        The instruction multiplies unsigned bytes by signed ones. Where both are signed, those of
        rows have 128 added, and so many times the sum of the others is taken away at the end:
        exact, since sums wrap around.
        """
        assert self.quads is not None
        _, rows, lanes, signed = self.quads
        items: list[vir.Ins] = []
        self.math.items, self.bases, self.offsets = items, {}, offsets
        math, loaded = self.math, {}
        flip = math.constant(-0x7F7F7F80, "i32") if signed else -1
        for row, totals in zip(spots, self.totals, strict=True):
            for spot, total in zip(row, totals, strict=True):
                pair = []
                for operand in (rows, lanes):
                    at, chunk = self._displacement(operand, spot), spot.chunk
                    assert chunk is not None
                    key = (id(operand), at, spot.slot if operand is lanes else -1)
                    if key not in loaded:
                        op, n = ("load", chunk.lanes) if operand is lanes else ("bcast", self.lanes)
                        found = math.load(op, "i32", operand.pointer, at, n, "i32")
                        if operand is lanes and signed:
                            more = self.corrections[spot.slot]
                            math.emit("dot4", "i32", more, (flip, found, more))
                        elif signed:
                            found = math.op("xor", "i32", found, flip)
                        loaded[key] = found
                    pair.append(loaded[key])
                if lanes.stored == "u8":
                    pair.reverse()
                math.emit("dot4", "i32", total, (*pair, total))
        return items
