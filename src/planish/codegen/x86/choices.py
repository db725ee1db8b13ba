"""Choices between two values, lane by lane: by a comparison, or by the lanes' numbers."""

from __future__ import annotations

from planish.codegen import vir
from planish.codegen.vir import SIZE
from planish.codegen.x86.memory_ops import MemoryOps
from planish.codegen.x86.operands import FLOAT
from planish.codegen.x86.registers import DoesNotFit

_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4, "ge": 0x1D, "gt": 0x1E}
_WHOLE_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4, "ge": 5, "gt": 6}


class ChoiceOps(MemoryOps):
    """Instructions that choose."""

    def _cmpsel(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, tuple)
        predicate, compared = ins.imm
        a, b, x, y = (self.registers.of[v] for v in ins.src)
        width = self.widths[compared]
        chosen = self.widths[ins.type]
        if compared == "i64" and not self.wide:
            raise DoesNotFit("AVX2 compares no i64 here")
        if self.wide:
            target = self._target(ins)
            if compared in ("i32", "i64"):
                name = "vpcmpd" if compared == "i32" else "vpcmpq"
                self.emit(name, width, 7, a, b, _WHOLE_PREDICATES[predicate])
            else:
                name = f"vcmp{FLOAT[compared]}"
                self._compare(name, width, a, b, _PREDICATES[predicate])
            blend = "vblendmpd" if ins.type in ("f64", "i64") else "vblendmps"
            self.emit(blend, chosen, target, y, x, mask=7)
            return
        if SIZE[compared] != SIZE[ins.type]:
            raise DoesNotFit(f"AVX2 chooses no {ins.type} by a comparison of {compared}")
        if compared == "i32":
            a, b, x, y = self._compare_whole(predicate, width, a, b, x, y)
        else:
            self.emit(f"vcmp{FLOAT[compared]}", width, self.scratch, a, b, _PREDICATES[predicate])
        target = self._target(ins)
        blend = "vblendvpd" if SIZE[ins.type] == 8 else "vblendvps"
        self.emit(blend, chosen, target, y, x, self.scratch << 4)

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
        new, old = (self.registers.of[v] for v in ins.src)
        target = self._target(ins)
        width = self.widths[ins.type]
        if self.wide:
            blend = "vblendmpd" if SIZE[ins.type] == 8 else "vblendmps"
            self.emit(blend, width, target, old, new, mask=self.masks[ins.n])
            return
        blend = "vblendpd" if SIZE[ins.type] == 8 else "vblendps"
        self.emit(blend, width, target, old, new, (1 << ins.n) - 1)
