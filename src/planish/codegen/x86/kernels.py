"""Straight-line kernels: vector instructions with registers and memory operands chosen."""

from __future__ import annotations

from collections.abc import Sequence

from planish.codegen import vir
from planish.codegen.vir import SIZE
from planish.codegen.x86.blocks import BlockOps, joining
from planish.codegen.x86.choices import ChoiceOps
from planish.codegen.x86.encoder import vector
from planish.codegen.x86.operands import FLOAT
from planish.codegen.x86.registers import DoesNotFit
from planish.codegen.x86.rows import ROWS

_FUSED = {"fma": "vfmadd", "fnma": "vfnmadd"}
_SHIFTS = {
    ("shl", "i32"): "vpslld", ("srl", "i32"): "vpsrld", ("sra", "i32"): "vpsrad",
    ("shl", "i64"): "vpsllq", ("srl", "i64"): "vpsrlq",
}  # fmt: skip
_CONVERSIONS = {
    ("i32", "f32"): "vcvtdq2ps", ("f32", "i32"): "vcvttps2dq", ("f32", "f64"): "vcvtps2pd",
    ("i64", "f64"): "vcvtqq2pd", ("f64", "i64"): "vcvttpd2qq", ("i64", "f32"): "vcvtqq2ps",
    ("f32", "i64"): "vcvttps2qq", ("i32", "i64"): "vpmovsxdq", ("i64", "i32"): "vpmovqd_store",
    ("f64", "f32"): "vcvtpd2ps", ("i32", "f64"): "vcvtdq2pd", ("f64", "i32"): "vcvttpd2dq",
}  # fmt: skip


_METHODS = {"fma": "_fused", "fnma": "_fused", "shl": "_shift", "srl": "_shift", "sra": "_shift"}


class KernelEmitter(BlockOps, ChoiceOps):
    """Emits one kernel into the code."""

    def run(self) -> None:
        """Masks first, then all instructions."""
        if self.wide:
            self._set_masks()
        self.items(self.kernel.body.runs)

    def items(self, runs: Sequence[vir.Item]) -> None:
        """Instructions and loops in order."""
        for run in runs:
            if isinstance(run, list):
                self._straight(len(run))
            else:
                assert isinstance(run, vir.Loop)
                self.loop(run)

    def _straight(self, count: int) -> None:
        """So many instructions from where the emitter stands."""
        flat, ends, folded = self.plan.flat, self.plan.ends, self.plan.folded
        of, free = self.registers.of, self.registers.free
        parts, methods, widths = self.code.parts, self.methods, self.widths
        for number in range(self.number, self.number + count):
            self.number = number
            ins = flat[number]
            op, type, dst, src, _, _, _, _ = ins
            if op == "fma" and dst == src[2] and of[src[0]] >= 0 and of[src[1]] >= 0:
                # An accumulator: what kernels mostly consist of.
                name = "vfmadd231ps" if type == "f32" else "vfmadd231pd"
                parts.append(vector(name, widths[type], of[dst], of[src[0]], of[src[1]]))
            elif dst not in folded:
                method = methods.get(op)
                if method is None:
                    found = getattr(self, _METHODS.get(op, f"_{op}"), self._binary)
                    method = methods[op] = found
                method(ins)
            ended = ends[number]
            if ended is not None:
                for value in ended:
                    if of[value] >= 0:
                        free.append(of[value])
                        of[value] = -1
        self.number += 1 if count else 0

    def _binary(self, ins: vir.Ins) -> None:
        name = joining(ins.op, ins.type, self.wide)
        of = self.registers.of
        a, b = ins.src
        left, right = of[a], of[b]
        target = self._target(ins)
        if right >= 0:
            self.emit(name, self.widths[ins.type], target, left, right)
        else:
            self.apply(name, self.widths[ins.type], target, left, b)

    def _fused(self, ins: vir.Ins) -> None:
        """dst = a * b + c, by the form that destroys an operand that ends here."""
        op, type, dst, (a, b, c), _, _, _, _ = ins
        of, folded = self.registers.of, self.plan.folded
        kind, suffix, width = _FUSED[op], FLOAT[type], self.widths[type]
        if c not in folded and (dst == c or self._ends(c, ins)):
            first, second = (b, a) if a in folded else (a, b)
            target = of[c] if dst == c else self.registers.rename(c, dst)
            self.apply(f"{kind}231{suffix}", width, target, of[first], second)
            return
        for x, y in ((a, b), (b, a)):
            if x in folded or of[dst] >= 0 or not self._ends(x, ins):
                continue
            if y in folded and c not in folded:  # x = x * y + c
                target = self.registers.rename(x, dst)
                self.apply(f"{kind}132{suffix}", width, target, of[c], y)
            else:  # x = y * x + c
                register = of[y]
                target = self.registers.rename(x, dst)
                self.apply(f"{kind}213{suffix}", width, target, register, c)
            return
        # Nothing ends here: the addend is copied into the result first.
        target = self.registers.take(dst)
        self.apply("vmovups" if c in folded else "vmovaps", width, target, -1, c)
        first, second = (b, a) if a in folded else (a, b)
        self.apply(f"{kind}231{suffix}", width, target, of[first], second)

    def _ends(self, value: int, ins: vir.Ins) -> bool:
        """Whether a value in a register is used here for the last time, and once."""
        return (
            self.registers.of[value] >= 0
            and self.plan.last[value] <= self.number
            and ins.src.count(value) == 1
        )

    def _dot4(self, ins: vir.Ins) -> None:
        of = self.registers.of
        unsigned, signed, total = (of[value] for value in ins.src)
        assert ins.dst == ins.src[2]
        width = self.widths["i32"]
        # AVX-512's form also where VEX has one: that is another extension (AVX-VNNI).
        self.code.add(vector("vpdpbusd", width, total, unsigned, signed, evex=self.wide))

    def _shift(self, ins: vir.Ins) -> None:
        name = _SHIFTS.get((ins.op, ins.type))
        if name is None or not isinstance(ins.imm, int):
            raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
        source = self.registers.of[ins.src[0]]
        target = self._target(ins)
        self.emit(name, self.widths[ins.type], target, -1, source, ins.imm)

    def _mov(self, ins: vir.Ins) -> None:
        source = self.registers.of[ins.src[0]]
        self.emit("vmovaps", self.widths[ins.type], self._target(ins), -1, source)

    def _bitcast(self, ins: vir.Ins) -> None:
        source = ins.src[0]
        if self.plan.last[source] <= self.number and self.registers.of[ins.dst] < 0:
            self.registers.rename(source, ins.dst)
            return
        register = self.registers.of[source]
        target = self.registers.take(ins.dst)
        self.emit("vmovaps", self.widths[ins.type], target, -1, register)

    def _const(self, ins: vir.Ins) -> None:
        width = self.widths[ins.type]
        target = self.registers.take(ins.dst)
        if ins.imm == 0 and str(ins.imm) in ("0", "0.0"):
            self.emit("vpxor", width, target, target, target)
        else:
            self.pooled("vmovups", width, target, -1, self.constant(ins.imm, ins.type))

    def _sqrt(self, ins: vir.Ins) -> None:
        self._unary(ins, f"vsqrt{self._float(ins)}", -1)

    def _round(self, ins: vir.Ins) -> None:
        self._unary(ins, f"vround{self._float(ins)}", 8)

    def _floor(self, ins: vir.Ins) -> None:
        self._unary(ins, f"vround{self._float(ins)}", 9)

    def _float(self, ins: vir.Ins) -> str:
        if ins.type not in FLOAT:
            raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
        return FLOAT[ins.type]

    def _unary(self, ins: vir.Ins, name: str, imm: int) -> None:
        value = ins.src[0]
        source = self.registers.of[value]
        target = self._target(ins)
        width = self.widths[ins.type]
        if source >= 0:
            self.emit(name, width, target, -1, source, imm)
        else:
            self.apply(name, width, target, -1, value, imm)

    def _abs(self, ins: vir.Ins) -> None:
        source = self.registers.of[ins.src[0]]
        target = self._target(ins)
        width = self.widths[ins.type]
        if ins.type == "i32" or (ins.type == "i64" and self.wide):
            name = "vpabsd" if ins.type == "i32" else "vpabsq"
            self.emit(name, width, target, -1, source)
            return
        bits = "i64" if self._float(ins) == "pd" else "i32"
        size = 63 if bits == "i64" else 31
        self.pooled("vpand", width, target, source, self.constant((1 << size) - 1, bits))

    def _neg(self, ins: vir.Ins) -> None:
        source = self.registers.of[ins.src[0]]
        width = self.widths[ins.type]
        if ins.type in ("i32", "i64"):
            self.emit("vpxor", width, self.scratch, self.scratch, self.scratch)
            target = self._target(ins)
            name = joining("sub", ins.type, self.wide)
            self.emit(name, width, target, self.scratch, source)
            return
        target = self._target(ins)
        bits = "i64" if ins.type == "f64" else "i32"
        size = 63 if bits == "i64" else 31
        self.pooled("vpxor", width, target, source, self.constant(-(1 << size), bits))

    def _cvt(self, ins: vir.Ins) -> None:
        name = _CONVERSIONS.get((str(ins.imm), ins.type))
        if name is None or not (self.wide or ROWS[name].vex):
            raise DoesNotFit(f"x86 converts no {ins.imm} to {ins.type}")
        source = self.registers.of[ins.src[0]]
        target = self._target(ins)
        if name == "vpmovqd_store":  # the result is its second operand
            source, target = target, source
        # Widening counts in the result's width, narrowing in the source's.
        width = max(self.widths[ins.type], self.widths[str(ins.imm)])
        self.emit(name, width, target, -1, source)

    def _hreduce(self, ins: vir.Ins) -> None:
        """All lanes joined in lane 0: halves are folded onto each other."""
        operation = str(ins.imm)
        source = self.registers.of[ins.src[0]]
        target = self._target(ins)
        type = ins.type
        name = joining(operation, type, self.wide)
        width = self.widths[type]
        if width == 64:
            self.emit("vextractf64x4", 64, source, -1, self.scratch, 1)
            self.emit(name, 32, target, source, self.scratch)
            source, width = target, 32
        if width == 32:
            if self.wide:
                self.code.add(vector("vextractf32x4", 32, source, -1, self.scratch, 1, evex=True))
            else:
                self.emit("vextractf128", 32, source, -1, self.scratch, 1)
            self.emit(name, 16, target, source, self.scratch)
            source = target
        lanes = min(self.lanes, 16 // SIZE[type])
        if (lanes >= 2 and SIZE[type] == 8) or lanes >= 4:
            self.emit("vpshufd", 16, self.scratch, -1, source, 0x4E)
            self.emit(name, 16, target, source, self.scratch)
            source = target
        if SIZE[type] == 4 and lanes >= 2:
            self.emit("vpshufd", 16, self.scratch, -1, source, 0xB1)
            self.emit(name, 16, target, source, self.scratch)
            source = target
        if source != target:
            self.emit("vmovaps", 16, target, -1, source)
