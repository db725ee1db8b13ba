"""Conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.verify import floats, pointers, values
from planish.verify import terms as t
from planish.verify.ir import Instruction, Type, Unsupported
from planish.verify.opcodes import CASTS as CASTS
from planish.verify.terms import FALSE, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.machine import Machine


def convert(machine: Machine, instruction: Instruction, a: Scalar, to: Type) -> Scalar:
    """A conversion of one scalar."""
    op, flags = instruction.op, instruction.flags
    poison = a.poison
    block: Term | None = None
    if op == "trunc":
        bits = t.extract(a.bits, to.width - 1, 0)
        if "nuw" in flags:
            poison = t.or_(poison, t.not_(t.eq(t.zext(bits, a.bits.sort), a.bits)))
        if "nsw" in flags:
            poison = t.or_(poison, t.not_(t.eq(t.sext(bits, a.bits.sort), a.bits)))
    elif op == "zext":
        bits = t.zext(a.bits, to.width)
        if "nneg" in flags:
            poison = t.or_(poison, t.slt(a.bits, t.bv(0, a.bits.sort)))
    elif op == "sext":
        bits = t.sext(a.bits, to.width)
    elif op == "bitcast":
        bits, block = a.bits, a.block
    elif op in ("ptrtoint", "ptrtoaddr"):
        bits = _sized(pointers.address(machine, a), to.width)
    elif op == "inttoptr":
        if machine.captured:
            raise Unsupported("inttoptr beside stack slots whose address is taken")
        bits, block = _sized(a.bits, 64), t.bv(OUTSIDE, PROVENANCE)
    else:
        bits, bad = _float(op, a.bits, to, flags)
        if op in ("fpext", "fptrunc") and bits.op == "apply":
            machine.assumptions.add(floats.SAME_NAN)
        poison = t.or_(poison, bad)
    return Scalar(bits, poison, block, a.undefs)


def _sized(bits: Term, width: int) -> Term:
    return t.extract(bits, width - 1, 0) if width <= bits.sort else t.zext(bits, width)


def _float(op: str, a: Term, to: Type, flags: frozenset[str]) -> tuple[Term, Term]:
    # Of a number that is not negative both conversions are the same.
    name = "sitofp" if op == "uitofp" and "nneg" in flags else op
    bits = floats.function(name, (a,), to.width, flags - {"nneg"})
    bad = FALSE
    if op in ("fptoui", "fptosi"):
        # Out of range is poison; which numbers are is another function of the operand.
        bad = t.bv_to_bool(floats.applied(f"{op}_range_{a.sort}_{to.width}", (a,), 1))
    elif "nneg" in flags:
        bad = t.slt(a, t.bv(0, a.sort))
    return bits, bad


def reinterpret(machine: Machine, instruction: Instruction) -> Meaning:
    """A bitcast between a vector and something of the same width."""
    source, result = instruction.operands[0].type, instruction.type
    scalars = values.leaves(machine.use(instruction.operands[0]))
    if any(scalar.block is not None for scalar in scalars) or "ptr" in (
        source.kind,
        result.kind,
    ):
        raise Unsupported("bitcast of a vector of pointers")
    whole = scalars[-1].bits
    for scalar in reversed(scalars[:-1]):
        whole = t.concat(whole, scalar.bits)
    undefs = frozenset().union(*(scalar.undefs for scalar in scalars))
    width = scalars[0].bits.sort
    at = 0

    def make(kind: Type) -> Scalar:
        nonlocal at
        low, at = at, at + kind.width
        touched = scalars[low // width : (at - 1) // width + 1]
        poison = t.or_(*(scalar.poison for scalar in touched))
        return Scalar(t.extract(whole, at - 1, low), poison, None, undefs)

    return values.build(result, make)
