"""Integer instructions on one element: the result, when it is poison, and when it is undefined."""

from __future__ import annotations

from planish.verify import terms as t
from planish.verify.terms import FALSE, Term

DIVISIONS = frozenset({"udiv", "sdiv", "urem", "srem"})
_SIMPLE = {
    "add": t.add, "sub": t.sub, "mul": t.mul, "and": t.bitand, "or": t.bitor, "xor": t.bitxor,
    "shl": t.shl, "lshr": t.lshr, "ashr": t.ashr, "udiv": t.udiv, "sdiv": t.sdiv,
    "urem": t.urem, "srem": t.srem,
}  # fmt: skip
BINARY = frozenset(_SIMPLE)


def binary(op: str, a: Term, b: Term, flags: frozenset[str]) -> tuple[Term, Term, Term]:
    """(bits, poison, undefined) of one operation on operands that are not poison."""
    width = a.sort
    undefined = FALSE
    if op in DIVISIONS:
        undefined = t.eq(b, t.bv(0, width))
        if op in ("sdiv", "srem"):
            lowest = t.bv(1 << (width - 1), width)
            undefined = t.or_(undefined, t.and_(t.eq(a, lowest), t.eq(b, t.bv(-1, width))))
    return _SIMPLE[op](a, b), _poison(op, a, b, flags), undefined


def _poison(op: str, a: Term, b: Term, flags: frozenset[str]) -> Term:
    found = []
    if op in ("shl", "lshr", "ashr"):
        found.append(t.ule(t.bv(a.sort, a.sort), b))
    if "nuw" in flags:
        found.append(overflows(op, a, b, signed=False))
    if "nsw" in flags:
        found.append(overflows(op, a, b, signed=True))
    if "disjoint" in flags:
        found.append(t.not_(t.eq(t.bitand(a, b), t.bv(0, a.sort))))
    if "exact" in flags:
        if op in ("lshr", "ashr"):
            found.append(t.not_(t.eq(t.shl(_SIMPLE[op](a, b), b), a)))
        else:
            rest = t.urem(a, b) if op == "udiv" else t.srem(a, b)
            found.append(t.not_(t.eq(rest, t.bv(0, a.sort))))
    return t.or_(*found)


def overflows(op: str, a: Term, b: Term, *, signed: bool) -> Term:
    """Whether add, sub, mul or shl leaves the range of its width."""
    width = a.sort
    if op == "add":
        total = t.add(a, b)
        if not signed:
            return t.ult(total, a)
        return _differs(a, b, total, same_signs=True)
    if op == "sub":
        if not signed:
            return t.ult(a, b)
        return _differs(a, b, t.sub(a, b), same_signs=False)
    if op == "shl":
        back = t.ashr if signed else t.lshr
        return t.not_(t.eq(back(t.shl(a, b), b), a))
    extend = t.sext if signed else t.zext
    product = t.mul(extend(a, 2 * width), extend(b, 2 * width))
    return t.not_(t.eq(product, extend(t.mul(a, b), 2 * width)))


def _sign(a: Term) -> Term:
    return t.slt(a, t.bv(0, a.sort))


def _differs(a: Term, b: Term, result: Term, *, same_signs: bool) -> Term:
    """Signed overflow: the result's sign is not that of `a`, and `b`'s makes that impossible."""
    if b.constant:
        # One comparison, which is what optimisers turn it into.
        value, lowest, highest = t.signed(b), -(1 << (a.sort - 1)), (1 << (a.sort - 1)) - 1
        value = value if same_signs else -value
        if value >= 0:
            return t.slt(t.bv(highest - value, a.sort), a)
        return t.slt(a, t.bv(lowest - value, a.sort))
    signs = t.eq(_sign(a), _sign(b))
    return t.and_(signs if same_signs else t.not_(signs), t.not_(t.eq(_sign(result), _sign(a))))


def compare(predicate: str, a: Term, b: Term) -> Term:
    """An icmp predicate."""
    if predicate in ("eq", "ne"):
        same = t.eq(a, b)
        return same if predicate == "eq" else t.not_(same)
    less, at_most = (t.ult, t.ule) if predicate[0] == "u" else (t.slt, t.sle)
    return {
        "gt": lambda: less(b, a), "ge": lambda: at_most(b, a),
        "lt": lambda: less(a, b), "le": lambda: at_most(a, b),
    }[predicate[1:]]()  # fmt: skip


def within(a: Term, low: int, high: int) -> Term:
    """Whether a number is in a half-open range, which may lead over the end of the numbers."""
    first, past = t.bv(low, a.sort), t.bv(high, a.sort)
    below, above = t.ult(a, past), t.ule(first, a)
    return t.and_(below, above) if t.value_of(first) < t.value_of(past) else t.or_(below, above)


def count_ones(a: Term) -> Term:
    """Population count."""
    total = t.bv(0, a.sort)
    for at in range(a.sort):
        total = t.add(total, t.zext(t.extract(a, at, at), a.sort))
    return total


def leading_zeros(a: Term) -> Term:
    """Zeros above the highest one; the width for zero."""
    found = t.bv(a.sort, a.sort)
    for at in range(a.sort):
        bit = t.bv_to_bool(t.extract(a, at, at))
        found = t.ite(bit, t.bv(a.sort - 1 - at, a.sort), found)
    return found


def trailing_zeros(a: Term) -> Term:
    """Zeros below the lowest one; the width for zero."""
    found = t.bv(a.sort, a.sort)
    for at in reversed(range(a.sort)):
        bit = t.bv_to_bool(t.extract(a, at, at))
        found = t.ite(bit, t.bv(at, a.sort), found)
    return found


def reverse(a: Term, step: int) -> Term:
    """The groups of `step` bits in the opposite order."""
    parts = [t.extract(a, at + step - 1, at) for at in range(0, a.sort, step)]
    whole = parts[0]
    for part in parts[1:]:
        whole = t.concat(whole, part)
    return whole


def funnel(a: Term, b: Term, amount: Term, *, left: bool) -> Term:
    """fshl and fshr."""
    width = a.sort
    shift = (
        t.urem(amount, t.bv(width, width))
        if width & (width - 1)
        else t.bitand(amount, t.bv(width - 1, width))
    )
    both = t.concat(a, b)
    wide = t.zext(shift, 2 * width)
    if left:
        return t.extract(t.shl(both, wide), 2 * width - 1, width)
    return t.extract(t.lshr(both, wide), width - 1, 0)
