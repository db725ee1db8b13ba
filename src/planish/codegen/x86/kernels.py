"""Straight-line kernels: vector instructions with registers and memory operands chosen."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from planish.codegen import vir
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import RIP, Mem, vector
from planish.codegen.x86.registers import DoesNotFit, Registers, plan_kernel

if TYPE_CHECKING:
    from planish.codegen.x86.emit import Code, Pool

_SIZE = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}
_FLOAT = {"f32": "ps", "f64": "pd"}
_ACCUMULATE = {"f32": "vfmadd231ps", "f64": "vfmadd231pd"}
_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4, "ge": 0x1D, "gt": 0x1E}
_WHOLE_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4, "ge": 5, "gt": 6}
_INTEGER = {
    ("add", "i32"): "vpaddd", ("sub", "i32"): "vpsubd", ("mul", "i32"): "vpmulld",
    ("min", "i32"): "vpminsd", ("max", "i32"): "vpmaxsd",
    ("add", "i64"): "vpaddq", ("sub", "i64"): "vpsubq",
}  # fmt: skip
_SHIFTS = {
    ("shl", "i32"): "vpslld", ("srl", "i32"): "vpsrld", ("sra", "i32"): "vpsrad",
    ("shl", "i64"): "vpsllq", ("srl", "i64"): "vpsrlq",
}  # fmt: skip
_CONVERSIONS = {
    ("i32", "f32"): "vcvtdq2ps", ("f32", "i32"): "vcvttps2dq", ("f32", "f64"): "vcvtps2pd",
    ("f64", "f32"): "vcvtpd2ps", ("i32", "f64"): "vcvtdq2pd", ("f64", "i32"): "vcvttpd2dq",
}  # fmt: skip


class KernelEmitter:
    """Emits one kernel into the code; reductions inside go through `loop`."""

    def __init__(
        self,
        kernel: vir.Kernel,
        width: int,
        pointers: Mapping[int, int],
        code: Code,
        pool: Pool,
        loop: Callable[[vir.Loop], None],
    ) -> None:
        self.kernel = kernel
        self.lanes = kernel.lanes
        self.wide = width == 64
        self.pointers = pointers
        self.code = code
        self.pool = pool
        self.loop = loop
        self.plan = plan_kernel(kernel)
        count = 32 if self.wide else 16
        self.scratch = count - 1
        self.registers = Registers(count - 1, kernel.name)
        self.number = 0
        self.methods: dict[str, Callable[[vir.Ins], None]] = {}
        self.masks: dict[int, int] = {}

    def run(self) -> None:
        """Masks first, then all instructions."""
        if self.wide:
            self._set_masks()
        self.items(self.kernel.body)

    def items(self, items: Sequence[vir.Item]) -> None:
        """Instructions and loops in order."""
        folded, ends, release = self.plan.folded, self.plan.ends, self.registers.release
        for item in items:
            if isinstance(item, vir.Loop):
                self.loop(item)
                continue
            assert isinstance(item, vir.Ins)
            if item.dst not in folded:
                self._instruction(item)
            for register in ends[self.number]:
                release(register)
            self.number += 1

    def _set_masks(self) -> None:
        counts = sorted(
            {
                ins.n
                for ins in vir.instructions(self.kernel.body)
                if ins.op in ("load", "store", "gather", "lanes") and self._masked(ins)
            }
        )
        if len(counts) > 6:
            raise DoesNotFit(f"{self.kernel.name} needs {len(counts)} lane masks")
        for number, count in enumerate(counts, 1):
            self.masks[count] = number
            self.code.add(x86.move_imm(x86.RAX, (1 << count) - 1))
            self.code.add(vector("kmovw", 16, number, -1, x86.RAX))

    def _masked(self, ins: vir.Ins) -> bool:
        if ins.op == "gather":
            return True
        return ins.n != self.lanes or (self.lanes > 1 and self.lanes * _SIZE[ins.type] < 16)

    # Operands.

    def width(self, type: str) -> int:
        """Bytes of the register that holds all lanes of a type."""
        return max(16, self.lanes * _SIZE[type])

    def memory(self, ins: vir.Ins, *, disp: int = 0) -> Mem:
        at = ins.disp + disp
        if not -(1 << 31) <= at < 1 << 31:
            raise DoesNotFit("an array is larger than 2 GiB")
        return Mem(self.pointers[ins.ptr], at)

    def of(self, value: int) -> int:
        """The register a value is in."""
        return self.registers.of[value]

    def constant(self, value: object, type: str) -> bytes:
        """A constant in all lanes of a pool entry."""
        form = {"f32": "<f", "f64": "<d", "i32": "<i", "i64": "<q"}[type]
        if type in ("i32", "i64"):
            bits = 32 if type == "i32" else 64
            whole = int(value)  # type: ignore[call-overload]
            value = (whole + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return struct.pack(form, value) * (self.pool.width // _SIZE[type])

    def pooled(
        self, name: str, width: int, reg: int, other: int, data: bytes, imm: int = -1
    ) -> None:
        """An instruction whose memory operand is a constant."""
        encoded = vector(name, width, reg, other, Mem(RIP), imm)
        self.code.constant(encoded, self.pool.offset(data), 0 if imm < 0 else 1)

    def emit(
        self,
        name: str,
        width: int,
        reg: int,
        other: int,
        rm: int | Mem,
        imm: int = -1,
        mask: int = 0,
        zero: bool = False,
    ) -> None:
        self.code.add(vector(name, width, reg, other, rm, imm, mask, zero))

    def apply(self, name: str, width: int, reg: int, other: int, value: int, imm: int = -1) -> None:
        """An instruction whose last operand is a value: a register, or folded memory."""
        ins = self.plan.folded.get(value)
        if ins is None:
            self.emit(name, width, reg, other, self.of(value), imm)
        elif ins.op == "const":
            self.pooled(name, width, reg, other, self.constant(ins.imm, ins.type), imm)
        else:
            self.emit(name, width, reg, other, self.memory(ins), imm)

    # Instructions.

    def _instruction(self, ins: vir.Ins) -> None:
        method = self.methods.get(ins.op)
        if method is None:
            names = {"fma": "_fused", "fnma": "_fused", "shl": "_shift", "srl": "_shift",
                     "sra": "_shift"}  # fmt: skip
            name = names.get(ins.op, f"_{ins.op}")
            method = self.methods[ins.op] = getattr(self, name, self._binary)
        method(ins)

    def _target(self, ins: vir.Ins) -> int:
        """The result's register; a source that ends here may give its own."""
        if ins.dst in self.registers.of:
            return self.of(ins.dst)
        for source in ins.src:
            if (
                source in self.registers.of
                and self.plan.last[source] <= self.number
                and source != ins.dst
            ):
                return self.registers.rename(source, ins.dst)
        return self.registers.take(ins.dst)

    def _binary(self, ins: vir.Ins) -> None:
        width = self.width(ins.type)
        a, b = ins.src
        if ins.op in ("and", "or", "xor"):
            name = f"vp{ins.op}"
        elif ins.type in _FLOAT:
            name = f"v{ins.op}{_FLOAT[ins.type]}"
            if name not in x86.ROWS:
                raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
        else:
            found = _INTEGER.get((ins.op, ins.type))
            if found is None:
                raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
            name = found
        left = self.of(a)
        right = self.registers.of.get(b, -1)
        target = self._target(ins)
        if right >= 0:
            self.emit(name, width, target, left, right)
        else:
            self.apply(name, width, target, left, b)

    def _fused(self, ins: vir.Ins) -> None:
        a, b, c = ins.src
        of = self.registers.of
        if ins.dst == c and a in of and b in of and ins.op == "fma":  # an accumulator
            width = max(16, self.lanes * _SIZE[ins.type])
            self.code.add(vector(_ACCUMULATE[ins.type], width, of[c], of[a], of[b]))
            return
        kind = "vfmadd" if ins.op == "fma" else "vfnmadd"
        suffix = _FLOAT[ins.type]
        width = self.width(ins.type)
        folded = [v for v in (a, b, c) if v in self.plan.folded]

        def ends(value: int) -> bool:
            return (
                value in self.registers.of
                and self.plan.last[value] <= self.number
                and ins.src.count(value) == 1
            )

        if c not in folded and (ins.dst == c or ends(c)):
            first = a if a not in folded else b
            second = b if first == a else a
            register = self.of(first)
            target = self.of(c) if ins.dst == c else self.registers.rename(c, ins.dst)
            if second in folded:
                self.apply(f"{kind}231{suffix}", width, target, register, second)
            else:
                self.emit(f"{kind}231{suffix}", width, target, register, self.of(second))
            return
        for x, y in ((a, b), (b, a)):
            if x in folded or ins.dst in self.registers.of or not ends(x):
                continue
            if c in folded:  # x = y * x + c
                register = self.of(y)
                target = self.registers.rename(x, ins.dst)
                self.apply(f"{kind}213{suffix}", width, target, register, c)
            elif y in folded:  # x = x * y + c
                target = self.registers.rename(x, ins.dst)
                self.apply(f"{kind}132{suffix}", width, target, self.of(c), y)
            else:
                register = self.of(y)
                target = self.registers.rename(x, ins.dst)
                self.emit(f"{kind}213{suffix}", width, target, register, self.of(c))
            return
        # Nothing ends here: the addend is copied into the result first.
        target = self.registers.take(ins.dst)
        if c in folded:
            folded_ins = self.plan.folded[c]
            if folded_ins.op == "const":
                self.pooled("vmovups", width, target, -1, self.constant(folded_ins.imm, ins.type))
            else:
                self.emit("vmovups", width, target, -1, self.memory(folded_ins))
        else:
            self.emit("vmovaps", width, target, -1, self.of(c))
        first = a if a not in folded else b
        second = b if first == a else a
        self.apply(f"{kind}231{suffix}", width, target, self.of(first), second)

    def _shift(self, ins: vir.Ins) -> None:
        name = _SHIFTS.get((ins.op, ins.type))
        if name is None or not isinstance(ins.imm, int):
            raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
        source = self.of(ins.src[0])
        target = self._target(ins)
        self.emit(name, self.width(ins.type), target, -1, source, ins.imm)

    def _mov(self, ins: vir.Ins) -> None:
        source = self.of(ins.src[0])
        self.emit("vmovaps", self.width(ins.type), self._target(ins), -1, source)

    def _bitcast(self, ins: vir.Ins) -> None:
        source = ins.src[0]
        if self.plan.last[source] <= self.number and ins.dst not in self.registers.of:
            self.registers.rename(source, ins.dst)
            return
        register = self.of(source)
        target = self.registers.take(ins.dst)
        self.emit("vmovaps", self.width(ins.type), target, -1, register)

    def _const(self, ins: vir.Ins) -> None:
        width = self.width(ins.type)
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
        if ins.type not in _FLOAT:
            raise DoesNotFit(f"x86 has no vector {ins.op} of {ins.type}")
        return _FLOAT[ins.type]

    def _unary(self, ins: vir.Ins, name: str, imm: int) -> None:
        value = ins.src[0]
        source = self.registers.of.get(value, -1)
        target = self._target(ins)
        width = self.width(ins.type)
        if source >= 0:
            self.emit(name, width, target, -1, source, imm)
        else:
            self.apply(name, width, target, -1, value, imm)

    def _abs(self, ins: vir.Ins) -> None:
        source = self.of(ins.src[0])
        target = self._target(ins)
        width = self.width(ins.type)
        if ins.type == "i32":
            self.emit("vpabsd", width, target, -1, source)
            return
        bits = "i64" if self._float(ins) == "pd" else "i32"
        size = 63 if bits == "i64" else 31
        self.pooled("vpand", width, target, source, self.constant((1 << size) - 1, bits))

    def _neg(self, ins: vir.Ins) -> None:
        source = self.of(ins.src[0])
        width = self.width(ins.type)
        if ins.type in ("i32", "i64"):
            self.emit("vpxor", width, self.scratch, self.scratch, self.scratch)
            target = self._target(ins)
            name = _INTEGER["sub", ins.type]
            self.emit(name, width, target, self.scratch, source)
            return
        target = self._target(ins)
        bits = "i64" if ins.type == "f64" else "i32"
        size = 63 if bits == "i64" else 31
        self.pooled("vpxor", width, target, source, self.constant(-(1 << size), bits))

    def _cmpsel(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, tuple)
        predicate, compared = ins.imm
        a, b, x, y = (self.of(v) for v in ins.src)
        width = self.width(compared)
        chosen = self.width(ins.type)
        if compared == "i64":
            raise DoesNotFit("x86 compares no i64 here")
        if self.wide:
            target = self._target(ins)
            if compared == "i32":
                self.emit("vpcmpd", width, 7, a, b, _WHOLE_PREDICATES[predicate])
            else:
                name = f"vcmp{_FLOAT[compared]}"
                self._compare(name, width, a, b, _PREDICATES[predicate])
            blend = "vblendmpd" if ins.type in ("f64", "i64") else "vblendmps"
            self.emit(blend, chosen, target, y, x, mask=7)
            return
        if _SIZE[compared] != _SIZE[ins.type]:
            raise DoesNotFit(f"AVX2 chooses no {ins.type} by a comparison of {compared}")
        if compared == "i32":
            a, b, x, y = self._compare_whole(predicate, width, a, b, x, y)
        else:
            self.emit(f"vcmp{_FLOAT[compared]}", width, self.scratch, a, b, _PREDICATES[predicate])
        target = self._target(ins)
        blend = "vblendvpd" if _SIZE[ins.type] == 8 else "vblendvps"
        self.emit(blend, chosen, target, y, x, self.scratch << 4)

    def _compare(self, name: str, width: int, a: int, b: int, predicate: int) -> None:
        """Into the opmask k7, which only EVEX can write."""
        self.code.add(vector(name, width, 7, a, b, predicate, evex=True))

    def _compare_whole(
        self, predicate: str, width: int, a: int, b: int, x: int, y: int
    ) -> tuple[int, int, int, int]:
        """AVX2 has == and > only: others swap operands or choices."""
        if predicate in ("lt", "ge"):
            a, b = b, a
        if predicate in ("ne", "le", "ge"):
            x, y = y, x
        name = "vpcmpeqd" if predicate in ("eq", "ne") else "vpcmpgtd"
        self.emit(name, width, self.scratch, a, b)
        return a, b, x, y

    def _lanes(self, ins: vir.Ins) -> None:
        """The first `n` lanes of the first source, the rest of the second."""
        new, old = (self.of(v) for v in ins.src)
        target = self._target(ins)
        width = self.width(ins.type)
        if self.wide:
            blend = "vblendmpd" if _SIZE[ins.type] == 8 else "vblendmps"
            self.emit(blend, width, target, old, new, mask=self.masks[ins.n])
            return
        blend = "vblendpd" if _SIZE[ins.type] == 8 else "vblendps"
        self.emit(blend, width, target, old, new, (1 << ins.n) - 1)

    def _cvt(self, ins: vir.Ins) -> None:
        name = _CONVERSIONS.get((str(ins.imm), ins.type))
        if name is None:
            raise DoesNotFit(f"x86 converts no {ins.imm} to {ins.type}")
        source = self.of(ins.src[0])
        target = self._target(ins)
        # Widening counts in the result's width, narrowing in the source's.
        width = max(self.width(ins.type), self.width(str(ins.imm)))
        self.emit(name, width, target, -1, source)

    def _narrow(self, ins: vir.Ins) -> None:
        """f32 rounded to 16 bits and back."""
        source = self.of(ins.src[0])
        width = self.width("f32")
        if ins.imm == "f16":
            self.emit("vcvtps2ph_store", width, source, -1, self.scratch, 0)
            target = self._target(ins)
            self.emit("vcvtph2ps", width, target, -1, self.scratch)
            return
        self._round_to_bf16(width, source)
        target = self._target(ins)
        self.emit("vpsrld", width, self.scratch, -1, self.scratch, 16)
        self.emit("vpslld", width, target, -1, self.scratch, 16)

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
        self.code.constant(encoded, self.pool.offset(quiet), 0)

    def _hreduce(self, ins: vir.Ins) -> None:
        """All lanes joined in lane 0: halves are folded onto each other."""
        operation = str(ins.imm)
        source = self.of(ins.src[0])
        target = self._target(ins)
        type = ins.type
        name = self._joining(operation, type)
        width = self.width(type)
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
        lanes = min(self.lanes, 16 // _SIZE[type])
        if (lanes >= 2 and _SIZE[type] == 8) or lanes >= 4:
            self.emit("vpshufd", 16, self.scratch, -1, source, 0x4E)
            self.emit(name, 16, target, source, self.scratch)
            source = target
        if _SIZE[type] == 4 and lanes >= 2:
            self.emit("vpshufd", 16, self.scratch, -1, source, 0xB1)
            self.emit(name, 16, target, source, self.scratch)
            source = target
        if source != target:
            self.emit("vmovaps", 16, target, -1, source)

    def _joining(self, operation: str, type: str) -> str:
        if operation in ("and", "or", "xor"):
            return f"vp{operation}"
        name = (
            f"v{operation}{_FLOAT[type]}" if type in _FLOAT else _INTEGER.get((operation, type), "")
        )
        if name not in x86.ROWS:
            raise DoesNotFit(f"x86 has no vector {operation} of {type}")
        return name

    def _prefetch(self, ins: vir.Ins) -> None:
        self.code.add(x86.prefetch(self.memory(ins)))

    # Memory.

    def _load(self, ins: vir.Ins) -> None:
        target = self.registers.take(ins.dst)
        width = self.width(ins.type)
        stored = str(ins.imm)
        masked = self._masked(ins)
        if self.lanes == 1:
            self._load_scalar(ins, target, stored)
            return
        if stored in ("f32", "f64", "i32", "i64"):
            wide = _SIZE[ins.type] == 8
            if not masked:
                self.emit("vmovups", width, target, -1, self.memory(ins))
            elif self.wide:
                name = "vmovupd" if wide else "vmovups"
                self.emit(name, width, target, -1, self.memory(ins), -1, self.masks[ins.n], True)
            else:
                self._load_lane_mask(ins.n, _SIZE[ins.type], width)
                name = "vmaskmovpd" if wide else "vmaskmovps"
                self.emit(name, width, target, self.scratch, self.memory(ins))
            return
        widening = _WIDENING.get(stored)
        if widening is None or ins.type == "i64":
            raise DoesNotFit(f"x86 widens no {stored} to {ins.type}")
        if masked and not self.wide:
            raise DoesNotFit(f"AVX2 loads no part of a vector of {stored}")
        mask = self.masks[ins.n] if masked else 0
        self.emit(widening, width, target, -1, self.memory(ins), -1, mask, bool(mask))
        if stored == "bf16":
            self.emit("vpslld", width, target, -1, target, 16)

    def _load_scalar(self, ins: vir.Ins, target: int, stored: str) -> None:
        if stored in ("f32", "i32"):
            self.emit("vmovss", 16, target, -1, self.memory(ins))
        elif stored in ("f64", "i64"):
            self.emit("vmovsd", 16, target, -1, self.memory(ins))
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
        width = self.width(ins.type)
        stored = str(ins.imm)
        if self.lanes == 1:
            self._load_scalar(ins, target, stored)
        elif stored in ("f32", "i32"):
            self.emit("vbroadcastss", width, target, -1, self.memory(ins))
        elif stored in ("f64", "i64"):
            name = "vbroadcastsd" if width > 16 else "vmovddup"
            self.emit(name, width, target, -1, self.memory(ins))
        else:
            self._load_small(ins, target, stored)
            self.emit("vbroadcastss", width, target, -1, target)

    def _gather(self, ins: vir.Ins) -> None:
        """Elements a fixed number of bytes apart; offsets are 32-bit constants."""
        assert isinstance(ins.imm, tuple)
        stored, stride = ins.imm
        if stored not in ("f32", "i32", "f64") or abs(stride * self.lanes) >= 1 << 31:
            raise DoesNotFit(f"x86 gathers no {stored}")
        width, size = self.width(ins.type), _SIZE[ins.type]
        target = self.registers.take(ins.dst)
        name = "vgatherdpd" if size == 8 else "vgatherdps"
        lanes = self.pool.width // 4
        offsets = [stride * lane if lane < self.lanes else 0 for lane in range(lanes)]
        data = struct.pack(f"<{lanes}i", *offsets)
        self.pooled("vmovups", max(16, width * 4 // size), self.scratch, -1, data)
        self.emit("vpxor", width, target, target, target)
        base = self.memory(ins)
        where = Mem(base.base, base.disp, self.scratch, 1)
        if self.wide:
            # The gather clears its mask, so that it works on a copy in k7.
            self.code.add(x86.move_imm(x86.RAX, (1 << ins.n) - 1))
            self.emit("kmovw", 16, 7, -1, x86.RAX)
            self.code.add(vector(name, width, target, -1, where, -1, 7))
            return
        mask = self.registers.take(-1)
        ones = b"\xff" * (ins.n * size)
        self.pooled("vmovups", width, mask, -1, ones.ljust(self.pool.width, b"\0"))
        self.emit(name, width, target, mask, where)
        self.registers.release(-1)

    def _store(self, ins: vir.Ins) -> None:
        source = self.of(ins.src[0])
        width = self.width(ins.type)
        stored = str(ins.imm)
        if ins.n == 1:
            self._store_scalar(ins, source, stored)
            return
        masked = self._masked(ins)
        if stored in ("f32", "f64", "i32", "i64"):
            wide = _SIZE[ins.type] == 8
            if not masked:
                self.emit("vmovups_store", width, source, -1, self.memory(ins))
            elif self.wide:
                name = "vmovupd_store" if wide else "vmovups_store"
                self.emit(name, width, source, -1, self.memory(ins), -1, self.masks[ins.n])
            else:
                self._load_lane_mask(ins.n, _SIZE[ins.type], width)
                name = "vmaskmovpd_store" if wide else "vmaskmovps_store"
                self.emit(name, width, source, self.scratch, self.memory(ins))
            return
        if not self.wide:
            raise DoesNotFit(f"AVX2 stores no vector of {stored}")
        mask = self.masks[ins.n] if masked else 0
        if stored == "f16":
            self.emit("vcvtps2ph_store", width, source, -1, self.memory(ins), 0, mask)
            return
        if stored == "bf16":
            self._round_to_bf16(width, source)
            self.emit("vpsrld", width, self.scratch, -1, self.scratch, 16)
            source = self.scratch
        name = "vpmovdb_store" if stored in ("i8", "u8", "bool") else "vpmovdw_store"
        self.emit(name, width, source, -1, self.memory(ins), -1, mask)

    def _store_scalar(self, ins: vir.Ins, source: int, stored: str) -> None:
        if stored in ("f32", "i32"):
            self.emit("vmovss_store", 16, source, -1, self.memory(ins))
            return
        if stored in ("f64", "i64"):
            self.emit("vmovsd_store", 16, source, -1, self.memory(ins))
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
        lanes = self.pool.width // size
        data = b"\xff" * (count * size) + b"\x00" * ((lanes - count) * size)
        self.pooled("vmovups", width, self.scratch, -1, data)


_WIDENING = {
    "i8": "vpmovsxbd", "u8": "vpmovzxbd", "bool": "vpmovzxbd", "i16": "vpmovsxwd",
    "bf16": "vpmovzxwd", "f16": "vcvtph2ps",
}  # fmt: skip
