"""exp, log, tanh and erf as straight-line programs over vector operations.

One definition serves every code generator: a function receives a `Builder`, which emits (or
computes) one elementwise operation a method, and returns the handle of its result. There are no
branches: what holds only for some elements is computed for all and selected.

The errors below are the largest measured (f32: over all 2^32 inputs, against double; f64: over
2^27 spread over all binades and over the curve, against long double), in units in the last place
of the exact value, subnormal ones included. `bench/elementary_error.py` prints them and
`bench/fit_elementary.py` the coefficients. Infinities and NaN of all bits, zeros of both signs and
subnormals are right in all functions, as long as the target rounds to nearest and does not flush
subnormals to zero.

The methods are those of the textbooks: minimax polynomials and additive range reduction (J.-M.
Muller, Elementary Functions, 3rd edition, 2016, chapters 3 and 11).
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from planish.codegen.elementary_tables import (
    DECAY_LIMIT,
    ERF,
    ERF_LIMIT,
    ERF_SLOPE,
    EXP,
    EXP_RANGE,
    EXPM1,
    FORMATS,
    LN_2,
    LN_2_PARTS,
    LOG,
    LOG2_E,
    Format,
)

V = TypeVar("V")


class Builder(Protocol[V]):
    """Elementwise operations on vectors of one length.

    A `type` names the type of the operands: "f32" or "f64", and an `itype` "i32" or "i64". The
    functions here turn integers into floats and back through bits alone, as AVX2 lacks the
    instructions for i64; `to_int`, `from_int` and `sra` are there for functions of f32.
    """

    def const(self, value: float | int, type: str) -> V:
        """`value`, rounded to nearest, in every element; it may be infinite or NaN."""

    def add(self, a: V, b: V, type: str) -> V: ...
    def sub(self, a: V, b: V, type: str) -> V: ...
    def mul(self, a: V, b: V, type: str) -> V: ...
    def div(self, a: V, b: V, type: str) -> V: ...

    def min(self, a: V, b: V, type: str) -> V:
        """a where a < b, else b: b if either is NaN."""

    def max(self, a: V, b: V, type: str) -> V:
        """a where a > b, else b: b if either is NaN."""

    def fma(self, a: V, b: V, c: V, type: str) -> V:
        """a * b + c, rounded once."""

    def fnma(self, a: V, b: V, c: V, type: str) -> V:
        """c - a * b, rounded once."""

    def abs(self, a: V, type: str) -> V: ...
    def neg(self, a: V, type: str) -> V: ...
    def sqrt(self, a: V, type: str) -> V: ...

    def round(self, a: V, type: str) -> V:
        """The nearest integer, ties to even, as a float."""

    def and_(self, a: V, b: V, itype: str) -> V: ...
    def or_(self, a: V, b: V, itype: str) -> V: ...
    def xor(self, a: V, b: V, itype: str) -> V: ...

    def shl(self, a: V, bits: int, itype: str) -> V: ...
    def srl(self, a: V, bits: int, itype: str) -> V:
        """Shift right, zeros moving in."""

    def sra(self, a: V, bits: int, itype: str) -> V:
        """Shift right, copies of the sign moving in; i32 only."""

    def iadd(self, a: V, b: V, itype: str) -> V:
        """a + b, wrapping around."""

    def isub(self, a: V, b: V, itype: str) -> V:
        """a - b, wrapping around."""

    def bitcast(self, a: V, from_type: str, to_type: str) -> V:
        """The same bits as another type of that width."""

    def to_int(self, a: V, type: str) -> V:
        """An integral f32 within +-2^31, as i32."""

    def from_int(self, a: V, itype: str) -> V:
        """An i32 as f32, rounded to nearest."""

    def select(self, pred: str, a: V, b: V, x: V, y: V, type: str) -> V:
        """x where `a pred b`, else y; all four of one type.

        `pred` is lt, le, gt, ge or eq, false where a or b is NaN, or ne, true there.
        """


def exp(b: Builder[V], x: V, type: str) -> V:
    """e^x, within 1.62 units (f32) and 1.48 units (f64).

    x = 2 m ln 2 + r with |r| <= ln 2, so e^x = 2^m e^r 2^m: the squared scale reaches beyond both
    ends of the exponent range, and the last product rounds a subnormal result once.
    """
    low, high = EXP_RANGE[type]
    # The limits come first, so that NaN passes.
    x = b.max(b.const(low, type), b.min(b.const(high, type), x, type), type)
    scale, r = _reduce(b, x, 2, type)
    one = b.const(1.0, type)
    power = b.fma(b.fma(_polynomial(b, r, EXP[type], type), r, one, type), r, one, type)
    return b.mul(b.mul(power, scale, type), scale, type)


def _reduce(b: Builder[V], x: V, step: int, type: str) -> tuple[V, V]:
    """2^m and r of x = m step ln 2 + r with |r| <= step/2 ln 2; m fits the exponent's range."""
    form = FORMATS[type]
    # Adding 1.5 * 2^fraction leaves the integer in the lowest bits; with the bias added as well
    # they are the exponent field of 2^m, and the shift drops all others.
    magic = b.const(1.5 * 2.0**form.fraction + form.bias, type)
    shifted = b.fma(x, b.const(LOG2_E / step, type), magic, type)
    m = b.sub(shifted, magic, type)
    bits = b.shl(b.bitcast(shifted, type, form.itype), form.fraction, form.itype)
    for part in LN_2_PARTS[type]:
        x = b.fnma(m, b.const(step * part, type), x, type)
    return b.bitcast(bits, form.itype, type), x


def log(b: Builder[V], x: V, type: str) -> V:
    """The natural logarithm, within 0.94 units (f32) and 1.17 units (f64).

    x = 2^e (1 + f) with -1/3 <= f < 1/3, so ln x = e ln 2 + ln(1 + f). Zeros of both signs give
    -inf, numbers below zero NaN.
    """
    form = FORMATS[type]
    e, f = _split(b, x, form, type)
    tail = _polynomial(b, f, (-0.5, *LOG[type]), type)
    y = b.fma(tail, b.mul(f, f, type), f, type)
    for part in LN_2[type]:
        y = b.fma(e, b.const(part, type), y, type)
    # The difference is below every logarithm of a finite x, and infinite or NaN where x is.
    y = b.max(y, b.sub(x, b.const(form.largest, type), type), type)
    zero = b.const(0.0, type)
    minus_inf, nan = b.const(float("-inf"), type), b.const(float("nan"), type)
    pole = b.select("eq", x, zero, minus_inf, nan, type)
    return b.select("le", x, zero, pole, y, type)


def _split(b: Builder[V], x: V, form: Format, type: str) -> tuple[V, V]:
    """e and f of a positive finite x = 2^e (1 + f) with -1/3 <= f < 1/3; anything for others."""
    smallest = b.const(form.smallest, type)
    widened = b.mul(x, b.const(2.0**form.fraction, type), type)
    # e, biased, stands in the lowest bits of the float 2^fraction; the offset removes both.
    offset = 2.0**form.fraction + form.bias
    wide = b.const(offset + form.fraction, type)
    offset_of = b.select("lt", x, smallest, wide, b.const(offset, type), type)
    normal = b.select("lt", x, smallest, widened, x, type)
    two_thirds = _bits_of_two_thirds(form)
    one = form.bias << form.fraction
    bits = b.bitcast(normal, type, form.itype)
    bits = b.iadd(bits, b.const(one - two_thirds, form.itype), form.itype)
    biased = b.srl(bits, form.fraction, form.itype)
    power = b.const((form.bias + form.fraction) << form.fraction, form.itype)
    e = b.bitcast(b.or_(biased, power, form.itype), form.itype, type)
    fraction = b.and_(bits, b.const((1 << form.fraction) - 1, form.itype), form.itype)
    m = b.iadd(fraction, b.const(two_thirds, form.itype), form.itype)
    f = b.sub(b.bitcast(m, form.itype, type), b.const(1.0, type), type)
    return b.sub(e, offset_of, type), f


def _bits_of_two_thirds(form: Format) -> int:
    """The bits of 2/3 = 2^-1 (1 + 1/3), its fraction rounded down."""
    return ((form.bias - 1) << form.fraction) + (1 << form.fraction) // 3


def tanh(b: Builder[V], x: V, type: str) -> V:
    """The hyperbolic tangent, within 1.97 units (f32) and 2.04 units (f64); never beyond +-1.

    tanh |x| = (1 - e^t) / (1 + e^t) with t = -2 |x|.
    """
    one = b.const(1.0, type)
    t = b.mul(b.abs(x, type), b.const(-2.0, type), type)
    t = b.max(b.const(-DECAY_LIMIT[type], type), t, type)
    scale, q = _exp_near_one(b, t, type)
    rise = b.fnma(scale, q, b.sub(one, scale, type), type)
    y = b.div(rise, b.fma(scale, q, b.add(one, scale, type), type), type)
    return _with_sign_of(b, x, y, type)


def erf(b: Builder[V], x: V, type: str) -> V:
    """The error function, within 1.85 units (f32) and 1.72 units (f64); never beyond +-1.

    erf |x| = 1 - e^t with t = ln erfc |x|, for which one polynomial without constant does from
    zero to where erf is one: what is lost of t where it is large, e^t loses too.
    """
    a = b.min(b.const(ERF_LIMIT[type], type), b.abs(x, type), type)
    curve = b.mul(a, _polynomial(b, a, ERF[type], type), type)
    t = b.fma(a, b.const(ERF_SLOPE[type], type), curve, type)
    scale, q = _exp_near_one(b, t, type)
    y = b.fnma(scale, q, b.sub(b.const(1.0, type), scale, type), type)
    return _with_sign_of(b, x, y, type)


def _exp_near_one(b: Builder[V], t: V, type: str) -> tuple[V, V]:
    """s and q of e^t = s + s q for -60 < t <= 0: s a power of two, and 1 where t is near zero."""
    scale, r = _reduce(b, t, 1, type)
    tail = b.mul(_polynomial(b, r, EXPM1[type], type), r, type)
    return scale, b.fma(tail, r, r, type)


def _with_sign_of(b: Builder[V], x: V, size: V, type: str) -> V:
    """`size`, which is not negative, with the sign of x."""
    form = FORMATS[type]
    sign = b.and_(
        b.bitcast(x, type, form.itype), b.bitcast(b.const(-0.0, type), type, form.itype), form.itype
    )
    return b.bitcast(b.or_(b.bitcast(size, type, form.itype), sign, form.itype), form.itype, type)


def _polynomial(b: Builder[V], x: V, coefficients: tuple[float, ...], type: str) -> V:
    """Horner's rule, constant first: as exact as one wants, and the fewest operations."""
    value = b.const(coefficients[-1], type)
    for coefficient in coefficients[-2::-1]:
        value = b.fma(value, x, b.const(coefficient, type), type)
    return value
