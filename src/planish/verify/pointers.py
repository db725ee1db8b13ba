"""Pointers: arithmetic, comparison, and which stack slots they may give away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from planish.verify import integers, memory
from planish.verify import terms as t
from planish.verify.ir import Function, Instruction, Local
from planish.verify.terms import FALSE, INDEX, TRUE, Term
from planish.verify.values import OUTSIDE, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.machine import Machine

_PASSES_ON = frozenset({"getelementptr", "select", "phi", "bitcast", "freeze", "insertvalue",
                        "extractvalue", "insertelement", "extractelement"})  # fmt: skip
_NO_CAPTURE = frozenset({"icmp", "load"})


def captured(function: Function, slots: Mapping[int, int]) -> frozenset[int]:
    """Stack slots (block numbers) whose address may leave the function's own hands.

    Stored, given to a call, returned or turned into a number, wherever that happens.
    """
    found = places(function)
    return frozenset(block for number, block in slots.items() if found[number])


def places(function: Function) -> dict[int, frozenset[str]]:
    """Of each stack slot (by its instruction) where its address leaves the function's own hands."""
    body = [instruction for block in function.blocks for instruction in block.instructions]
    origin = {one.number: {one.number} for one in body if one.op == "alloca"}
    found: dict[int, set[str]] = {number: set() for number in origin}
    changed = bool(origin)
    while changed:
        changed = False
        for instruction in body:
            changed |= _spread(instruction, origin, found)
    return {number: frozenset(words) for number, words in found.items()}


def _spread(
    instruction: Instruction, origin: dict[int, set[int]], found: dict[int, set[str]]
) -> bool:
    """Follow addresses through one instruction; whether there is something new to follow."""
    if instruction.op in _NO_CAPTURE:
        return False
    calls = instruction.op == "call"
    if calls and instruction.name.startswith(("llvm.mem", "llvm.lifetime")):
        return False
    grows = False
    for at, operand in enumerate(instruction.operands):
        if not isinstance(operand.value, Local) or (instruction.op == "store" and at == 1):
            continue
        held = origin.get(operand.value.number, set())
        if held and instruction.op in _PASSES_ON:
            onward = origin.setdefault(instruction.number, set())
            grows |= not held <= onward
            onward |= held
            continue
        for slot in held:
            found[slot].add(f"{instruction.name} {at}" if calls else instruction.op)
    return grows


def address(machine: Machine, pointer: Scalar) -> Term:
    """The number that a pointer is."""
    assert pointer.block is not None
    found = pointer.bits
    for condition, number in memory.origins(pointer.block, machine.leaked):
        if number != OUTSIDE:
            base = machine.shared.slots[number].base
            found = t.ite(condition, t.add(base, pointer.bits), found)
    return found


def is_null(machine: Machine, pointer: Scalar) -> Term:
    """Whether a pointer is null; what lies in a variable or a stack slot is not."""
    whole = address(machine, pointer)
    root, at = memory.split(whole)
    shared = machine.shared
    for name, known in shared.globals.items():
        if root is shared.base(name) and 0 <= at <= max(known.size, 1):
            return FALSE
    for slot in shared.slots.values():
        if root is slot.base and 0 <= at <= max(slot.size or 1, 1):
            return FALSE
    return machine.known(t.eq(whole, t.bv(0, INDEX)))


def offset(machine: Machine, instruction: Instruction) -> Meaning:
    """getelementptr."""
    base = machine.scalar(instruction.operands[0])
    fixed, *scales = instruction.numbers
    flags = instruction.flags
    checked = bool({"inbounds", "nusw"} & flags)
    total, poison, undefs = t.bv(fixed, INDEX), base.poison, base.undefs
    for operand, scale in zip(instruction.operands[1:], scales, strict=True):
        index = machine.scalar(operand)
        wide = (
            t.sext(index.bits, INDEX)
            if index.bits.sort <= INDEX
            else t.extract(index.bits, INDEX - 1, 0)
        )
        size = t.bv(scale, INDEX)
        step = t.mul(wide, size)
        poison = t.or_(poison, index.poison)
        undefs |= index.undefs
        if checked:
            far = integers.overflows("mul", wide, size, signed=True) if scale != 1 else FALSE
            if index.bits.sort <= 32 and scale < 1 << 31:
                far = FALSE
            far = t.or_(far, integers.overflows("add", total, step, signed=True))
            poison = t.or_(poison, far)
        total = t.add(total, step)
    assert base.block is not None
    bits = t.add(base.bits, total)
    if "nuw" in flags:
        poison = t.or_(poison, integers.overflows("add", base.bits, total, signed=False))
    if "inbounds" in flags:
        poison = t.or_(poison, _out_of_bounds(machine, base, total))
    elif checked:
        poison = t.or_(poison, _wraps(base.bits, total))
    return Scalar(bits, poison, base.block, undefs)


def _wraps(base: Term, total: Term) -> Term:
    """Adding a signed offset to an unsigned address leaves the address space."""
    if total.constant:
        k = t.signed(total)
        if k == 0:
            return FALSE
        if k > 0:
            return t.ult(t.bv(-k - 1, INDEX), base)
        return t.ult(base, t.bv(-k, INDEX))
    negative = t.slt(total, t.bv(0, INDEX))
    end = t.add(base, total)
    return t.ite(negative, t.not_(t.ult(end, base)), t.ult(end, base))


def _out_of_bounds(machine: Machine, base: Scalar, total: Term) -> Term:
    """inbounds leads out of the block. Of those of unknown size is known that they do not wrap,
    and that null lies in none."""
    assert base.block is not None
    if total.constant and t.value_of(total) == 0:
        return FALSE
    found = FALSE
    for condition, number in memory.origins(base.block, machine.leaked):
        if number == OUTSIDE:
            zero = t.bv(0, INDEX)
            either_null = t.or_(t.eq(base.bits, zero), t.eq(t.add(base.bits, total), zero))
            moves = t.not_(t.eq(total, zero))
            bad = t.or_(_wraps(base.bits, total), t.and_(either_null, moves))
        else:
            size = machine.shared.slots[number].size
            assert size is not None
            limit = t.bv(size, INDEX)
            end = t.add(base.bits, total)
            bad = t.or_(t.ult(limit, end), t.ult(limit, base.bits))
        found = t.or_(found, t.and_(condition, bad))
    return found


def compare(machine: Machine, predicate: str, a: Scalar, b: Scalar) -> Term:
    """icmp of pointers. Pointers into two different blocks are never equal within them."""
    assert a.block is not None and b.block is not None
    if a.block is b.block and predicate in ("eq", "ne"):
        return integers.compare(predicate, a.bits, b.bits)
    x, y = address(machine, a), address(machine, b)
    if a.block is b.block or predicate not in ("eq", "ne"):
        return integers.compare(predicate, x, y)
    same = FALSE
    for when, first in memory.origins(a.block, machine.leaked):
        for also, second in memory.origins(b.block, machine.leaked):
            if first == second:
                equal = t.eq(a.bits, b.bits)
            else:
                apart = t.and_(_within(machine, first, a.bits), _within(machine, second, b.bits))
                equal = t.and_(t.not_(apart), t.eq(x, y))
            same = t.or_(same, t.and_(when, also, equal))
    return same if predicate == "eq" else t.not_(same)


def _within(machine: Machine, number: int, at: Term) -> Term:
    if number == OUTSIDE:
        return TRUE
    size = machine.shared.slots[number].size
    assert size is not None
    return t.ult(at, t.bv(size, INDEX))
