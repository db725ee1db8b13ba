"""Comparisons of bit vectors, and arrays, simplified as they are built."""

from __future__ import annotations

from planish.verify.logic import eq, ite, not_
from planish.verify.nodes import (
    BOOL,
    ELEMENT,
    FALSE,
    Term,
    boolean,
    bv,
    make,
    memo,
    signed,
    value_of,
)


def ult(a: Term, b: Term) -> Term:
    if a is b:
        return FALSE
    if a.constant and b.constant:
        return boolean(value_of(a) < value_of(b))
    if b.constant and value_of(b) == 0:
        return FALSE
    if b.constant and value_of(b) == 1:
        return eq(a, bv(0, a.sort))
    if a.constant and value_of(a) == (1 << a.sort) - 1:
        return FALSE
    if a.constant and value_of(a) == 0:
        return not_(eq(b, a))
    narrow = _narrow(a, b)
    if narrow is not None:
        return ult(*narrow)
    return make("bvult", (a, b), BOOL)


def ule(a: Term, b: Term) -> Term:
    return not_(ult(b, a))


def slt(a: Term, b: Term) -> Term:
    if a is b:
        return FALSE
    if a.constant and b.constant:
        return boolean(signed(a) < signed(b))
    narrow = _narrow(a, b)
    if narrow is not None:
        return ult(*narrow)
    return make("bvslt", (a, b), BOOL)


def sle(a: Term, b: Term) -> Term:
    return not_(slt(b, a))


def _narrow(a: Term, b: Term) -> tuple[Term, Term] | None:
    """Operands of one comparison that are both zero-extended, at their own width."""
    if a.op == "zext" and b.op == "zext" and a.args[0].sort == b.args[0].sort:
        return a.args[0], b.args[0]
    for x, k in ((a, b), (b, a)):
        if x.op == "zext" and k.constant and value_of(k) >> x.args[0].sort == 0:
            small = bv(value_of(k), x.args[0].sort)
            return (x.args[0], small) if x is a else (small, x.args[0])
    return None


@memo
def select(array: Term, index: Term) -> Term:
    """What the array holds at the index."""
    while array.op == "store":
        below, at, held = array.args
        if at is index:
            return held
        if eq(at, index) is not FALSE:
            break
        array = below
    if array.op == "constarray":
        return array.args[0]
    if array.op == "ite":
        c, a, b = array.args
        return ite(c, select(a, index), select(b, index))
    return make("select", (array, index), ELEMENT[array.sort])


def store(array: Term, index: Term, held: Term) -> Term:
    """The array with one element replaced."""
    if array.op == "store" and array.args[1] is index:
        array = array.args[0]
    return make("store", (array, index, held), array.sort)


def const_array(held: Term, sort: int) -> Term:
    """An array that holds the same everywhere."""
    return make("constarray", (held,), sort)
