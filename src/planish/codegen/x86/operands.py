"""Operands of a kernel's instructions: registers, memory, constants, lane masks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from planish.codegen import vir
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import RIP, Mem, vector
from planish.codegen.x86.registers import SIZE, DoesNotFit, Registers, plan_kernel

if TYPE_CHECKING:
    from planish.codegen.x86.emit import Code, Pool


class Operands:
    """What the instructions of one kernel share; reductions inside go through `loop`."""

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
        return ins.n != self.lanes or (self.lanes > 1 and self.lanes * SIZE[ins.type] < 16)

    # Operands.

    def width(self, type: str) -> int:
        """Bytes of the register that holds all lanes of a type."""
        return max(16, self.lanes * SIZE[type])

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
        return struct.pack(form, value) * (self.pool.width // SIZE[type])

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
