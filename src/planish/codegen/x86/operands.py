"""Operands of a kernel's instructions: registers, memory, constants, lane masks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from planish.codegen import vir
from planish.codegen.vir import SIZE
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import RIP, Mem, vector, vector_at
from planish.codegen.x86.registers import DoesNotFit, Registers, is_masked, plan_kernel

if TYPE_CHECKING:
    from planish.codegen.x86.pieces import Code


# How instructions on floats end, by type.
FLOAT = {"f32": "ps", "f64": "pd"}


class Operands:
    """What the instructions of one kernel share; reductions inside go through `loop`.

    vector    bytes of the target's vector registers
    apart     whether sums may be made as multiply-adds, see `units.Units`
    pointers  the register of each
    """

    def __init__(
        self,
        kernel: vir.Kernel,
        vector: int,
        pointers: Sequence[int],
        code: Code,
        loop: Callable[[vir.Loop], None],
        apart: bool = False,
    ) -> None:
        self.kernel = kernel
        self.lanes = kernel.body.lanes
        self.vector = vector
        self.wide = vector == 64
        self.apart = apart
        self.pointers = pointers
        self.code = code
        self.loop = loop
        self.plan = plan_kernel(kernel.body)
        count = 32 if self.wide else 16
        self.scratch = count - 1
        self.registers = Registers(count - 1, kernel.body.registers, kernel.name)
        self.number = 0
        self.widths = {type: max(16, self.lanes * size) for type, size in SIZE.items()}
        self.methods: dict[str, Callable[[vir.Ins], None]] = {}
        self.masks: dict[int, int] = {}

    def _set_masks(self) -> None:
        counts = self.plan.masks
        if len(counts) > 6:
            raise DoesNotFit(f"{self.kernel.name} needs {len(counts)} lane masks")
        for number, count in enumerate(counts, 1):
            self.masks[count] = number
            self.code.add(x86.move_imm(x86.RAX, (1 << count) - 1))
            self.code.add(vector("kmovw", 16, number, -1, x86.RAX))

    def _masked(self, ins: vir.Ins) -> bool:
        return is_masked(ins.op, ins.type, ins.n, self.lanes)

    # Operands.

    def memory(self, ins: vir.Ins) -> Mem:
        """Where the instruction reads or writes."""
        if not -(1 << 31) <= ins.disp < 1 << 31:
            raise DoesNotFit("an array is larger than 2 GiB")
        return Mem(self.pointers[ins.ptr], ins.disp)

    def constant(self, value: object, type: str) -> bytes:
        """A constant in all lanes of a pool entry."""
        form = {"f32": "<f", "f64": "<d", "i32": "<i", "i64": "<q"}[type]
        if type in ("i32", "i64"):
            bits = 32 if type == "i32" else 64
            whole = int(value)  # type: ignore[call-overload]
            value = (whole + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        return struct.pack(form, value) * (self.vector // SIZE[type])

    def pooled(
        self, name: str, width: int, reg: int, other: int, data: bytes, imm: int = -1
    ) -> None:
        """An instruction whose memory operand is a constant."""
        encoded = vector_at(name, width, reg, other, RIP, 0, imm)
        self.code.constant(encoded, data, 0 if imm < 0 else 1)

    def emit(
        self,
        name: str,
        width: int,
        reg: int,
        other: int,
        rm: int,
        imm: int = -1,
        mask: int = 0,
        zero: bool = False,
    ) -> None:
        """An instruction between registers."""
        self.code.parts.append(vector(name, width, reg, other, rm, imm, mask, zero))

    def emit_at(
        self,
        name: str,
        width: int,
        reg: int,
        other: int,
        ins: vir.Ins,
        imm: int = -1,
        mask: int = 0,
        zero: bool = False,
    ) -> None:
        """An instruction with the memory operand of `ins`."""
        disp = ins.disp
        if not -(1 << 31) <= disp < 1 << 31:
            raise DoesNotFit("an array is larger than 2 GiB")
        base = self.pointers[ins.ptr]
        self.code.parts.append(vector_at(name, width, reg, other, base, disp, imm, mask, zero))

    def apply(self, name: str, width: int, reg: int, other: int, value: int, imm: int = -1) -> None:
        """An instruction whose last operand is a value: a register, or folded memory."""
        ins = self.plan.folded.get(value)
        if ins is None:
            self.emit(name, width, reg, other, self.registers.of[value], imm)
        elif ins.op == "const":
            self.pooled(name, width, reg, other, self.constant(ins.imm, ins.type), imm)
        else:
            self.emit_at(name, width, reg, other, ins, imm)

    def _target(self, ins: vir.Ins) -> int:
        """The result's register; a source that ends here may give its own."""
        of, dst = self.registers.of, ins.dst
        if of[dst] >= 0:
            return of[dst]
        last, number = self.plan.last, self.number
        for source in ins.src:
            if of[source] >= 0 and last[source] <= number and source != dst:
                return self.registers.rename(source, dst)
        return self.registers.take(dst)
