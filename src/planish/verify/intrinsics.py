"""Intrinsic functions of LLVM by their meaning (LLVM Language Reference)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from planish.verify import access, floats, integers, memory
from planish.verify import terms as t
from planish.verify.ir import Instruction, Number, Unsupported
from planish.verify.terms import FALSE, INDEX, Term
from planish.verify.values import OUTSIDE, Group, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.machine import Machine

_NOTHING = ("llvm.lifetime.", "llvm.dbg.", "llvm.experimental.noalias.scope", "llvm.donothing",
            "llvm.prefetch", "llvm.sideeffect", "llvm.pseudoprobe")  # fmt: skip
_FLOAT_FUNCTIONS = ("sqrt", "fma", "fmuladd", "floor", "ceil", "trunc", "rint", "nearbyint",
                    "round", "roundeven", "sin", "cos", "exp", "exp2", "log", "log2", "log10",
                    "pow", "minnum", "maxnum", "minimum", "maximum", "powi", "lround", "llround",
                    "lrint", "llrint", "canonicalize", "ldexp")  # fmt: skip
_COMMUTATIVE_FLOATS = frozenset({"minnum", "maxnum", "minimum", "maximum"})


def call(machine: Machine, instruction: Instruction) -> Meaning | None:
    """The result; None for void. Raises Unsupported for intrinsics without a meaning here."""
    full = instruction.name
    if full.startswith(_NOTHING):
        return None
    parts = full.removeprefix("llvm.").split(".")
    for length in (3, 2, 1):
        handler = _HANDLERS.get(".".join(parts[:length]))
        if handler is not None:
            return handler(machine, instruction)
    if parts[0] in _FLOAT_FUNCTIONS:
        return _float_function(machine, instruction, parts[0])
    raise Unsupported(f"intrinsic llvm.{'.'.join(p for p in parts if not _is_type(p))}")


def _is_type(part: str) -> bool:
    return part[:1] in "ifpv" and part[1:2].isdigit()


def _each(work: Callable[..., Scalar]) -> Callable[[Machine, Instruction], Meaning]:
    def handler(machine: Machine, instruction: Instruction) -> Meaning:
        from planish.verify.instructions import each

        return each(machine, instruction, work)

    return handler


def _simple(operation: Callable[..., Term]) -> Callable[[Machine, Instruction], Meaning]:
    """An operation on bits; poison in, poison out."""

    def work(*operands: Scalar) -> Scalar:
        bits = operation(*(operand.bits for operand in operands))
        poison = t.or_(*(operand.poison for operand in operands))
        undefs = frozenset().union(*(operand.undefs for operand in operands))
        return Scalar(bits, poison, None, undefs)

    return _each(work)


def _min_max(less: Callable[[Term, Term], Term], *, largest: bool) -> Callable[..., Term]:
    def pick(a: Term, b: Term) -> Term:
        return t.ite(less(b, a), a, b) if largest else t.ite(less(a, b), a, b)

    return pick


def _three_way(less: Callable[[Term, Term], Term]) -> Callable[[Machine, Instruction], Meaning]:
    def handler(machine: Machine, instruction: Instruction) -> Meaning:
        kind = instruction.type.parts[0] if instruction.type.parts else instruction.type
        minus, zero, one = (t.bv(k, kind.width) for k in (-1, 0, 1))

        def pick(a: Term, b: Term) -> Term:
            return t.ite(less(a, b), minus, t.ite(t.eq(a, b), zero, one))

        return _simple(pick)(machine, instruction)

    return handler


def _saturating(op: str, *, signed: bool) -> Callable[..., Term]:
    def pick(a: Term, b: Term) -> Term:
        width = a.sort
        plain = t.add(a, b) if op == "add" else t.sub(a, b)
        if signed:
            low, high = t.bv(1 << (width - 1), width), t.bv((1 << (width - 1)) - 1, width)
            edge = t.ite(t.slt(a, t.bv(0, width)), low, high)
        else:
            edge = t.bv(-1 if op == "add" else 0, width)
        return t.ite(integers.overflows(op, a, b, signed=signed), edge, plain)

    return pick


def _checked(op: str, *, signed: bool) -> Callable[[Machine, Instruction], Meaning]:
    """The operations that give the overflow as a second result."""
    plain = {"add": t.add, "sub": t.sub, "mul": t.mul}[op]

    def handler(machine: Machine, instruction: Instruction) -> Meaning:
        a, b = (machine.scalar(operand) for operand in instruction.operands)
        poison, undefs = t.or_(a.poison, b.poison), a.undefs | b.undefs
        over = t.bool_to_bv(integers.overflows(op, a.bits, b.bits, signed=signed))
        return Group(
            (
                Scalar(plain(a.bits, b.bits), poison, None, undefs),
                Scalar(over, poison, None, undefs),
            )
        )

    return handler


def _abs(a: Scalar, strict: Scalar) -> Scalar:
    zero, lowest = t.bv(0, a.bits.sort), t.bv(1 << (a.bits.sort - 1), a.bits.sort)
    bad = t.and_(t.bv_to_bool(strict.bits), t.eq(a.bits, lowest))
    bits = t.ite(t.slt(a.bits, zero), t.neg(a.bits), a.bits)
    return Scalar(bits, t.or_(a.poison, bad), None, a.undefs)


def _zeros(count: Callable[[Term], Term]) -> Callable[..., Scalar]:
    def work(a: Scalar, strict: Scalar) -> Scalar:
        bad = t.and_(t.bv_to_bool(strict.bits), t.eq(a.bits, t.bv(0, a.bits.sort)))
        return Scalar(count(a.bits), t.or_(a.poison, bad), None, a.undefs)

    return work


def _with_flag(work: Callable[..., Scalar]) -> Callable[[Machine, Instruction], Meaning]:
    """A function of a value (or each element of a vector) and of one flag."""

    def handler(machine: Machine, instruction: Instruction) -> Meaning:
        value, flag = (machine.use(operand) for operand in instruction.operands)
        if isinstance(value, Group):
            return Group(tuple(work(part, flag) for part in value.parts))
        return work(value, flag)

    return handler


def _assume(machine: Machine, instruction: Instruction) -> None:
    held = machine.scalar(instruction.operands[0])
    machine.undefined(t.or_(held.poison, t.not_(t.bv_to_bool(held.bits))))


def _is_class(machine: Machine, instruction: Instruction) -> Meaning:
    value, mask = machine.use(instruction.operands[0]), instruction.operands[1].value
    assert isinstance(mask, Number)

    def work(a: Scalar) -> Scalar:
        return Scalar(t.bool_to_bv(floats.is_class(a.bits, mask.value)), a.poison, None, a.undefs)

    if isinstance(value, Group):
        return Group(tuple(work(part) for part in value.parts if isinstance(part, Scalar)))
    return work(value)


def _first(machine: Machine, instruction: Instruction) -> Meaning:
    return machine.value(instruction.operands[0])


def _trap(machine: Machine, instruction: Instruction) -> None:
    """Ends the program: the world remembers how."""
    end = t.apply(f"{instruction.name}_world", (machine.state.world,), INDEX)
    machine.diverged.append((machine.condition, end))
    machine.condition = FALSE


def _constant_size(machine: Machine, instruction: Instruction) -> int | None:
    """Bytes; None where the size is not known here, or too many to follow each.

    What a front end passes through a variable is known, too. A volatile access is an effect.
    """
    size, volatile = machine.value(instruction.operands[2]), instruction.operands[3].value
    if not isinstance(size, Scalar) or not size.bits.constant or size.poison is not FALSE:
        return None
    if size.undefs or (isinstance(volatile, Number) and volatile.value):
        return None
    held = t.value_of(size.bits)
    return held if held <= access.MOST_BYTES else None


def _align(instruction: Instruction, at: int) -> int:
    """What an argument's `align` says; 1 for nothing."""
    for flag in instruction.flags:
        if flag.startswith("align=") and flag.endswith(f":{at}"):
            return int(flag.removeprefix("align=").partition(":")[0])
    return 1


def _copy(machine: Machine, instruction: Instruction) -> None:
    size = _constant_size(machine, instruction)
    if size is None:
        _whole(machine, instruction)
        return
    target, source = (machine.scalar(operand) for operand in instruction.operands[:2])
    aligns = _align(instruction, 0), _align(instruction, 1)
    access.copy(machine, target, source, size, aligns)


def _fill(machine: Machine, instruction: Instruction) -> None:
    size = _constant_size(machine, instruction)
    if size is None:
        _whole(machine, instruction)
        return
    target, value = (machine.scalar(operand) for operand in instruction.operands[:2])
    access.fill(machine, target, value, size, _align(instruction, 0))


def _whole(machine: Machine, instruction: Instruction) -> None:
    """Many bytes at once, as a question to the world: the same one has the same effect."""
    from planish.verify.calls import ask

    reached: set[int] = set()
    for operand in instruction.operands[:2]:
        held = machine.scalar(operand)
        if held.block is not None:
            reached |= {number for _, number in memory.origins(held.block, machine.leaked)}
    machine.captured |= reached - {OUTSIDE}
    name = instruction.name.removeprefix("llvm.").partition(".")[0]
    flags = frozenset({"willreturn", "nounwind", "nofree"})
    ask(machine, replace(instruction, name=f"!{name}", flags=flags))


def _float_function(machine: Machine, instruction: Instruction, name: str) -> Meaning:
    from planish.verify.instructions import each, fast_poison

    kind = instruction.type.parts[0] if instruction.type.parts else instruction.type
    flags = instruction.flags

    def work(*operands: Scalar) -> Scalar:
        given = tuple(operand.bits for operand in operands)
        if name in _COMMUTATIVE_FLOATS:
            given = tuple(sorted(given, key=lambda term: term.number))
        elif name in ("fma", "fmuladd"):  # of the product a constant comes last
            given = (*sorted(given[:2], key=lambda term: term.constant), given[2])
        bits = floats.function(name, given, kind.width, flags)
        if bits.op == "apply":
            machine.assumptions.add(floats.SAME_NAN)
        bad = fast_poison(flags, *(g for g in given if g.sort in (32, 64)), bits)
        poison = t.or_(*(operand.poison for operand in operands), bad)
        undefs = frozenset().union(*(operand.undefs for operand in operands))
        return Scalar(bits, poison, None, undefs)

    return each(machine, instruction, work)


def _reduce(operation: Callable[[Term, Term], Term]) -> Callable[[Machine, Instruction], Meaning]:
    def handler(machine: Machine, instruction: Instruction) -> Meaning:
        vector = machine.use(instruction.operands[0])
        assert isinstance(vector, Group)
        parts = [part for part in vector.parts if isinstance(part, Scalar)]
        bits = reduce(operation, [part.bits for part in parts])
        undefs = frozenset().union(*(part.undefs for part in parts))
        return Scalar(bits, t.or_(*(part.poison for part in parts)), None, undefs)

    return handler


def _copysign(a: Term, b: Term) -> Term:
    return t.concat(floats.sign(b), t.extract(a, a.sort - 2, 0))


_MINS_AND_MAXS: dict[str, Callable[..., Term]] = {
    "smax": _min_max(t.slt, largest=True), "smin": _min_max(t.slt, largest=False),
    "umax": _min_max(t.ult, largest=True), "umin": _min_max(t.ult, largest=False),
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Term]] = {
    "add": t.add, "mul": t.mul, "and": t.bitand, "or": t.bitor, "xor": t.bitxor, **_MINS_AND_MAXS
}  # fmt: skip

_HANDLERS: dict[str, Callable[[Machine, Instruction], Meaning | None]] = {
    **{name: _simple(pick) for name, pick in _MINS_AND_MAXS.items()},
    **{f"vector.reduce.{name}": _reduce(pick) for name, pick in _REDUCTIONS.items()},
    **{f"{sign}{op}.with.overflow": _checked(op, signed=sign == "s")
       for sign in "su" for op in ("add", "sub", "mul")},
    **{f"{sign}{op}.sat": _simple(_saturating(op, signed=sign == "s"))
       for sign in "su" for op in ("add", "sub")},
    "scmp": _three_way(t.slt), "ucmp": _three_way(t.ult),
    "abs": _with_flag(_abs),
    "ctlz": _with_flag(_zeros(integers.leading_zeros)),
    "cttz": _with_flag(_zeros(integers.trailing_zeros)),
    "ctpop": _simple(integers.count_ones),
    "bswap": _simple(lambda a: integers.reverse(a, 8)),
    "bitreverse": _simple(lambda a: integers.reverse(a, 1)),
    "fshl": _simple(lambda a, b, c: integers.funnel(a, b, c, left=True)),
    "fshr": _simple(lambda a, b, c: integers.funnel(a, b, c, left=False)),
    "is.fpclass": _is_class, "fabs": _simple(floats.absolute), "copysign": _simple(_copysign),
    "assume": _assume, "expect": _first, "expect.with": _first, "ssa.copy": _first,
    "trap": _trap, "debugtrap": _trap, "ubsantrap": _trap,
    "memcpy": _copy, "memmove": _copy, "memcpy.inline": _copy,
    "memset": _fill, "memset.inline": _fill,
}  # fmt: skip
