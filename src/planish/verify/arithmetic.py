"""Arithmetic and shifts of bit vectors, simplified as they are built."""

from __future__ import annotations

from collections.abc import Callable

from planish.verify.bits import concat, extract, sext, zext
from planish.verify.nodes import Term, bv, make, signed, value_of


def _two(op: str, a: Term, b: Term) -> Term:
    return make(op, (a, b), a.sort)


def add(a: Term, b: Term) -> Term:
    if a.constant and b.constant:
        return bv(value_of(a) + value_of(b), a.sort)
    if a.constant:
        a, b = b, a
    if b.constant:
        if value_of(b) == 0:
            return a
        if a.op == "bvadd" and a.args[1].constant:
            return add(a.args[0], add(a.args[1], b))
        return _two("bvadd", a, b)
    # Constants are kept outermost, so that offsets from one base meet.
    if a.op == "bvadd" and a.args[1].constant:
        return add(add(a.args[0], b), a.args[1])
    if b.op == "bvadd" and b.args[1].constant:
        return add(add(a, b.args[0]), b.args[1])
    if a.number > b.number:
        a, b = b, a
    return _two("bvadd", a, b)


def neg(a: Term) -> Term:
    if a.constant:
        return bv(-value_of(a), a.sort)
    if a.op == "bvneg":
        return a.args[0]
    return make("bvneg", (a,), a.sort)


def sub(a: Term, b: Term) -> Term:
    if a is b:
        return bv(0, a.sort)
    if b.constant:
        return add(a, bv(-value_of(b), b.sort))
    if a.op == "bvadd":
        if a.args[0] is b:
            return a.args[1]
        if a.args[1] is b:
            return a.args[0]
        if a.args[1].constant:
            return add(sub(a.args[0], b), a.args[1])
    if b.op == "bvadd" and b.args[1].constant:
        return add(sub(a, b.args[0]), neg(b.args[1]))
    if a.constant and value_of(a) == 0:
        return neg(b)
    return _two("bvsub", a, b)


def mul(a: Term, b: Term) -> Term:
    if a.constant:
        a, b = b, a
    if b.constant:
        k = value_of(b)
        if a.constant:
            return bv(value_of(a) * k, a.sort)
        if k == 0:
            return b
        if k == 1:
            return a
        if k & (k - 1) == 0:
            return shl(a, bv(k.bit_length() - 1, a.sort))
    elif a.number > b.number:
        a, b = b, a
    return _two("bvmul", a, b)


def udiv(a: Term, b: Term) -> Term:
    if b.constant and value_of(b):
        if a.constant:
            return bv(value_of(a) // value_of(b), a.sort)
        if value_of(b) == 1:
            return a
    return _two("bvudiv", a, b)


def urem(a: Term, b: Term) -> Term:
    if b.constant and value_of(b):
        if a.constant:
            return bv(value_of(a) % value_of(b), a.sort)
        if value_of(b) == 1:
            return bv(0, a.sort)
    return _two("bvurem", a, b)


def sdiv(a: Term, b: Term) -> Term:
    if a.constant and b.constant and value_of(b):
        x, y = signed(a), signed(b)
        return bv(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), a.sort)
    return _two("bvsdiv", a, b)


def srem(a: Term, b: Term) -> Term:
    if a.constant and b.constant and value_of(b):
        x, y = signed(a), signed(b)
        return bv(abs(x) % abs(y) * (-1 if x < 0 else 1), a.sort)
    return _two("bvsrem", a, b)


def shl(a: Term, b: Term) -> Term:
    return _shift("bvshl", a, b, lambda k: concat(extract(a, a.sort - 1 - k, 0), bv(0, k)))


def lshr(a: Term, b: Term) -> Term:
    return _shift("bvlshr", a, b, lambda k: zext(extract(a, a.sort - 1, k), a.sort))


def _shift(op: str, a: Term, b: Term, by: Callable[[int], Term]) -> Term:
    """A shift that fills with zeros; `by` a number of bits that leaves some."""
    if not b.constant:
        return _two(op, a, b)
    k = value_of(b)
    if k == 0:
        return a
    return bv(0, a.sort) if k >= a.sort else by(k)


def ashr(a: Term, b: Term) -> Term:
    if b.constant:
        k = min(value_of(b), a.sort - 1)
        return a if k == 0 else sext(extract(a, a.sort - 1, k), a.sort)
    return _two("bvashr", a, b)
