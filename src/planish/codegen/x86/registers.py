"""Vector registers for a kernel: one linear scan, no spills.

A kernel's instructions are numbered in order; a value lives from its first definition to its
last use, and through every loop that it enters from outside. What does not fit is refused, and
a smaller tile is the answer: spilled accumulators would cost more than they bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planish.base.errors import PlanishError
from planish.codegen import vir

# Last operands that may lie in memory, by operation; those that may swap their operands.
_FOLDABLE = {"add", "sub", "mul", "div", "min", "max", "and", "or", "xor", "fma", "fnma", "sqrt"}
_COMMUTATIVE = {"add", "mul", "and", "or", "xor"}


class DoesNotFit(PlanishError):
    """The x86 path cannot take this kernel; the LLVM path can."""


@dataclass
class Plan:
    """What the linear scan and the emitter must know of a kernel.

    last    by register, the number of the instruction that uses it last
    ends    by instruction number, the registers that are free behind it
    folded  registers that never are in a register: their only use reads memory
    """

    last: list[int]
    ends: list[list[int]]
    folded: dict[int, vir.Ins]


def plan_kernel(kernel: vir.Kernel) -> Plan:
    """Live ranges, and which loads become memory operands."""
    flat: list[vir.Ins] = []
    spans: list[tuple[int, int]] = []
    _flatten(kernel.body, flat, spans)
    count = kernel.registers
    first, last, uses = [-1] * count, [-1] * count, [0] * count
    for number, ins in enumerate(flat):
        for register in ins.src:
            last[register] = number
            uses[register] += 1
        register = ins.dst
        if register >= 0:
            last[register] = number
            if first[register] < 0:
                first[register] = number
    for begin, end in spans:  # inner loops come before those around them
        for register in range(count):
            if first[register] < begin <= last[register] < end:
                last[register] = end
    folded = _fold(flat, {begin for begin, _ in spans} | {end + 1 for _, end in spans}, uses,
                   kernel.lanes)  # fmt: skip
    ends: list[list[int]] = [[] for _ in flat]
    for register, number in enumerate(last):
        if number >= 0 and register not in folded:
            ends[number].append(register)
    return Plan(last, ends, folded)


def _flatten(items: Sequence[vir.Item], flat: list[vir.Ins], spans: list[tuple[int, int]]) -> None:
    """Instructions in order, and from which number to which each loop reaches."""
    for item in items:
        if isinstance(item, vir.Ins):
            flat.append(item)
            continue
        assert isinstance(item, vir.Loop)
        for segment in item.segments:
            begin = len(flat)
            _flatten(segment.body, flat, spans)
            spans.append((begin, len(flat) - 1))


def _fold(
    flat: Sequence[vir.Ins], borders: set[int], uses: Sequence[int], lanes: int
) -> dict[int, vir.Ins]:
    """Loads and constants whose one use can read memory itself, in the same straight line."""
    folded: dict[int, vir.Ins] = {}
    pending: dict[int, vir.Ins] = {}
    for number, ins in enumerate(flat):
        if number in borders:
            pending.clear()
        if pending and ins.op in _FOLDABLE:
            _fold_into(ins, pending, folded)
        elif ins.op == "store" and pending:
            pending = {r: i for r, i in pending.items() if i.op == "const"}
        if ins.op in _MEMORY and uses[ins.dst] == 1 and _may_fold(ins, lanes):
            pending[ins.dst] = ins
    return folded


_MEMORY = ("const", "load")


def _may_fold(ins: vir.Ins, lanes: int) -> bool:
    if ins.op == "const":
        return True
    return lanes > 1 and ins.n == lanes and ins.imm == ins.type and lanes * SIZE[ins.type] >= 16


# Bytes of a lane, by the type of the register.
SIZE = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}


def _fold_into(ins: vir.Ins, pending: dict[int, vir.Ins], folded: dict[int, vir.Ins]) -> None:
    source = ins.src
    if len(set(source)) != len(source):
        return
    order: tuple[int, ...]
    if ins.op in ("fma", "fnma"):
        order = (1, 0, 2)
    elif ins.op in _COMMUTATIVE:
        order = (len(source) - 1, 0)
    else:
        order = (len(source) - 1,)
    for at in order:
        register = source[at]
        # An accumulator's first value is a constant with two uses, never folded.
        if register in pending and register != ins.dst:
            folded[register] = pending.pop(register)
            if ins.op in _COMMUTATIVE and at == 0:
                ins.src = (source[1], source[0])
            elif ins.op in ("fma", "fnma") and at == 0:
                ins.src = (source[1], source[0], source[2])
            return


class Registers:
    """Hands out register numbers; knows which are free."""

    def __init__(self, count: int, name: str) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._name = name
        self._count = count
        self.of: dict[int, int] = {}

    def take(self, value: int) -> int:
        """A register for a value. Raises DoesNotFit when none is free."""
        if value in self.of:
            return self.of[value]
        if not self._free:
            raise DoesNotFit(
                f"{self._name} needs more than {self._count} vector registers",
                hint="take a smaller register tile",
            )
        self.of[value] = register = self._free.pop()
        return register

    def rename(self, old: int, new: int) -> int:
        """The register of a value that ends here, for one that begins."""
        register = self.of.pop(old)
        self.of[new] = register
        return register

    def release(self, value: int) -> None:
        """A value has been used for the last time."""
        if value in self.of:
            self._free.append(self.of.pop(value))
