"""Loads, stores and copies: where they may go, when they are undefined, what they read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planish.verify import integers, memory, values
from planish.verify import terms as t
from planish.verify.ir import Instruction, Type, Unsupported
from planish.verify.memory import Cell
from planish.verify.terms import FALSE, INDEX, TRUE, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Group, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.machine import Machine
from planish.verify.pointers import address, is_null

MOST_BYTES = 512


def check(
    machine: Machine, pointer: Scalar, size: int, align: int, *, writes: bool
) -> list[tuple[Term, int]]:
    """Note when an access is undefined; the blocks that it may reach, with conditions."""
    assert pointer.block is not None
    machine.undefined(pointer.poison)
    reached = memory.origins(pointer.block, machine.leaked)
    for condition, number in reached:
        if number == OUTSIDE:
            bad = t.not_(_valid(machine, pointer.bits, size))
            base = None
        else:
            slot = machine.shared.slots[number]
            assert slot.size is not None
            base = slot.base
            bad = t.ult(t.bv(max(slot.size - size, 0), INDEX), pointer.bits)
            gone = number not in machine.state.blocks
            if slot.size < size or (writes and slot.frozen) or gone:
                bad = TRUE
        bad = t.or_(bad, _misaligned(base, pointer.bits, align))
        machine.undefined(t.and_(condition, bad))
    return [(c, n) for c, n in reached if n in machine.state.blocks]


def _misaligned(base: Term | None, at: Term, align: int) -> Term:
    if align <= 1:
        return FALSE
    bits = align.bit_length() - 1
    low = t.extract(at if base is None else t.add(base, at), bits - 1, 0)
    return t.not_(t.eq(low, t.bv(0, bits)))


def _valid(machine: Machine, at: Term, size: int) -> Term:
    """Whether memory outside may be accessed; a global's own bytes always may."""
    root, number = memory.split(at)
    if root is not None:
        for name, known in machine.shared.globals.items():
            if machine.shared.address(name)[1] is root and 0 <= number <= known.size - size:
                return TRUE
    found = [t.not_(t.eq(at, t.bv(0, INDEX)))]
    for step in range(size):
        place = t.add(at, t.bv(step, INDEX))
        machine.shared.checks.append(place)
        found.append(t.bv_to_bool(t.select(machine.state.valid, place)))
    return t.and_(*found)


def load(machine: Machine, instruction: Instruction) -> Meaning:
    """A load; its metadata can make the result poison or the behaviour undefined."""
    pointer, kind = machine.scalar(instruction.operands[0]), instruction.type
    reached = check(machine, pointer, kind.store, instruction.numbers[0], writes=False)
    _note(machine, instruction, pointer, kind.store)
    result = read(machine, reached, pointer.bits, kind)
    if instruction.flags & {"!nonnull", "!range", "!noundef"}:
        result = _promised(machine, instruction, result)
    return result


def _note(machine: Machine, instruction: Instruction, pointer: Scalar, size: int) -> None:
    """Remember what the source's metadata says of aliasing, for judging counterexamples."""
    if machine.side != "s":
        return
    if instruction.flags & {"!alias.scope", "!noalias"}:
        machine.shared.restricts_aliasing = True
    if "!tbaa" in instruction.flags and pointer.block is t.bv(OUTSIDE, PROVENANCE):
        machine.shared.accesses.append((instruction.text, pointer.bits, size, machine.condition))


def _promised(machine: Machine, instruction: Instruction, result: Meaning) -> Meaning:
    """What !nonnull, !range and !noundef say of a loaded value."""
    if isinstance(result, Group):
        raise Unsupported("metadata on a load of a vector")
    poison = result.poison
    if "!nonnull" in instruction.flags:
        poison = t.or_(poison, is_null(machine, result))
    if "!range" in instruction.flags:
        inside = (integers.within(result.bits, *bounds) for bounds in instruction.bounds)
        poison = t.or_(poison, t.not_(t.or_(*inside)))
    if "!noundef" in instruction.flags:
        machine.undefined(poison)
    return replace(result, poison=poison)


def read(machine: Machine, reached: list[tuple[Term, int]], at: Term, kind: Type) -> Meaning:
    """The value of a type in memory; poison where no block is reached."""
    if kind.scalar:
        return _read_scalar(machine, reached, at, kind)
    if kind.kind not in ("vector", "array", "struct"):
        raise Unsupported(f"type {kind}")
    if kind.kind == "vector" and kind.parts[0].width % 8:
        raise Unsupported(f"load or store of {kind}")
    if kind.kind == "array" and kind.size and not kind.parts:
        raise Unsupported("array value of more than 4096 elements")
    parts = [
        read(machine, reached, t.add(at, t.bv(place, INDEX)), part)
        for part, place in zip(kind.parts, kind.offsets, strict=True)
    ]
    return Group(tuple(parts))


def _read_scalar(machine: Machine, reached: list[tuple[Term, int]], at: Term, kind: Type) -> Scalar:
    found: Meaning | None = None
    for condition, number in reversed(reached):
        block = machine.state.blocks[number]
        cells = [memory.read(block, t.add(at, t.bv(step, INDEX))) for step in range(kind.store)]
        value = memory.from_cells(cells, kind, machine.fresh)
        if kind.kind != "ptr" and value.block is not None:
            if kind.width != 64 and not _only_outside(machine, value.block):
                _in_parts(machine, value.block)
            bits = address(machine, value) if kind.width == 64 else value.bits
            value = Scalar(bits, value.poison, None, value.undefs)
        found = value if found is None else values.merge(condition, value, found)
    if found is None:
        return values.leaves(values.poison_of(kind))[0]
    assert isinstance(found, Scalar)
    return found


def _in_parts(machine: Machine, block: Term) -> None:
    """Bytes read as a number that may be part of a slot's address; what callees left is not."""
    if any(term.op == "const" and t.value_of(term) != OUTSIDE for term in _leaves(block)):
        raise Unsupported("pointer read in parts")
    machine.assumptions.add("callees leave no address of a stack slot that is read in parts")
    outside = t.eq(block, t.bv(OUTSIDE, PROVENANCE))
    machine.undefined(t.not_(outside))


def _leaves(block: Term) -> list[Term]:
    if block.op == "ite":
        return [*_leaves(block.args[1]), *_leaves(block.args[2])]
    return [block]


def _only_outside(machine: Machine, block: Term) -> bool:
    return all(number == OUTSIDE for _, number in memory.origins(block, machine.leaked))


def store(machine: Machine, instruction: Instruction) -> None:
    """A store."""
    value, kind = machine.use(instruction.operands[0]), instruction.operands[0].type
    pointer = machine.scalar(instruction.operands[1])
    reached = check(machine, pointer, kind.store, instruction.numbers[0], writes=True)
    _note(machine, instruction, pointer, kind.store)
    for place, cells in cells_of(machine, value, kind, 0):
        write(machine, reached, t.add(pointer.bits, t.bv(place, INDEX)), cells)


def cells_of(machine: Machine, value: Meaning, kind: Type, at: int) -> list[tuple[int, list[Cell]]]:
    """The bytes of a value, by offset; padding is left out."""
    if isinstance(value, Scalar):
        if value.block is not None and not value.block.constant:
            machine.leaked |= {
                number
                for _, number in memory.origins(value.block, machine.leaked)
                if number != OUTSIDE
            }
        elif value.block is not None and t.value_of(value.block) != OUTSIDE:
            machine.leaked |= {t.value_of(value.block)}
        return [(at, memory.to_cells(value, kind))]
    if kind.kind == "vector" and kind.parts[0].width % 8:
        raise Unsupported(f"load or store of {kind}")
    found = []
    for part, inner, place in zip(value.parts, kind.parts, kind.offsets, strict=True):
        found += cells_of(machine, part, inner, at + place)
    return found


def write(machine: Machine, reached: list[tuple[Term, int]], at: Term, cells: list[Cell]) -> None:
    """Replace bytes in every block that may be meant."""
    for condition, number in reached:
        block = machine.state.blocks[number]
        new = memory.write(block, at, cells)
        machine.state.blocks[number] = memory.merge(condition, new, block)


def copy(
    machine: Machine, target: Scalar, source: Scalar, size: int, aligns: tuple[int, int]
) -> None:
    """memcpy and memmove of a constant size."""
    if not size:
        return
    reached = check(machine, source, size, aligns[1], writes=False)
    cells = []
    for step in range(size):
        at = t.add(source.bits, t.bv(step, INDEX))
        cell: Cell | None = None
        for condition, number in reversed(reached):
            one = memory.read(machine.state.blocks[number], at)
            cell = (
                one
                if cell is None
                else Cell(
                    t.ite(condition, one.byte, cell.byte), t.ite(condition, one.undef, cell.undef)
                )
            )
        cells.append(cell or Cell(memory.byte(t.bv(0, 8), t.bv(OUTSIDE, PROVENANCE), TRUE)))
    reached = check(machine, target, size, aligns[0], writes=True)
    write(machine, reached, target.bits, cells)


def fill(machine: Machine, target: Scalar, value: Scalar, size: int, align: int) -> None:
    """memset of a constant size."""
    if not size:
        return
    reached = check(machine, target, size, align, writes=True)
    cell = Cell(memory.byte(value.bits, t.bv(OUTSIDE, PROVENANCE), value.poison))
    write(machine, reached, target.bits, [cell] * size)
