"""What a source and a target share: inputs, globals, stack slots that correspond, the outer world.

A call of an unknown function is a question to the world: its inputs are the arguments, the memory
that it can see and the world's state. The target's call gets the source's answer where its inputs
refine the source's; the last state of the world tells whether both asked the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planish.verify import integers
from planish.verify import terms as t
from planish.verify.ir import Function, Global, Parameter, Unsupported
from planish.verify.memory import INITIAL, Cell, Slot
from planish.verify.terms import BOOL, INDEX, MEMORY, VALID, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Meaning, Scalar, build

_FIRST_TABLE = 512
_PROMISES = frozenset({"noundef", "nonnull"})


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
    """What a call depends on. `arguments` are (bits, poison, block) of every scalar; `when` is
    the condition that it is asked at all."""

    side: str
    callee: str
    arguments: tuple[tuple[Term, Term, Term], ...]
    world: Term
    memory: Term
    escaped: dict[int, Term]
    pure: bool
    when: Term


@dataclass(frozen=True)
class Free:
    """A stack slot of the source that has no counterpart yet.

    places  where its address goes: callees with the position of the argument, and stores
    """

    number: int
    size: int
    name: str
    places: frozenset[str]


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
    assumptions  what is taken for granted of the inputs, in words
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
    assumptions: set[str] = field(default_factory=set)
    callees: dict[str, frozenset[str]] = field(default_factory=dict)
    known: dict[int, Cell] = field(default_factory=dict)
    free: list[Free] = field(default_factory=list)
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
    for parameter in promised(shared, source, target):
        shared.arguments.append(_argument(shared, parameter))
    add_globals(shared, [source, target])
    return shared


def promised(shared: Shared, source: Function, target: Function) -> Sequence[Parameter]:
    """The source's parameters; of a local function with what passes found of all its callers."""
    if "local" not in source.flags:
        return source.parameters
    found = []
    for a, b in zip(source.parameters, target.parameters, strict=True):
        more = replace(
            a,
            flags=a.flags | b.flags & _PROMISES,
            dereferenceable=max(a.dereferenceable, b.dereferenceable),
            bounds=b.bounds,
        )
        if more != a:
            shared.assumptions.add("what is inferred of a local function's arguments is believed")
        found.append(more)
    return found


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
        elif parameter.bounds:
            shared.facts.append(t.or_(poison, integers.within(bits, *parameter.bounds)))
        if block is not None:
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
