"""Blocks: what a kernel does to all its results at once, without a look at each instruction."""

from __future__ import annotations

import functools

from planish.codegen import vir
from planish.codegen.vir import SIZE
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import Mem, vector, vector_at
from planish.codegen.x86.memory_ops import MemoryOps
from planish.codegen.x86.operands import FLOAT
from planish.codegen.x86.registers import DoesNotFit
from planish.codegen.x86.rows import ROWS

_INTEGER = {
    ("add", "i32"): "vpaddd", ("sub", "i32"): "vpsubd", ("mul", "i32"): "vpmulld",
    ("min", "i32"): "vpminsd", ("max", "i32"): "vpmaxsd",
    ("add", "i64"): "vpaddq", ("sub", "i64"): "vpsubq", ("mul", "i64"): "vpmullq",
    ("min", "i64"): "vpminsq", ("max", "i64"): "vpmaxsq",
}  # fmt: skip


class BlockOps(MemoryOps):
    """The instructions of `vir` that stand for many."""

    def _fill(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, vir.Fill)
        value, width = ins.imm.value, self.widths[ins.type]
        taken = [self.registers.take(register) for register in ins.imm.registers]
        if value == 0 and str(value) in ("0", "0.0"):
            self.code.parts += [vector("vpxor", width, r, r, r) for r in taken]
            return
        data = self.constant(value, ins.type)
        self.pooled("vmovups", width, taken[0], -1, data)
        self.code.parts += [vector("vmovaps", width, r, -1, taken[0]) for r in taken[1:]]

    def _touch(self, ins: vir.Ins) -> None:
        base = self.pointers[ins.ptr]
        assert isinstance(ins.imm, vir.Touch)
        for disp in ins.imm.places:
            self.code.parts.append(x86.prefetch_at(base, checked(disp)))

    def _stores(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, vir.Stores)
        base, width = self.pointers[ins.ptr], self.widths[ins.type]
        of, parts, lanes = self.registers.of, self.code.parts, self.lanes
        wide = "vmovupd_store" if SIZE[ins.type] == 8 else "vmovups_store"
        for value, (disp, n) in zip(ins.src, ins.imm.places, strict=True):
            checked(disp)
            if n == lanes:
                parts.append(vector_at("vmovups_store", width, of[value], -1, base, disp))
            elif n == 1:
                name = "vmovsd_store" if SIZE[ins.type] == 8 else "vmovss_store"
                parts.append(vector_at(name, 16, of[value], -1, base, disp))
            else:
                mask = self.masks[n]
                parts.append(vector_at(wide, width, of[value], -1, base, disp, -1, mask))

    def _tile(self, ins: vir.Ins) -> None:
        """Vectors first; then, row by row, one element for all lanes and all of its results."""
        tile, of = ins.imm, self.registers.of
        assert isinstance(tile, vir.Tile)
        parts, base = self.code.parts, self.pointers[tile.lanes[0]]
        direct = tile.inner == "fma" and len(tile.totals) == 1
        columns: list[int | tuple[int, int]] = []
        borrowed = []
        for disp, n in tile.lanes[1]:
            checked(disp)
            if tile.ahead:
                parts.append(x86.prefetch_at(base, checked(disp + tile.ahead)))
            if direct and n == self.lanes:
                columns.append((base, disp))  # read by the one instruction that needs it
                continue
            register = self.registers.borrow()
            borrowed.append(register)
            columns.append(register)
            parts.append(self._loaded(ins.type, register, base, disp, n))
        if self.apart and tile.inner in ("add", "sub") and ins.type in FLOAT:
            self._summed(ins, tile, columns)
            self.registers.free += borrowed
            return
        row = self.registers.borrow()
        borrowed.append(row)
        source, before = self.pointers[tile.rows[0]], None
        if tile.inner != "fma":
            borrowed.append(self.registers.borrow())
        for totals, disp in zip(tile.totals, tile.rows[1], strict=True):
            if disp != before:
                parts.append(self._spread(ins.type, row, source, disp))
                before = disp
            if tile.inner == "fma":
                self._products(ins.type, [of[t] for t in totals], row, columns)
            else:
                self._joined(tile, ins.type, [of[t] for t in totals], row, columns, borrowed[-1])
        self.registers.free += borrowed

    def _summed(self, ins: vir.Ins, tile: vir.Tile, columns: list[int | tuple[int, int]]) -> None:
        """The same where sums are products by one: `column * 1 + row` destroys its own copy of
        the column, and a copy costs no unit."""
        suffix, width, of = FLOAT[ins.type], self.widths[ins.type], self.registers.of
        kind = "fmadd" if tile.inner == "add" else "fmsub" if tile.swapped else "fnmadd"
        combine = joining(tile.combine, ins.type, self.wide)
        parts, source = self.code.parts, self.pointers[tile.rows[0]]
        one = self.constant(1, ins.type)
        held, between = self.registers.borrow(), self.registers.borrow()
        if self.wide:  # the ones; rows are read by the instructions themselves
            self.pooled("vmovups", width, held, -1, one)
        for totals, disp in zip(tile.totals, tile.rows[1], strict=True):
            row = Mem(source, checked(disp), broadcast=True)
            if not self.wide:
                parts.append(self._spread(ins.type, held, source, disp))
            for total, column in zip(totals, columns, strict=True):
                assert isinstance(column, int)
                parts.append(vector("vmovaps", width, between, -1, column))
                if self.wide:
                    parts.append(vector(f"v{kind}213{suffix}", width, between, held, row))
                else:
                    self.pooled(f"v{kind}132{suffix}", width, between, held, one)
                parts.append(vector(combine, width, of[total], of[total], between))
        self.registers.free += [held, between]

    def _spread(self, type: str, register: int, base: int, disp: int) -> bytes:
        """One element for all lanes."""
        width = self.widths[type]
        name = "vbroadcastss" if SIZE[type] == 4 else "vbroadcastsd"
        name = "vmovddup" if SIZE[type] == 8 and width == 16 else name
        return vector_at(name, width, register, -1, base, checked(disp))

    def _loaded(self, type: str, register: int, base: int, disp: int, n: int) -> bytes:
        width = self.widths[type]
        if n == self.lanes:
            return vector_at("vmovups", width, register, -1, base, disp)
        name = "vmovupd" if SIZE[type] == 8 else "vmovups"
        return vector_at(name, width, register, -1, base, disp, -1, self.masks[n], True)

    def _products(
        self, type: str, totals: list[int], row: int, columns: list[int | tuple[int, int]]
    ) -> None:
        name, width = f"vfmadd231{FLOAT[type]}", self.widths[type]
        self.code.parts += [
            vector(name, width, total, row, column)
            if isinstance(column, int)
            else vector_at(name, width, total, row, *column)
            for total, column in zip(totals, columns, strict=True)
        ]

    def _joined(
        self,
        tile: vir.Tile,
        type: str,
        totals: list[int],
        row: int,
        columns: list[int | tuple[int, int]],
        between: int,
    ) -> None:
        inner, combine = (joining(name, type, self.wide) for name in (tile.inner, tile.combine))
        width, parts = self.widths[type], self.code.parts
        for total, column in zip(totals, columns, strict=True):
            assert isinstance(column, int)
            a, b = (column, row) if tile.swapped else (row, column)
            parts.append(vector(inner, width, between, a, b))
            parts.append(vector(combine, width, total, total, between))


def checked(disp: int) -> int:
    """A displacement that an instruction can hold. Raises DoesNotFit."""
    if not -(1 << 31) <= disp < 1 << 31:
        raise DoesNotFit("an array is larger than 2 GiB")
    return disp


@functools.cache
def joining(operation: str, type: str, wide: bool) -> str:
    """The instruction that joins two vectors; `wide`: of AVX-512. DoesNotFit if there is none."""
    if operation in ("and", "or", "xor"):
        return f"vp{operation}"
    name = f"v{operation}{FLOAT[type]}" if type in FLOAT else _INTEGER.get((operation, type), "")
    if name not in ROWS or not (wide or ROWS[name].vex):
        raise DoesNotFit(f"x86 has no vector {operation} of {type}")
    return name
