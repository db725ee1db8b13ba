"""Loads and stores: whole vectors, parts of them, single, small and strided elements."""

from __future__ import annotations

import struct

from planish.codegen import vir
from planish.codegen.vir import SIZE
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import RIP, Mem, vector
from planish.codegen.x86.operands import Operands
from planish.codegen.x86.registers import DoesNotFit

_WIDENING = {
    "i8": "vpmovsxbd", "u8": "vpmovzxbd", "bool": "vpmovzxbd", "i16": "vpmovsxwd",
    "bf16": "vpmovzxwd", "f16": "vcvtph2ps",
}  # fmt: skip


class MemoryOps(Operands):
    """Instructions that touch memory, and the rounding to 16 bits that stores need."""

    def _prefetch(self, ins: vir.Ins) -> None:
        self.code.add(x86.prefetch(self.memory(ins)))

    def _load(self, ins: vir.Ins) -> None:
        target = self.registers.take(ins.dst)
        width = self.widths[ins.type]
        stored = str(ins.imm)
        masked = self._masked(ins)
        if self.lanes == 1:
            self._load_scalar(ins, target, stored)
            return
        if stored in ("f32", "f64", "i32", "i64"):
            wide = SIZE[ins.type] == 8
            if not masked:
                self.emit_at("vmovups", width, target, -1, ins)
            elif self.wide:
                name = "vmovupd" if wide else "vmovups"
                self.emit_at(name, width, target, -1, ins, -1, self.masks[ins.n], True)
            else:
                self._load_lane_mask(ins.n, SIZE[ins.type], width)
                name = "vmaskmovpd" if wide else "vmaskmovps"
                self.emit_at(name, width, target, self.scratch, ins)
            return
        widening = _WIDENING.get(stored)
        if widening is None or ins.type == "i64":
            raise DoesNotFit(f"x86 widens no {stored} to {ins.type}")
        if masked and not self.wide:
            raise DoesNotFit(f"AVX2 loads no part of a vector of {stored}")
        mask = self.masks[ins.n] if masked else 0
        self.emit_at(widening, width, target, -1, ins, -1, mask, bool(mask))
        if stored == "bf16":
            self.emit("vpslld", width, target, -1, target, 16)

    def _load_scalar(self, ins: vir.Ins, target: int, stored: str) -> None:
        if stored in ("f32", "i32"):
            self.emit_at("vmovss", 16, target, -1, ins)
        elif stored in ("f64", "i64"):
            self.emit_at("vmovsd", 16, target, -1, ins)
        else:
            self._load_small(ins, target, stored)

    def _load_small(self, ins: vir.Ins, target: int, stored: str) -> None:
        """One small element through a general register into lane 0."""
        size = 1 if stored in ("i8", "u8", "bool") else 2
        self.code.add(x86.load_small(x86.RAX, self.memory(ins), size, stored in ("i8", "i16")))
        self.emit("vmovd", 16, target, -1, x86.RAX)
        if stored == "f16":
            self.emit("vcvtph2ps", 16, target, -1, target)
        elif stored == "bf16":
            self.emit("vpslld", 16, target, -1, target, 16)

    def _bcast(self, ins: vir.Ins) -> None:
        target = self.registers.take(ins.dst)
        width = self.widths[ins.type]
        stored = str(ins.imm)
        if self.lanes == 1:
            self._load_scalar(ins, target, stored)
        elif stored in ("f32", "i32"):
            self.emit_at("vbroadcastss", width, target, -1, ins)
        elif stored in ("f64", "i64"):
            name = "vbroadcastsd" if width > 16 else "vmovddup"
            self.emit_at(name, width, target, -1, ins)
        else:
            self._load_small(ins, target, stored)
            self.emit("vbroadcastss", width, target, -1, target)

    def _gather(self, ins: vir.Ins) -> None:
        """Elements a fixed number of bytes apart; offsets are 32-bit constants."""
        assert isinstance(ins.imm, tuple)
        stored, stride = ins.imm
        if stored not in ("f32", "i32", "f64") or abs(stride * self.lanes) >= 1 << 31:
            raise DoesNotFit(f"x86 gathers no {stored}")
        width, size = self.widths[ins.type], SIZE[ins.type]
        target = self.registers.take(ins.dst)
        name = "vgatherdpd" if size == 8 else "vgatherdps"
        lanes = self.vector // 4
        offsets = [stride * lane if lane < self.lanes else 0 for lane in range(lanes)]
        data = struct.pack(f"<{lanes}i", *offsets)
        self.pooled("vmovups", max(16, width * 4 // size), self.scratch, -1, data)
        self.emit("vpxor", width, target, target, target)
        base = self.memory(ins)
        where = base._replace(indexed=self.scratch)
        if self.wide:
            # The gather clears its mask, so that it works on a copy in k7.
            self.code.add(x86.move_imm(x86.RAX, (1 << ins.n) - 1))
            self.emit("kmovw", 16, 7, -1, x86.RAX)
            self.code.add(vector(name, width, target, -1, where, -1, 7))
            return
        mask = self.registers.borrow()
        ones = b"\xff" * (ins.n * size)
        self.pooled("vmovups", width, mask, -1, ones.ljust(self.vector, b"\0"))
        self.code.add(vector(name, width, target, mask, where))
        self.registers.free.append(mask)

    def _store(self, ins: vir.Ins) -> None:
        source = self.registers.of[ins.src[0]]
        width = self.widths[ins.type]
        stored = str(ins.imm)
        if ins.n == 1:
            self._store_scalar(ins, source, stored)
            return
        masked = self._masked(ins)
        if stored in ("f32", "f64", "i32", "i64"):
            wide = SIZE[ins.type] == 8
            if not masked:
                self.emit_at("vmovups_store", width, source, -1, ins)
            elif self.wide:
                name = "vmovupd_store" if wide else "vmovups_store"
                self.emit_at(name, width, source, -1, ins, -1, self.masks[ins.n])
            else:
                self._load_lane_mask(ins.n, SIZE[ins.type], width)
                name = "vmaskmovpd_store" if wide else "vmaskmovps_store"
                self.emit_at(name, width, source, self.scratch, ins)
            return
        if not self.wide:
            raise DoesNotFit(f"AVX2 stores no vector of {stored}")
        mask = self.masks[ins.n] if masked else 0
        if stored == "f16":
            self.emit_at("vcvtps2ph_store", width, source, -1, ins, 0, mask)
            return
        if stored == "bf16":
            self._round_to_bf16(width, source)
            self.emit("vpsrld", width, self.scratch, -1, self.scratch, 16)
            source = self.scratch
        name = "vpmovdb_store" if stored in ("i8", "u8", "bool") else "vpmovdw_store"
        self.emit_at(name, width, source, -1, ins, -1, mask)

    def _store_scalar(self, ins: vir.Ins, source: int, stored: str) -> None:
        if stored in ("f32", "i32"):
            self.emit_at("vmovss_store", 16, source, -1, ins)
            return
        if stored in ("f64", "i64"):
            self.emit_at("vmovsd_store", 16, source, -1, ins)
            return
        if stored == "f16":
            self.emit("vcvtps2ph_store", 16, source, -1, self.scratch, 0)
            source = self.scratch
        elif stored == "bf16":
            self._round_to_bf16(16, source)
            self.emit("vpsrld", 16, self.scratch, -1, self.scratch, 16)
            source = self.scratch
        self.emit("vmovd_store", 16, source, -1, x86.RAX)
        size = 1 if stored in ("i8", "u8", "bool") else 2
        self.code.add(x86.store_small(self.memory(ins), x86.RAX, size))

    def _load_lane_mask(self, count: int, size: int, width: int) -> None:
        """AVX2: the first `count` lanes' sign bits set, in the scratch register."""
        lanes = self.vector // size
        data = b"\xff" * (count * size) + b"\x00" * ((lanes - count) * size)
        self.pooled("vmovups", width, self.scratch, -1, data)

    def _narrow(self, ins: vir.Ins) -> None:
        """f32 rounded to 16 bits and back."""
        source = self.registers.of[ins.src[0]]
        width = self.widths["f32"]
        if ins.imm == "f16":
            self.emit("vcvtps2ph_store", width, source, -1, self.scratch, 0)
            target = self._target(ins)
            self.emit("vcvtph2ps", width, target, -1, self.scratch)
            return
        self._round_to_bf16(width, source)
        target = self._target(ins)
        self.emit("vpsrld", width, self.scratch, -1, self.scratch, 16)
        self.emit("vpslld", width, target, -1, self.scratch, 16)

    def _compare(self, name: str, width: int, a: int, b: int, predicate: int) -> None:
        """Into the opmask k7, which only EVEX can write."""
        self.code.add(vector(name, width, 7, a, b, predicate, evex=True))

    def _round_to_bf16(self, width: int, source: int) -> None:
        """Into the scratch register: f32 bits rounded to nearest even at bit 16, NaN kept."""
        if not self.wide:
            raise DoesNotFit("bf16 is rounded with AVX-512 only")
        self.emit("vpsrld", width, self.scratch, -1, source, 16)
        self.pooled("vpand", width, self.scratch, self.scratch, self.constant(1, "i32"))
        self.emit("vpaddd", width, self.scratch, self.scratch, source)
        self.pooled("vpaddd", width, self.scratch, self.scratch, self.constant(0x7FFF, "i32"))
        # A NaN must not round to infinity: its quiet bit is set instead.
        self._compare("vcmpps", width, source, source, 3)
        quiet = self.constant(0x7FC00000, "i32")
        encoded = vector("vmovups", width, self.scratch, -1, Mem(RIP), -1, 7)
        self.code.constant(encoded, quiet, 0)
