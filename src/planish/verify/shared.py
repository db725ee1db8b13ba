"""What a source and a target share: inputs, globals, stack slots that correspond, the outer world.

A call of an unknown function is a question to the world: its inputs are the arguments, the memory
that it can see and the world's state. The target's call gets the source's answer where its inputs
refine the source's; the last state of the world tells whether both asked the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planish.verify import terms as t
from planish.verify.ir import Function, Global, Instruction, Parameter, Unsupported
from planish.verify.memory import INITIAL, Cell, Slot
from planish.verify.terms import BOOL, INDEX, MEMORY, VALID, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Meaning, Scalar, build

_FIRST_TABLE = 512
_MOST_SLOTS = 500


@dataclass(frozen=True)
class Answer:
    """What a call gives back.

    escaped  contents of stack slots that the callee could write, by block
    diverges it does not return, and does not unwind
    unwinds  it ends by an exception
    """

    result: Meaning | None
    world: Term
    memory: Term
    valid: Term
    escaped: dict[int, Term]
    diverges: Term
    unwinds: Term


@dataclass(frozen=True)
class Question:
    """What a call depends on. `arguments` are (bits, poison, block) of every scalar."""

    side: str
    callee: str
    arguments: tuple[tuple[Term, Term, Term], ...]
    world: Term
    memory: Term
    escaped: dict[int, Term]
    pure: bool


@dataclass
class Shared:
    """The common part of two encodings.

    facts     what may be assumed of the inputs
    checks    addresses outside that are accessed
    accesses  (type tag, address, bytes, condition) of the source's accesses outside with a tag
    known     bytes outside that are known, by address
    deadline  of the encoding, by the process's own clock
    never     what the source's being defined rules out; known while the target is encoded
    settle    asks a solver whether a term is never true
    free      stack slots of the source that have no counterpart yet
    restricts_aliasing  the source promises by `noalias` which accesses do not overlap
    callees   what is known of functions by name: passes infer it for all calls at once
    """

    parameters: tuple[Parameter, ...]
    arguments: list[Meaning] = field(default_factory=list)
    facts: list[Term] = field(default_factory=list)
    memory: Term = field(default_factory=lambda: t.var(INITIAL, MEMORY))
    valid: Term = field(default_factory=lambda: t.var("valid", VALID))
    world: Term = field(default_factory=lambda: t.var("world", INDEX))
    slots: dict[int, Slot] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[Question, Answer]] = field(default_factory=list)
    checks: list[Term] = field(default_factory=list)
    accesses: list[tuple[str, Term, int, Term]] = field(default_factory=list)
    restricts_aliasing: bool = False
    callees: dict[str, frozenset[str]] = field(default_factory=dict)
    known: dict[int, Cell] = field(default_factory=dict)
    free: list[tuple[Instruction, int]] = field(default_factory=list)
    next_slot: int = OUTSIDE + 1
    deadline: float = math.inf
    never: frozenset[Term] = frozenset()
    settle: Callable[[Term], bool] = lambda _: False

    def address(self, name: str) -> tuple[int, Term]:
        """Block and offset of a global."""
        if name in self.tables:
            return self.tables[name], t.bv(0, INDEX)
        return OUTSIDE, self.base(name)

    def base(self, name: str) -> Term:
        """The address of a global as a number."""
        zeros = max(self.globals[name].align, 1).bit_length() - 1
        # One name for each alignment: a variable has one sort.
        free = t.var(f"address of {name} / {1 << zeros}", INDEX - zeros)
        return t.concat(free, t.bv(0, zeros)) if zeros else free


def share(source: Function, target: Function) -> Shared:
    """The common part.

    Raises Unsupported where the signatures differ.
    """
    signature = [p.type for p in source.parameters]
    if signature != [p.type for p in target.parameters] or source.result != target.result:
        raise Unsupported("the signature has changed")
    shared = Shared(source.parameters)
    shared.restricts_aliasing = any("noalias" in p.flags for p in source.parameters)
    for parameter in source.parameters:
        shared.arguments.append(_argument(shared, parameter))
    add_globals(shared, [source, target])
    return shared


def add_globals(shared: Shared, functions: Sequence[Function]) -> None:
    """Make the globals of all functions that will be encoded known."""
    for function in functions:
        for name, known in function.globals.items():
            _add_global(shared, name, known)
    _separate_globals(shared)


def _argument(shared: Shared, parameter: Parameter) -> Meaning:
    count = 0

    def make(kind: object) -> Scalar:
        nonlocal count
        name = f"argument {parameter.number}" + (f".{count}" if count else "")
        count += 1
        width = kind.width  # type: ignore[attr-defined]
        bits = t.var(name, width)
        poison = t.FALSE
        if "noundef" not in parameter.flags:
            poison = t.var(f"{name} is poison", BOOL)
        block = None
        if kind.kind == "ptr":  # type: ignore[attr-defined]
            block = t.bv(OUTSIDE, PROVENANCE)
            if "nonnull" in parameter.flags:
                shared.facts.append(t.or_(poison, t.not_(t.eq(bits, t.bv(0, width)))))
            for at in range(min(parameter.dereferenceable, 64)):
                place = t.add(bits, t.bv(at, INDEX))
                shared.facts.append(t.bv_to_bool(t.select(shared.valid, place)))
        return Scalar(bits, poison, block)

    return build(parameter.type, make)


def add_callees(shared: Shared, functions: Sequence[Function]) -> None:
    """Take what any version's declarations say of callees for both."""
    for function in functions:
        for block in function.blocks:
            for instruction in block.instructions:
                if instruction.op == "call" and instruction.text:
                    old = shared.callees.get(instruction.name, frozenset())
                    shared.callees[instruction.name] = old | set(instruction.text.split())


def _add_global(shared: Shared, name: str, known: Global) -> None:
    old = shared.globals.get(name)
    if old is not None and (old.size, old.constant) != (known.size, known.constant):
        # Passes mark globals as constant; then the weaker word counts.
        known = Global(
            name, max(old.size, known.size), min(old.align, known.align), False, local=True
        )
        shared.tables.pop(name, None)
    elif old is not None and old.align != known.align:
        known = old if old.align < known.align else known
    shared.globals[name] = known
    if known.constant and known.contents is not None and name not in shared.tables:
        number = _FIRST_TABLE + len(shared.tables)
        if number >= 1 << PROVENANCE:
            raise Unsupported("more than 512 constant tables")
        shared.tables[name] = number
        shared.slots[number] = Slot(known.size, shared.base(name), known.align, True)


def _separate_globals(shared: Shared) -> None:
    """Globals are not null, do not wrap and do not overlap."""
    placed = [(shared.base(name), max(known.size, 1)) for name, known in shared.globals.items()]
    ends = []
    for base, size in placed:
        end = t.add(base, t.bv(size, INDEX))
        shared.facts += [t.not_(t.eq(base, t.bv(0, INDEX))), t.ult(base, end)]
        ends.append((base, end))
    if len(ends) > 12:  # a quadratic number of facts; without them fewer things are provable
        return
    for at, (base, end) in enumerate(ends):
        for other, other_end in ends[:at]:
            shared.facts.append(t.or_(t.ule(end, other), t.ule(other_end, base)))


def slots_of(shared: Shared, function: Function, side: str) -> dict[int, int]:
    """Number the stack slots of one run of a function, by instruction.

    The target's that have a counterpart of the same size (and name, if there is one) in the
    source are one block with it: a choice of the source's addresses, which it is free to make.
    """
    numbers: dict[int, int] = {}
    for instruction in _slots(function):
        size, align = instruction.numbers
        number = _counterpart(instruction, shared.free) if side == "t" else 0
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
            shared.free.append((instruction, number))
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


def _counterpart(instruction: Instruction, free: list[tuple[Instruction, int]]) -> int:
    """The first free slot of the same size, of the same name if there is one; 0 for none."""
    same = [entry for entry in free if entry[0].numbers[0] == instruction.numbers[0]]
    named = [entry for entry in same if _plain(entry[0].text) == _plain(instruction.text)]
    for entry in named or same:
        free.remove(entry)
        return entry[1]
    return 0
