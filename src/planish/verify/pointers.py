"""Pointers: arithmetic, comparison, loads and stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from planish.verify import integers, memory, values
from planish.verify import terms as t
from planish.verify.ir import Function, Instruction, Local, Type, Unsupported
from planish.verify.memory import Cell
from planish.verify.terms import FALSE, INDEX, TRUE, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Group, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.instructions import Machine

_PASSES_ON = frozenset({"getelementptr", "select", "phi", "bitcast", "freeze", "insertvalue",
                        "extractvalue", "insertelement", "extractelement"})  # fmt: skip
_NO_CAPTURE = frozenset({"icmp", "load"})
MOST_BYTES = 512


def captured(function: Function, slots: Mapping[int, int]) -> frozenset[int]:
    """Stack slots (block numbers) whose address may leave the function's own hands.

    Stored, given to a call, returned or turned into a number, wherever that happens.
    """
    origin: dict[int, set[int]] = {number: {block} for number, block in slots.items()}
    found: set[int] = set()
    changed = True
    while changed:
        changed = False
        for body in function.blocks:
            for instruction in body.instructions:
                changed |= _spread(instruction, origin, found)
    return frozenset(found)


def _spread(instruction: Instruction, origin: dict[int, set[int]], found: set[int]) -> bool:
    held: set[int] = set()
    for at, operand in enumerate(instruction.operands):
        if isinstance(operand.value, Local) and not (instruction.op == "store" and at == 1):
            held |= origin.get(operand.value.number, set())
    if not held or instruction.op in _NO_CAPTURE:
        return False
    if instruction.op == "call" and instruction.name.startswith(("llvm.mem", "llvm.lifetime")):
        return False
    if instruction.op in _PASSES_ON:
        before = origin.setdefault(instruction.number, set())
        grows = not held <= before
        before |= held
        return grows
    grows = not held <= found
    found |= held
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
            from_null = t.and_(t.eq(base.bits, zero), t.not_(t.eq(total, zero)))
            bad = t.or_(_wraps(base.bits, total), from_null)
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


# -- access --------------------------------------------------------------------------------------


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
        width, inside = result.bits.sort, FALSE
        for low, high in instruction.bounds:
            first, past = t.bv(low, width), t.bv(high, width)
            below, above = t.ult(result.bits, past), t.ule(first, result.bits)
            whole = t.and_(below, above) if low < high else t.or_(below, above)
            inside = t.or_(inside, whole)
        poison = t.or_(poison, t.not_(inside))
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
