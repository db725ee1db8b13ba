"""What single instructions do to the state. Control flow is in encode.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planish.verify import casts, floats, integers, memory, pointers, rebuild, values
from planish.verify import terms as t
from planish.verify.ir import (
    Address,
    Aggregate,
    Expression,
    Function,
    Instruction,
    Local,
    Number,
    Operand,
    Special,
    Type,
    Unsupported,
)
from planish.verify.memory import Block
from planish.verify.shared import Shared, slots_of
from planish.verify.terms import FALSE, INDEX, MEMORY, TRUE, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Fresh, Group, Meaning, Scalar

THROWN = -1  # the local that holds the exception between an invoke and its landing pad


@dataclass
class State:
    """Where one path, or several merged ones, stand."""

    values: dict[int, Meaning]
    blocks: dict[int, Block]
    world: Term
    valid: Term


@dataclass(frozen=True)
class Unwound:
    """A way out by an exception."""

    condition: Term
    thrown: Meaning
    state: State


class Machine:
    """Executes instructions on terms, under the condition that they are reached.

    diverged  (condition, state of the world) of calls that do not return
    unwound   (condition, exception, state) of what ends the function by an exception
    pads      the same of the last invoke: it goes on at the landing pad
    inlined   callees that are executed rather than asked, by name
    stack     functions that are being executed
    leaked    stack slots whose address has been stored or given away so far
    """

    def __init__(
        self, function: Function, shared: Shared, side: str, inlined: Mapping[str, Function]
    ) -> None:
        self.function, self.shared, self.side = function, shared, side
        self.inlined = inlined
        self.stack: list[str] = [function.name]
        self.slots: Mapping[int, int] = slots_of(shared, function, side)
        self.incomplete: list[Term] = []
        self.inline: Callable[[Function, list[Meaning]], Meaning | None] = _no_inlining
        self.fresh = Fresh(side)
        self.condition = TRUE
        self.state = State({}, {}, shared.world, shared.valid)
        self.undefineds: list[Term] = []
        self.diverged: list[tuple[Term, Term]] = []
        self.unwound: list[Unwound] = []
        self.pads: list[Unwound] = []
        self.leaked: frozenset[int] = frozenset()
        self.assumptions: set[str] = set()
        self.steps = 0
        self.captured = pointers.captured(function, self.slots)

    def start(self) -> State:
        """The state at the entry."""
        given = {
            parameter.number: argument
            for parameter, argument in zip(
                self.function.parameters, self.shared.arguments, strict=True
            )
        }
        blocks = {OUTSIDE: Block(self.shared.memory, known=self.shared.known)}
        for name, number in self.shared.tables.items():
            contents = self.shared.globals[name].contents
            assert contents is not None
            blocks[number] = self._table(number, contents)
        self.state = State(given, blocks, self.shared.world, self.shared.valid)
        return self.state

    def _table(self, number: int, contents: Operand) -> Block:
        block = Block(t.var(f"table {number}", MEMORY))
        known = dict(self._initial(self.value(contents), contents.type, 0))
        return Block(block.base, known=known)

    def _initial(self, value: Meaning, kind: Type, offset: int) -> list[tuple[int, memory.Cell]]:
        if isinstance(value, Scalar):
            cells = memory.to_cells(value, kind)
            return [(offset + at, cell) for at, cell in enumerate(cells)]
        found = []
        for part, inner, place in zip(value.parts, kind.parts, kind.offsets, strict=True):
            found += self._initial(part, inner, offset + place)
        return found

    # -- operands ----------------------------------------------------------------------------

    def use(self, operand: Operand) -> Meaning:
        """An operand as one use sees it: undef is chosen."""
        return values.renamed(self.value(operand), self.fresh)

    def scalar(self, operand: Operand) -> Scalar:
        """A scalar operand as one use sees it."""
        found = self.use(operand)
        if not isinstance(found, Scalar):
            raise Unsupported(f"operand of type {operand.type}")
        return found

    def value(self, operand: Operand) -> Meaning:
        """An operand as it stands."""
        kind, held = operand.type, operand.value
        if isinstance(held, Local):
            found = self.state.values.get(held.number)
            if found is None:
                raise Unsupported("use of a value on a path that does not define it")
            return found
        if isinstance(held, Number):
            block = t.bv(OUTSIDE, PROVENANCE) if kind.kind == "ptr" else None
            if not kind.scalar:
                raise Unsupported(f"type {kind}")
            return Scalar(t.bv(held.value, kind.width), FALSE, block)
        if isinstance(held, Special):
            if held.kind == "undef":
                return values.undef_of(kind, self.fresh)
            return values.poison_of(kind) if held.kind == "poison" else values.zero_of(kind)
        if isinstance(held, Aggregate):
            return Group(tuple(self.value(part) for part in held.parts))
        if isinstance(held, Address):
            number, offset = self.shared.address(held.name)
            return Scalar(offset, FALSE, t.bv(number, PROVENANCE))
        assert isinstance(held, Expression)
        return self.compute(held.instruction)

    def undefined(self, when: Term) -> None:
        """Note that behaviour is undefined where this is reached and the condition holds."""
        whole = t.and_(self.condition, when)
        if whole is not FALSE:
            self.undefineds.append(whole)

    def known(self, term: Term) -> Term:
        """The term, or its value where the path or the source's being defined tells it."""
        path = t.conjuncts(self.condition)
        if t.not_(term) in path or term in self.shared.never:
            return FALSE
        return TRUE if term in path or t.not_(term) in self.shared.never else term

    def certain(self, term: Term) -> bool:
        """Whether the term holds wherever this is reached, by a solver's word.

        What the target does where it is undefined already is of no account.
        """
        if self.side != "t":
            return False
        facts = [t.not_(never) for never in self.shared.never]
        facts += [t.not_(undefined) for undefined in self.undefineds]
        wrong = t.and_(*self.shared.facts, *facts, self.condition, t.not_(term))
        return wrong is FALSE or self.shared.settle(wrong)

    def unwind(self, when: Term, thrown: Scalar) -> None:
        """Leave by an exception where the condition holds, with memory as it now is."""
        gone = t.and_(self.condition, when)
        if gone is FALSE:
            return
        state = replace(self.state, values={}, blocks=dict(self.state.blocks))
        self.unwound.append(Unwound(gone, thrown, state))
        self.condition = t.and_(self.condition, t.not_(when))

    def decide(self, operand: Operand) -> Term:
        """What a branch looks at; a branch on poison or undef is undefined."""
        raw = self.value(operand)
        if not isinstance(raw, Scalar):
            raise Unsupported("branch on a vector")
        self.undefined(raw.poison)
        if not raw.undefs:
            return raw.bits
        used = [self.use(operand), self.use(operand)]
        first, second = used
        assert isinstance(first, Scalar) and isinstance(second, Scalar)
        if self.side == "t":
            self.undefined(t.not_(t.eq(first.bits, second.bits)))
            return first.bits
        # The source's choices may be any; two that differ are enough, these are tried.
        low = {u: t.bv(0, u.sort) for u in raw.undefs}
        high = {u: t.bv(-1, u.sort) for u in raw.undefs}
        [x], [y] = rebuild.substitute([raw.bits], low), rebuild.substitute([raw.bits], high)
        self.undefined(t.not_(t.eq(x, y)))
        return first.bits

    # -- instructions ------------------------------------------------------------------------

    def execute(self, instruction: Instruction) -> None:
        """Everything but control flow and phis."""
        op = instruction.op
        if op == "store":
            pointers.store(self, instruction)
            return
        if op == "call":
            from planish.verify.calls import call  # it needs the machine

            result = call(self, instruction)
        else:
            result = self.compute(instruction)
        if result is not None:
            self.state.values[instruction.number] = result

    def compute(self, instruction: Instruction) -> Meaning:
        """The result of an instruction that only computes or reads."""
        handler = _HANDLERS.get(instruction.op)
        if handler is None:
            raise Unsupported(f"instruction {instruction.op}")
        return handler(self, instruction)


def _no_inlining(callee: Function, given: list[Meaning]) -> Meaning | None:
    raise Unsupported(f"call of {callee.name} where nothing is executed")


def each(machine: Machine, instruction: Instruction, work: Callable[..., Scalar]) -> Meaning:
    """Apply an operation of scalars to each element of vectors."""
    used = [machine.use(operand) for operand in instruction.operands]
    if all(isinstance(value, Scalar) for value in used):
        return work(*used)
    columns = zip(*(value.parts for value in used if isinstance(value, Group)), strict=True)
    return Group(tuple(work(*column) for column in columns))


def _binary(machine: Machine, instruction: Instruction) -> Meaning:
    op, flags = instruction.op, instruction.flags

    def work(a: Scalar, b: Scalar) -> Scalar:
        bits, poison, undefined = integers.binary(op, a.bits, b.bits, flags)
        if op in integers.DIVISIONS:
            machine.undefined(t.or_(b.poison, t.and_(t.not_(a.poison), undefined)))
            if op in ("sdiv", "srem"):
                # With a poison dividend, only a zero divisor is certain to be undefined; the
                # dividend may be chosen, and then -1 is undefined, too.
                machine.undefined(t.and_(a.poison, t.eq(b.bits, t.bv(0, b.bits.sort))))
            else:
                machine.undefined(t.and_(a.poison, undefined))
        return Scalar(bits, t.or_(a.poison, b.poison, poison), None, a.undefs | b.undefs)

    return each(machine, instruction, work)


def _icmp(machine: Machine, instruction: Instruction) -> Meaning:
    def work(a: Scalar, b: Scalar) -> Scalar:
        if a.block is not None and b.block is not None:
            held = pointers.compare(machine, instruction.name, a, b)
        else:
            held = integers.compare(instruction.name, a.bits, b.bits)
        poison = t.or_(a.poison, b.poison)
        if "samesign" in instruction.flags:
            zero = t.bv(0, a.bits.sort)
            poison = t.or_(poison, t.not_(t.eq(t.slt(a.bits, zero), t.slt(b.bits, zero))))
        return Scalar(t.bool_to_bv(held), poison, None, a.undefs | b.undefs)

    return each(machine, instruction, work)


def _fcmp(machine: Machine, instruction: Instruction) -> Meaning:
    def work(a: Scalar, b: Scalar) -> Scalar:
        held = floats.compare(instruction.name, a.bits, b.bits)
        poison = t.or_(a.poison, b.poison, fast_poison(instruction.flags, a.bits, b.bits))
        return Scalar(t.bool_to_bv(held), poison, None, a.undefs | b.undefs)

    return each(machine, instruction, work)


def fast_poison(flags: frozenset[str], *operands: Term) -> Term:
    """When nnan and ninf make a result poison."""
    found = []
    if "nnan" in flags:
        found += [floats.is_nan(operand) for operand in operands]
    if "ninf" in flags:
        found += [floats.is_infinite(operand) for operand in operands]
    return t.or_(*found)


def _float(machine: Machine, instruction: Instruction) -> Meaning:
    def work(a: Scalar, b: Scalar) -> Scalar:
        bits = floats.arithmetic(instruction.op, a.bits, b.bits, instruction.flags)
        bad = fast_poison(instruction.flags, a.bits, b.bits, bits)
        return Scalar(bits, t.or_(a.poison, b.poison, bad), None, a.undefs | b.undefs)

    return each(machine, instruction, work)


def _fneg(machine: Machine, instruction: Instruction) -> Meaning:
    def work(a: Scalar) -> Scalar:
        bad = fast_poison(instruction.flags, a.bits)
        return Scalar(floats.negate(a.bits), t.or_(a.poison, bad), None, a.undefs)

    return each(machine, instruction, work)


def _cast(machine: Machine, instruction: Instruction) -> Meaning:
    source, result = instruction.operands[0].type, instruction.type
    if instruction.op == "bitcast" and not (source.scalar and result.scalar):
        return casts.reinterpret(machine, instruction)

    def work(a: Scalar) -> Scalar:
        to = result.parts[0] if result.kind == "vector" else result
        return casts.convert(machine, instruction, a, to)

    return each(machine, instruction, work)


def _select(machine: Machine, instruction: Instruction) -> Meaning:
    test, a, b = (machine.use(operand) for operand in instruction.operands)

    def pick(c: Scalar, x: Meaning, y: Meaning) -> Meaning:
        chosen = values.merge(t.bv_to_bool(c.bits), x, y)
        return _poisoned(chosen, c)

    if isinstance(test, Scalar):
        return pick(test, a, b)
    assert isinstance(a, Group) and isinstance(b, Group)
    rows = zip(test.parts, a.parts, b.parts, strict=True)
    return Group(tuple(pick(c, x, y) for c, x, y in rows if isinstance(c, Scalar)))


def _poisoned(value: Meaning, by: Scalar) -> Meaning:
    """The value, poison where `by` is."""
    if isinstance(value, Group):
        return Group(tuple(_poisoned(part, by) for part in value.parts))
    return Scalar(value.bits, t.or_(value.poison, by.poison), value.block, value.undefs | by.undefs)


def _freeze(machine: Machine, instruction: Instruction) -> Meaning:
    return _frozen(machine, machine.use(instruction.operands[0]))


def _frozen(machine: Machine, value: Meaning) -> Meaning:
    if isinstance(value, Group):
        return Group(tuple(_frozen(machine, part) for part in value.parts))
    bits = value.bits
    if value.poison is not FALSE:
        bits = t.ite(value.poison, machine.fresh.choice(bits.sort), bits)
    return Scalar(bits, FALSE, value.block)


def _extract_value(machine: Machine, instruction: Instruction) -> Meaning:
    found = machine.value(instruction.operands[0])
    for at in instruction.numbers:
        assert isinstance(found, Group)
        found = found.parts[at]
    return found


def _insert_value(machine: Machine, instruction: Instruction) -> Meaning:
    whole, part = (machine.value(operand) for operand in instruction.operands)
    return _inserted(whole, part, instruction.numbers)


def _inserted(whole: Meaning, part: Meaning, path: tuple[int, ...]) -> Meaning:
    if not path:
        return part
    assert isinstance(whole, Group)
    parts = list(whole.parts)
    parts[path[0]] = _inserted(parts[path[0]], part, path[1:])
    return Group(tuple(parts))


def _extract_element(machine: Machine, instruction: Instruction) -> Meaning:
    vector, index = machine.value(instruction.operands[0]), machine.scalar(instruction.operands[1])
    assert isinstance(vector, Group)
    found = values.poison_of(instruction.type)
    for at, part in enumerate(vector.parts):
        found = values.merge(t.eq(index.bits, t.bv(at, index.bits.sort)), part, found)
    return _poisoned(found, index)


def _insert_element(machine: Machine, instruction: Instruction) -> Meaning:
    vector, part = (machine.value(operand) for operand in instruction.operands[:2])
    index = machine.scalar(instruction.operands[2])
    assert isinstance(vector, Group)
    width = index.bits.sort
    inside = FALSE
    parts = []
    for at, old in enumerate(vector.parts):
        here = t.eq(index.bits, t.bv(at, width))
        inside = t.or_(inside, here)
        parts.append(values.merge(here, part, old))
    outside = Scalar(index.bits, t.or_(index.poison, t.not_(inside)))
    return _poisoned(Group(tuple(parts)), outside)


def _landing_pad(machine: Machine, instruction: Instruction) -> Meaning:
    """The exception, and the number of the clause that takes it: a function of both."""
    thrown = machine.state.values.get(THROWN)
    if not isinstance(thrown, Scalar) or len(instruction.type.parts) != 2:
        raise Unsupported("landing pad that no invoke reaches")
    width = instruction.type.parts[1].width
    selector = t.apply(f"selector {instruction.name}", (thrown.bits,), width)
    return Group((thrown, Scalar(selector, thrown.poison)))


def _shuffle(machine: Machine, instruction: Instruction) -> Meaning:
    a, b = (machine.value(operand) for operand in instruction.operands[:2])
    assert isinstance(a, Group) and isinstance(b, Group)
    pool = (*a.parts, *b.parts)
    nothing = values.poison_of(instruction.type.parts[0])
    return Group(tuple(pool[at] if at >= 0 else nothing for at in instruction.numbers))


def _alloca(machine: Machine, instruction: Instruction) -> Meaning:
    number = machine.slots[instruction.number]
    base = t.var(f"slot {number} before", MEMORY)
    machine.state.blocks[number] = Block(base, fresh=True)
    return Scalar(t.bv(0, INDEX), FALSE, t.bv(number, PROVENANCE))


_HANDLERS: dict[str, Callable[[Machine, Instruction], Meaning]] = {
    **dict.fromkeys(integers.BINARY, _binary),
    **dict.fromkeys(floats.ARITHMETIC, _float),
    **dict.fromkeys(casts.CASTS, _cast),
    "icmp": _icmp, "fcmp": _fcmp, "fneg": _fneg, "select": _select, "freeze": _freeze,
    "extractvalue": _extract_value, "insertvalue": _insert_value,
    "extractelement": _extract_element, "insertelement": _insert_element,
    "shufflevector": _shuffle, "alloca": _alloca, "load": pointers.load,
    "getelementptr": pointers.offset, "landingpad": _landing_pad,
}  # fmt: skip
