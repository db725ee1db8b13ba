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
from planish.codegen.vir import SIZE

# Last operands that may lie in memory, by operation; those that may swap their operands.
_FOLDABLE = {"add", "sub", "mul", "div", "min", "max", "and", "or", "xor", "fma", "fnma", "sqrt"}
_COMMUTATIVE = {"add", "mul", "and", "or", "xor"}


class DoesNotFit(PlanishError):
    """The x86 path cannot take this kernel; the LLVM path can."""


@dataclass
class Plan:
    """What the linear scan and the emitter must know of a kernel.

    flat    its instructions in order
    last    by register, the number of the instruction that uses it last
    ends    by instruction number, the registers that are free behind it, if any
    folded  registers that never are in a register: their only use reads memory
    masks   numbers of lanes that instructions are limited to, rising
    """

    flat: list[vir.Ins]
    last: list[int]
    ends: list[list[int] | None]
    folded: dict[int, vir.Ins]
    masks: list[int]


def plan_kernel(body: vir.Body) -> Plan:
    """Live ranges, and which loads become memory operands."""
    flat: list[vir.Ins] = []
    spans: list[tuple[int, int]] = []
    _flatten(body.runs, flat, spans)
    count, lanes = body.registers, body.lanes
    first, last, uses = [-1] * count, [-1] * count, [0] * count
    partial = set()
    for number, (op, type, register, src, _, _, n, imm) in enumerate(flat):
        for source in src:
            last[source] = number
            uses[source] += 1
        if register >= 0:
            last[register] = number
            if first[register] < 0:
                first[register] = number
        if op in _LIMITED:
            if is_masked(op, type, n, lanes):
                partial.add(n)
        elif op == "fill":
            assert isinstance(imm, vir.Fill)
            for value in imm.registers:
                first[value] = last[value] = number
        elif op == "tile" or op == "stores":
            assert isinstance(imm, vir.Tile | vir.Stores)
            places = imm.lanes[1] if isinstance(imm, vir.Tile) else imm.places
            partial.update([n for _, n in places if n != lanes])
    for begin, end in spans:  # inner loops come before those around them
        for register, number in enumerate(first):
            if number < begin and begin <= last[register] < end:
                last[register] = end
    borders = {begin for begin, _ in spans} | {end + 1 for _, end in spans}
    folded = _fold(flat, borders, uses, lanes)
    ends: list[list[int] | None] = [None] * len(flat)
    for register, number in enumerate(last):
        if number >= 0 and register not in folded:
            found = ends[number]
            if found is None:
                ends[number] = [register]
            else:
                found.append(register)
    return Plan(flat, last, ends, folded, sorted(partial))


_LIMITED = ("load", "store", "lanes", "gather")


def is_masked(op: str, type: str, n: int, lanes: int) -> bool:
    """Whether an instruction must keep off some lanes of a register."""
    return op == "gather" or n != lanes or (lanes > 1 and lanes * SIZE[type] < 16)


def _flatten(runs: Sequence[vir.Item], flat: list[vir.Ins], spans: list[tuple[int, int]]) -> None:
    """Instructions in order, and from which number to which each loop reaches."""
    for run in runs:
        if isinstance(run, list):
            flat += run
            continue
        assert isinstance(run, vir.Loop)
        for segment in run.segments:
            begin = len(flat)
            _flatten(segment.body, flat, spans)
            spans.append((begin, len(flat) - 1))


def _fold(
    flat: list[vir.Ins], borders: set[int], uses: Sequence[int], lanes: int
) -> dict[int, vir.Ins]:
    """Loads and constants whose one use can read memory itself, in the same straight line.

    Where operands change places for it, the instruction in `flat` is exchanged.
    """
    folded: dict[int, vir.Ins] = {}
    pending: dict[int, vir.Ins] = {}
    for number, ins in enumerate(flat):
        op = ins[0]
        if pending:
            if number in borders:
                pending.clear()
            elif op in _FOLDABLE:
                flat[number] = _fold_into(ins, pending, folded)
            elif op in ("store", "stores"):
                pending = {r: i for r, i in pending.items() if i.op == "const"}
        if op in _MEMORY and uses[ins.dst] == 1 and _may_fold(ins, lanes):
            pending[ins.dst] = ins
    return folded


_MEMORY = ("const", "load")


def _may_fold(ins: vir.Ins, lanes: int) -> bool:
    if ins.op == "const":
        return True
    return lanes > 1 and ins.n == lanes and ins.imm == ins.type and lanes * SIZE[ins.type] >= 16


def _fold_into(ins: vir.Ins, pending: dict[int, vir.Ins], folded: dict[int, vir.Ins]) -> vir.Ins:
    """Fold one operand if it may be; the instruction, its operands in the order that needs."""
    op, source = ins.op, ins.src
    if pending.keys().isdisjoint(source) or len(set(source)) != len(source):
        return ins
    order: tuple[int, ...]
    if op in ("fma", "fnma"):
        order = (1, 0, 2)
    elif op in _COMMUTATIVE:
        order = (len(source) - 1, 0)
    else:
        order = (len(source) - 1,)
    for at in order:
        register = source[at]
        # An accumulator's first value is a constant with two uses, never folded.
        if register in pending and register != ins.dst:
            folded[register] = pending.pop(register)
            if at == 0 and op in _COMMUTATIVE:
                return ins._replace(src=(source[1], source[0]))
            if at == 0 and op in ("fma", "fnma"):
                return ins._replace(src=(source[1], source[0], source[2]))
            return ins
    return ins


class Registers:
    """Hands out register numbers; knows which are free. `of` is each value's, -1 for none."""

    def __init__(self, count: int, values: int, name: str) -> None:
        self.free = list(range(count - 1, -1, -1))
        self.of = [-1] * values
        self._name = name
        self._count = count

    def borrow(self) -> int:
        """A register for a moment; it is to be put back into `free`. Raises DoesNotFit."""
        if not self.free:
            raise DoesNotFit(
                f"{self._name} needs more than {self._count} vector registers",
                hint="take a smaller register tile",
            )
        return self.free.pop()

    def take(self, value: int) -> int:
        """A register for a value. Raises DoesNotFit when none is free."""
        found = self.of[value]
        if found < 0:
            found = self.of[value] = self.borrow()
        return found

    def rename(self, old: int, new: int) -> int:
        """The register of a value that ends here, for one that begins."""
        register = self.of[new] = self.of[old]
        self.of[old] = -1
        return register
