"""What single instructions do to the state. Control flow is in encode.py."""

from __future__ import annotations

from collections.abc import Callable

from planish.verify import access, casts, floats, integers, pointers, values
from planish.verify import terms as t
from planish.verify.ir import (
    Instruction,
    Unsupported,
)
from planish.verify.machine import THROWN, Machine
from planish.verify.memory import Block
from planish.verify.terms import FALSE, INDEX, MEMORY, Term
from planish.verify.values import PROVENANCE, Group, Meaning, Scalar


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
        if bits.op == "apply":
            machine.assumptions.add(floats.SAME_NAN)
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


HANDLERS: dict[str, Callable[[Machine, Instruction], Meaning]] = {
    **dict.fromkeys(integers.BINARY, _binary),
    **dict.fromkeys(floats.ARITHMETIC, _float),
    **dict.fromkeys(casts.CASTS, _cast),
    "icmp": _icmp, "fcmp": _fcmp, "fneg": _fneg, "select": _select, "freeze": _freeze,
    "extractvalue": _extract_value, "insertvalue": _insert_value,
    "extractelement": _extract_element, "insertelement": _insert_element,
    "shufflevector": _shuffle, "alloca": _alloca, "load": access.load,
    "getelementptr": pointers.offset, "landingpad": _landing_pad,
}  # fmt: skip
