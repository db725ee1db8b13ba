"""Floating point: arithmetic as uninterpreted functions, what only looks at bits exactly.

Order-preserving changes are then proved by congruence; reassociation is not provable, as it
should be. Comparisons, fneg, fabs and copysign are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.verify import ieee
from planish.verify import terms as t
from planish.verify.terms import Term

_MANTISSA = {16: 10, 32: 23, 64: 52}
ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem"})
_COMMUTATIVE = frozenset({"fadd", "fmul"})
# Which NaN it is, is not determined; two executions may give two (LLVM Language Reference).
SAME_NAN = "an operation gives the same NaN whenever it is executed on the same operands"


def arithmetic(op: str, a: Term, b: Term, flags: frozenset[str]) -> Term:
    """fadd and so on: a function of the operands; which one depends on the fast-math flags."""
    # Constants come last, so that operands that only a solver finds equal meet in one order.
    if op in _COMMUTATIVE and (a.constant, a.number) > (b.constant, b.number):
        a, b = b, a
    return applied(_name(op, a.sort, a.sort, flags), (a, b), a.sort)


def function(name: str, operands: tuple[Term, ...], width: int, flags: frozenset[str]) -> Term:
    """A conversion or mathematical function."""
    widths = "_".join(str(operand.sort) for operand in operands)
    return applied(f"{name}_{widths}{_name('', 0, width, flags)}", operands, width)


def applied(name: str, operands: Sequence[Term], sort: int) -> Term:
    """An uninterpreted function's value; where IEEE 754 tells it of constants, that number."""
    if operands and all(operand.constant for operand in operands):
        given = [(t.value_of(operand), operand.sort) for operand in operands]
        found = ieee.apply(name, given, sort)
        if found is not None:
            return t.bv(found, sort)
    return t.apply(name, operands, sort)


def _name(op: str, width: int, result: int, flags: frozenset[str]) -> str:
    fast = "_".join(sorted(flag for flag in flags if ":" not in flag and flag in ieee.FAST))
    return f"{op}_{width}_{result}{'_' + fast if fast else ''}"


def negate(a: Term) -> Term:
    """fneg: the sign bit flipped."""
    return t.concat(t.bitnot(sign(a)), t.extract(a, a.sort - 2, 0))


def absolute(a: Term) -> Term:
    """fabs."""
    return t.zext(t.extract(a, a.sort - 2, 0), a.sort)


def sign(a: Term) -> Term:
    """The sign bit."""
    return t.extract(a, a.sort - 1, a.sort - 1)


def is_nan(a: Term) -> Term:
    """An exponent of ones and a mantissa that is not zero."""
    return t.ult(t.bv(_infinity(a.sort), a.sort), absolute(a))


def is_infinite(a: Term) -> Term:
    return t.eq(absolute(a), t.bv(_infinity(a.sort), a.sort))


def _infinity(width: int) -> int:
    """The bits of positive infinity."""
    return ((1 << (width - 1 - _MANTISSA[width])) - 1) << _MANTISSA[width]


def is_class(a: Term, mask: int) -> Term:
    """llvm.is.fpclass: whether a number is of one of the classes of the mask (LangRef)."""
    plain, zero = absolute(a), t.bv(0, a.sort)
    negative = t.bv_to_bool(sign(a))
    infinity, normal = t.bv(_infinity(a.sort), a.sort), t.bv(1 << _MANTISSA[a.sort], a.sort)
    quiet = t.bv(_infinity(a.sort) | 1 << (_MANTISSA[a.sort] - 1), a.sort)
    nan = is_nan(a)
    finite = t.ult(plain, infinity)
    of_size = (
        t.eq(plain, infinity),
        t.and_(finite, t.not_(t.ult(plain, normal))),
        t.and_(t.ult(plain, normal), t.not_(t.eq(plain, zero))),
        t.eq(plain, zero),
    )
    # Bits of the mask: NaNs, then from negative infinity up to positive infinity.
    classes = [t.and_(nan, t.ult(plain, quiet)), t.not_(t.ult(plain, quiet))]
    classes += [t.and_(negative, one) for one in of_size]
    classes += [t.and_(t.not_(negative), one) for one in reversed(of_size)]
    return t.or_(*(one for at, one in enumerate(classes) if mask >> at & 1))


def compare(predicate: str, a: Term, b: Term) -> Term:
    """An fcmp predicate, exactly."""
    if predicate in ("true", "false"):
        return t.boolean(predicate == "true")
    unordered = t.or_(is_nan(a), is_nan(b))
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else t.not_(unordered)
    core = predicate[1:]
    held = {
        "eq": lambda: _equal(a, b), "ne": lambda: t.not_(_equal(a, b)),
        "lt": lambda: _less(a, b), "gt": lambda: _less(b, a),
        "le": lambda: t.or_(_less(a, b), _equal(a, b)),
        "ge": lambda: t.or_(_less(b, a), _equal(a, b)),
    }[core]()  # fmt: skip
    if predicate[0] == "o":
        return t.and_(t.not_(unordered), held)
    return t.or_(unordered, held)


def _equal(a: Term, b: Term) -> Term:
    zeros = t.eq(absolute(t.bitor(a, b)), t.bv(0, a.sort))
    return t.or_(t.eq(a, b), zeros)


def _less(a: Term, b: Term) -> Term:
    """Of two numbers, sign and magnitude."""
    negative_a, negative_b = t.bv_to_bool(sign(a)), t.bv_to_bool(sign(b))
    both_negative = t.ult(b, a)
    return t.and_(
        t.not_(_equal(a, b)),
        t.ite(
            negative_a,
            t.or_(t.not_(negative_b), both_negative),
            t.and_(t.not_(negative_b), t.ult(a, b)),
        ),
    )
