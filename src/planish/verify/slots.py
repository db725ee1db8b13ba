"""Stack slots: their numbers and addresses, and which of the target's stands for which of the
source's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planish.verify import pointers
from planish.verify import terms as t
from planish.verify.ir import Function, Instruction, Unsupported
from planish.verify.memory import Slot
from planish.verify.shared import Free, Shared
from planish.verify.terms import INDEX

_MOST_SLOTS = 500


def slots_of(shared: Shared, function: Function, side: str) -> dict[int, int]:
    """Number the stack slots of one run of a function, by instruction.

    The target's that have a counterpart of the same size in the source are one block with it: a
    choice of the source's addresses, which it is free to make.
    """
    numbers: dict[int, int] = {}
    places = pointers.places(function)
    for instruction in _slots(function):
        size, align = instruction.numbers
        mine = Free(0, size, _plain(instruction.text), places[instruction.number])
        number = _counterpart(mine, shared.free) if side == "t" else 0
        if not number:
            number = shared.next_slot
            shared.next_slot += 1
            if number > _MOST_SLOTS:
                raise Unsupported("more than 500 stack slots")
            shared.slots[number] = _slot(shared, number, size, align)
        elif align > shared.slots[number].align:
            shared.slots[number] = _aligned(shared, shared.slots[number], align)
        numbers[instruction.number] = number
        if side == "s":
            shared.free.append(Free(number, mine.size, mine.name, mine.places))
    return numbers


def _slot(shared: Shared, number: int, size: int, align: int) -> Slot:
    zeros = max(align, 1).bit_length() - 1
    free = t.var(f"slot {number}", INDEX - zeros)
    base = t.concat(free, t.bv(0, zeros)) if zeros else free
    end = t.add(base, t.bv(max(size, 1), INDEX))
    shared.facts += [t.not_(t.eq(base, t.bv(0, INDEX))), t.ult(base, end)]
    return Slot(size, base, align)


def _aligned(shared: Shared, slot: Slot, align: int) -> Slot:
    """The slot at the same address, known to be a multiple of more."""
    zeros = align.bit_length() - 1
    base = t.concat(t.extract(slot.base, INDEX - 1, zeros), t.bv(0, zeros))
    shared.facts.append(t.eq(base, slot.base))
    return Slot(slot.size, base, align)


def _slots(function: Function) -> Sequence[Instruction]:
    return [i for block in function.blocks for i in block.instructions if i.op == "alloca"]


def _plain(name: str) -> str:
    """A slot's name without what the inliner appends."""
    return re.sub(r"(\.i\d*)+$", "", name)


def _counterpart(mine: Free, free: list[Free]) -> int:
    """The free slot that is most alike; 0 where none has the size.

    A name tells most, where there is one; then whose addresses go to the same calls, then whether
    they go anywhere: most of what a front end makes are variables that no one else sees.
    """
    same = [entry for entry in free if entry.size == mine.size]
    if not same:
        return 0

    def likeness(entry: Free) -> tuple[bool, int, bool]:
        named = bool(mine.name) and entry.name == mine.name
        alike = bool(entry.places) == bool(mine.places)
        return named, len(entry.places & mine.places), alike

    found = max(same, key=likeness)  # the first of those
    free.remove(found)
    return found.number
