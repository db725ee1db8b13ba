"""Booleans, if-then-else and equality of terms, simplified as they are built."""

from __future__ import annotations

from collections.abc import Sequence

from planish.verify.nodes import BOOL, FALSE, TRUE, Term, bv, make, memo, value_of


def not_(a: Term) -> Term:
    if a is TRUE:
        return FALSE
    if a is FALSE:
        return TRUE
    if a.op == "not":
        return a.args[0]
    return make("not", (a,), BOOL)


def and_(*terms: Term) -> Term:
    return _connect("and", terms, TRUE, FALSE)


def or_(*terms: Term) -> Term:
    return _connect("or", terms, FALSE, TRUE)


def _connect(op: str, terms: Sequence[Term], unit: Term, zero: Term) -> Term:
    """Conjunction or disjunction, flat, without repetitions."""
    found: dict[int, Term] = {}
    for term in terms:
        for part in term.args if term.op == op else (term,):
            if part is zero:
                return zero
            if part is not unit:
                found[part.number] = part
    for part in found.values():
        if part.op == "not" and part.args[0].number in found:
            return zero
        other = "or" if op == "and" else "and"
        if part.op == other and any(a.number in found for a in part.args):  # absorption
            return _connect(op, [p for p in found.values() if p is not part], unit, zero)
        inside = part.args[0].args if part.op == "not" and part.args[0].op == other else ()
        if any(a.number in found for a in inside):  # a and not (a or b), a or not (a and b)
            return zero
    parts = sorted(found.values(), key=lambda part: part.number)
    if not parts:
        return unit
    return parts[0] if len(parts) == 1 else make(op, tuple(parts), BOOL)


def conjuncts(a: Term) -> frozenset[Term]:
    """The parts of a conjunction."""
    if a is TRUE:
        return frozenset()
    return frozenset(a.args) if a.op == "and" else frozenset((a,))


def disjuncts(a: Term) -> frozenset[Term]:
    """The parts of a disjunction."""
    if a is FALSE:
        return frozenset()
    return frozenset(a.args) if a.op == "or" else frozenset((a,))


def either(a: Term, b: Term) -> Term:
    """Disjunction; of `x and c` and `x and not c` it is `x`."""
    parts_a, parts_b = conjuncts(a), conjuncts(b)
    common = parts_a & parts_b
    rest_a, rest_b = and_(*(parts_a - common)), and_(*(parts_b - common))
    return and_(*common, or_(rest_a, rest_b))


def implies(a: Term, b: Term) -> Term:
    return or_(not_(a), b)


@memo
def ite(c: Term, a: Term, b: Term) -> Term:
    """If-then-else of any sort."""
    if c is TRUE or a is b:
        return a
    if c is FALSE:
        return b
    if c.op == "not":
        return ite(c.args[0], b, a)
    if a.op == "ite" and a.args[0] is c:
        a = a.args[1]
    if b.op == "ite" and b.args[0] is c:
        b = b.args[2]
    if a is b:
        return a
    if a.sort == BOOL:
        return _bool_ite(c, a, b)
    if b.op == "ite" and b.args[1] is a:
        return ite(or_(c, b.args[0]), a, b.args[2])
    if a.op == "ite" and a.args[2] is b:
        return ite(and_(c, a.args[0]), a.args[1], b)
    return make("ite", (c, a, b), a.sort)


def _bool_ite(c: Term, a: Term, b: Term) -> Term:
    if a is TRUE:
        return or_(c, b)
    if a is FALSE:
        return and_(not_(c), b)
    if b is TRUE:
        return or_(not_(c), a)
    if b is FALSE:
        return and_(c, a)
    return make("ite", (c, a, b), BOOL)


@memo
def eq(a: Term, b: Term) -> Term:
    """Equality of any sort."""
    if a is b:
        return TRUE
    if a.constant and b.constant:
        return FALSE
    if a.sort == BOOL:
        if a.constant:
            return b if a is TRUE else not_(b)
        if b.constant:
            return a if b is TRUE else not_(a)
    if a.constant:
        a, b = b, a
    if b.constant:
        simpler = _eq_constant(a, b)
        if simpler is not None:
            return simpler
    if a.sort > 0 and a.op == "bvadd" and a.args[1].constant:
        if a.args[0] is b:
            return FALSE
        if b.op == "bvadd" and b.args[0] is a.args[0] and b.args[1].constant:
            return FALSE
    if b.sort > 0 and b.op == "bvadd" and b.args[1].constant and b.args[0] is a:
        return FALSE
    if a.number > b.number:
        a, b = b, a
    return make("=", (a, b), BOOL)


def _eq_constant(a: Term, k: Term) -> Term | None:
    if a.op == "ite" and (a.args[1].constant or a.args[2].constant):
        return ite(a.args[0], eq(a.args[1], k), eq(a.args[2], k))
    if a.op == "zext":
        inner = a.args[0]
        if value_of(k) >> inner.sort:
            return FALSE
        return eq(inner, bv(value_of(k), inner.sort))
    if a.op == "bvadd" and a.args[1].constant:
        return eq(a.args[0], bv(value_of(k) - value_of(a.args[1]), k.sort))
    return None


def bool_to_bv(a: Term, width: int = 1) -> Term:
    return ite(a, bv(1, width), bv(0, width))


def bv_to_bool(a: Term) -> Term:
    """Whether a one-bit vector is 1."""
    return eq(a, bv(1, a.sort))
