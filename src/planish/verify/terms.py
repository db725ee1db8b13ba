"""Interned SMT terms over booleans, bit vectors and byte arrays, simplified as they are built.

Equal terms are the same object, so that most of a validation is decided by identity before a
solver is asked. Constants fold completely: a function encoded for constant inputs evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

# A sort is the width of a bit vector, or one of these.
BOOL = 0
MEMORY = -1  # 64-bit address to a byte with its flags (memory.py)
VALID = -2  # 64-bit address to one bit
INDEX = 64
BYTE = 19  # 8 data bits, 10 of provenance, poison (memory.py)
_ELEMENT = {MEMORY: BYTE, VALID: 1}


class Term:
    """One node. `value` holds a constant, a name, or an operation's numbers."""

    __slots__ = ("args", "number", "op", "sort", "value")

    def __init__(
        self, op: str, args: tuple[Term, ...], sort: int, value: object, number: int
    ) -> None:
        self.op, self.args, self.sort, self.value, self.number = op, args, sort, value, number

    @property
    def constant(self) -> bool:
        return self.op == "const"

    def __repr__(self) -> str:
        inside = [repr(argument) for argument in self.args]
        head = f"{self.value}:{self.sort}" if not self.args else self.op
        return f"({head} {' '.join(inside)})" if inside else head


_table: dict[tuple[object, ...], Term] = {}


def make(op: str, args: tuple[Term, ...], sort: int, value: object = None) -> Term:
    key = (op, sort, value, *[argument.number for argument in args])
    found = _table.get(key)
    if found is None:
        found = _table[key] = Term(op, args, sort, value, len(_table))
    return found


_F = TypeVar("_F", bound=Callable[..., Term])
_known: dict[tuple[object, ...], Term] = {}


def _memo(function: _F) -> _F:
    """Keep results: simplification descends into shared terms, which are no trees."""

    def wrapper(*arguments: Term | int) -> Term:
        key = (function, *[a.number if isinstance(a, Term) else -a - 1 for a in arguments])
        found = _known.get(key)
        if found is None:
            found = _known[key] = function(*arguments)
        return found

    return wrapper  # type: ignore[return-value]


def clear() -> None:
    """Forget all terms but the constants true and false: one function's terms are of no use to
    the next."""
    _table.clear()
    _known.clear()
    for term in (TRUE, FALSE):
        _table[("const", BOOL, term.value)] = term


def value_of(term: Term) -> int:
    """The number of a constant."""
    assert isinstance(term.value, int)
    return term.value


def bv(value: int, width: int) -> Term:
    """A bit-vector constant, modulo 2**width."""
    return make("const", (), width, value & ((1 << width) - 1))


def boolean(value: bool) -> Term:
    return TRUE if value else FALSE


TRUE = make("const", (), BOOL, 1)
FALSE = make("const", (), BOOL, 0)


def var(name: str, sort: int) -> Term:
    """A free variable."""
    return make("var", (), sort, name)


def apply(name: str, args: Sequence[Term], sort: int) -> Term:
    """An uninterpreted function's value."""
    return make("apply", tuple(args), sort, name)


def signed(term: Term) -> int:
    """The number of a constant, read as two's complement."""
    value = value_of(term)
    return value - (1 << term.sort) if value >> (term.sort - 1) else value


# -- booleans ------------------------------------------------------------------------------------


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


@_memo
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


@_memo
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


# -- arithmetic ----------------------------------------------------------------------------------


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


# -- bits ----------------------------------------------------------------------------------------


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
    return _two(op, a, b)


@_memo
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


@_memo
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


@_memo
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


@_memo
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


# -- comparisons ---------------------------------------------------------------------------------


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


# -- arrays --------------------------------------------------------------------------------------


@_memo
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
    return make("select", (array, index), _ELEMENT[array.sort])


def store(array: Term, index: Term, held: Term) -> Term:
    """The array with one element replaced."""
    if array.op == "store" and array.args[1] is index:
        array = array.args[0]
    return make("store", (array, index, held), array.sort)


def const_array(held: Term, sort: int) -> Term:
    """An array that holds the same everywhere."""
    return make("constarray", (held,), sort)
