"""Bits of bit vectors: logic, parts, extensions, simplified as they are built."""

from __future__ import annotations

from planish.verify.logic import and_, bool_to_bv, bv_to_bool, ite, or_
from planish.verify.nodes import Term, bv, make, memo, signed, value_of


def bitnot(a: Term) -> Term:
    if a.constant:
        return bv(~value_of(a), a.sort)
    if a.op == "bvnot":
        return a.args[0]
    if a.op == "ite" and a.args[1].constant and a.args[2].constant:
        return ite(a.args[0], bitnot(a.args[1]), bitnot(a.args[2]))
    return make("bvnot", (a,), a.sort)


def bitand(a: Term, b: Term) -> Term:
    if a.constant:
        a, b = b, a
    ones = (1 << a.sort) - 1
    if a is b:
        return a
    if b.constant:
        k = value_of(b)
        if a.constant:
            return bv(value_of(a) & k, a.sort)
        if k == 0:
            return b
        if k == ones:
            return a
        if k & (k + 1) == 0:  # a mask of low bits
            return zext(extract(a, k.bit_length() - 1, 0), a.sort)
    if a.sort == 1:
        return bool_to_bv(and_(bv_to_bool(a), bv_to_bool(b)))
    return _commute("bvand", a, b)


def bitor(a: Term, b: Term) -> Term:
    if a.constant:
        a, b = b, a
    if a is b:
        return a
    if b.constant:
        k = value_of(b)
        if a.constant:
            return bv(value_of(a) | k, a.sort)
        if k == 0:
            return a
        if k == (1 << a.sort) - 1:
            return b
    if a.sort == 1:
        return bool_to_bv(or_(bv_to_bool(a), bv_to_bool(b)))
    return _commute("bvor", a, b)


def bitxor(a: Term, b: Term) -> Term:
    if a.constant:
        a, b = b, a
    if a is b:
        return bv(0, a.sort)
    if b.constant:
        k = value_of(b)
        if a.constant:
            return bv(value_of(a) ^ k, a.sort)
        if k == 0:
            return a
        if k == (1 << a.sort) - 1:
            return bitnot(a)
    return _commute("bvxor", a, b)


def _commute(op: str, a: Term, b: Term) -> Term:
    if not b.constant and a.number > b.number:
        a, b = b, a
    return make(op, (a, b), a.sort)


@memo
def extract(a: Term, high: int, low: int) -> Term:
    """Bits high to low, both included."""
    width = high - low + 1
    if width == a.sort:
        return a
    if a.constant:
        return bv(value_of(a) >> low, width)
    if a.op == "extract":
        assert isinstance(a.value, tuple)
        return extract(a.args[0], high + a.value[1], low + a.value[1])
    if a.op == "concat":
        return _extract_concat(a, high, low)
    if a.op in ("zext", "sext"):
        inner = a.args[0]
        if high < inner.sort:
            return extract(inner, high, low)
        if a.op == "zext" and low >= inner.sort:
            return bv(0, width)
        if low < inner.sort:
            part = extract(inner, inner.sort - 1, low)
            return zext(part, width) if a.op == "zext" else sext(part, width)
    if a.op == "ite" and (a.args[1].op in _OPEN or a.args[2].op in _OPEN):
        return ite(a.args[0], extract(a.args[1], high, low), extract(a.args[2], high, low))
    if low == 0 and a.op in ("bvadd", "bvand", "bvor", "bvxor", "bvmul") and a.sort <= 128:
        # Narrow arithmetic early: the low bits depend on the low bits only.
        from planish.verify.arithmetic import add, mul  # it needs what stands here

        x, y = (extract(argument, high, 0) for argument in a.args)
        narrow = {"bvadd": add, "bvand": bitand, "bvor": bitor, "bvxor": bitxor, "bvmul": mul}
        if any(argument.op in _OPEN for argument in a.args):
            return narrow[a.op](x, y)
    return make("extract", (a,), width, (high, low))


_OPEN = frozenset({"const", "zext", "sext", "concat", "ite", "extract"})


def _extract_concat(a: Term, high: int, low: int) -> Term:
    x, y = a.args
    if high < y.sort:
        return extract(y, high, low)
    if low >= y.sort:
        return extract(x, high - y.sort, low - y.sort)
    return concat(extract(x, high - y.sort, 0), extract(y, y.sort - 1, low))


@memo
def concat(a: Term, b: Term) -> Term:
    """`a` holds the high bits."""
    width = a.sort + b.sort
    if a.constant:
        if b.constant:
            return bv(value_of(a) << b.sort | value_of(b), width)
        if value_of(a) == 0:
            return zext(b, width)
    if a.op == "extract" and b.op == "extract" and a.args[0] is b.args[0]:
        assert isinstance(a.value, tuple) and isinstance(b.value, tuple)
        if a.value[1] == b.value[0] + 1:
            return extract(a.args[0], a.value[0], b.value[1])
    if a.op == "ite" and b.op == "ite" and a.args[0] is b.args[0]:
        return ite(a.args[0], concat(a.args[1], b.args[1]), concat(a.args[2], b.args[2]))
    if a.op == "ite" and b.constant and a.args[1].constant and a.args[2].constant:
        return ite(a.args[0], concat(a.args[1], b), concat(a.args[2], b))
    if b.op == "concat":  # keep the chain leaning to the left, so that neighbours meet
        return concat(concat(a, b.args[0]), b.args[1])
    if a.op == "concat":
        joined = _join(a.args[1], b)
        if joined is not None:
            return concat(a.args[0], joined)
    if a.op == "zext":
        return zext(concat(a.args[0], b), width)
    joined = _join(a, b)
    return joined if joined is not None else make("concat", (a, b), width)


def _join(a: Term, b: Term) -> Term | None:
    """Two neighbours as one term, where they are parts of one; else None."""
    if a.constant and b.constant:
        return concat(a, b)
    if a.op == "extract":
        assert isinstance(a.value, tuple)
        source = a.args[0]
        if b.op == "extract" and b.args[0] is source:
            assert isinstance(b.value, tuple)
            if a.value[1] == b.value[0] + 1:
                return extract(source, a.value[0], b.value[1])
        if b is source:
            return None
    return None


@memo
def zext(a: Term, width: int) -> Term:
    if width == a.sort:
        return a
    if a.constant:
        return bv(value_of(a), width)
    if a.op == "zext":
        return zext(a.args[0], width)
    if a.op == "ite" and a.args[1].constant and a.args[2].constant:
        return ite(a.args[0], zext(a.args[1], width), zext(a.args[2], width))
    return make("zext", (a,), width)


@memo
def sext(a: Term, width: int) -> Term:
    if width == a.sort:
        return a
    if a.constant:
        return bv(signed(a), width)
    if a.op in ("zext", "sext"):
        return (zext if a.op == "zext" else sext)(a.args[0], width)
    if a.op == "ite" and a.args[1].constant and a.args[2].constant:
        return ite(a.args[0], sext(a.args[1], width), sext(a.args[2], width))
    return make("sext", (a,), width)
