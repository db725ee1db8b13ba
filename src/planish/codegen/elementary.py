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

from dataclasses import dataclass
from typing import Protocol, TypeVar

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


@dataclass(frozen=True, slots=True)
class _Format:
    """A binary floating-point type: the bits of its fraction, its integer, its range."""

    itype: str
    fraction: int
    bias: int
    smallest: float
    largest: float


_FORMATS = {
    "f32": _Format("i32", 23, 127, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127),
    "f64": _Format("i64", 52, 1023, 2.0**-1022, (2.0 - 2.0**-52) * 2.0**1023),
}


# (e^r - 1 - r) / r^2 for |r| <= ln 2, constant first.
_EXP = {
    "f32": (
        0.50000036,
        0.16666615,
        0.041661255,
        0.008336085,
        0.0014104217,
        0.00019611791,
    ),
    "f64": (
        0.4999999999999993,
        0.16666666666666935,
        0.04166666666670204,
        0.008333333333270024,
        0.0013888888883581837,
        0.00019841269892721772,
        2.4801590827733663e-05,
        2.7557300666559827e-06,
        2.755615850626428e-07,
        2.5055031752008614e-08,
        2.106229546469246e-09,
        1.5935622455573217e-10,
    ),
}
# Beyond these arguments e^x rounds to zero and to infinity.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-745.5, 710.0)}
_LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first of so few bits that its multiples here are exact.
_LN_2_PARTS = {
    "f32": (float.fromhex("0x1.62e4p-1"), 1.4286068e-06),
    "f64": (float.fromhex("0x1.62e42fefa38p-1"), 5.497923018708371e-14),
}


def exp(b: Builder[V], x: V, type: str) -> V:
    """e^x, within 1.62 units (f32) and 1.48 units (f64).

    x = 2 m ln 2 + r with |r| <= ln 2, so e^x = 2^m e^r 2^m: the squared scale reaches beyond both
    ends of the exponent range, and the last product rounds a subnormal result once.
    """
    low, high = _EXP_RANGE[type]
    # The limits come first, so that NaN passes.
    x = b.max(b.const(low, type), b.min(b.const(high, type), x, type), type)
    scale, r = _reduce(b, x, 2, type)
    one = b.const(1.0, type)
    power = b.fma(b.fma(_polynomial(b, r, _EXP[type], type), r, one, type), r, one, type)
    return b.mul(b.mul(power, scale, type), scale, type)


def _reduce(b: Builder[V], x: V, step: int, type: str) -> tuple[V, V]:
    """2^m and r of x = m step ln 2 + r with |r| <= step/2 ln 2; m fits the exponent's range."""
    form = _FORMATS[type]
    # Adding 1.5 * 2^fraction leaves the integer in the lowest bits; with the bias added as well
    # they are the exponent field of 2^m, and the shift drops all others.
    magic = b.const(1.5 * 2.0**form.fraction + form.bias, type)
    shifted = b.fma(x, b.const(_LOG2_E / step, type), magic, type)
    m = b.sub(shifted, magic, type)
    bits = b.shl(b.bitcast(shifted, type, form.itype), form.fraction, form.itype)
    for part in _LN_2_PARTS[type]:
        x = b.fnma(m, b.const(step * part, type), x, type)
    return b.bitcast(bits, form.itype, type), x


# (ln(1 + f) - f + f^2/2) / f^3 for |f| <= 1/3, constant first.
_LOG = {
    "f32": (
        0.33333215,
        -0.24999797,
        0.20010415,
        -0.16680491,
        0.1400588,
        -0.121842615,
        0.13984443,
        -0.12891687,
    ),
    "f64": (
        0.3333333333333323,
        -0.25000000000013334,
        0.20000000000054702,
        -0.16666666662931784,
        0.14285714276535144,
        -0.12500000388866214,
        0.11111111840332664,
        -0.09999979302669942,
        0.09090876596800544,
        -0.08333971926625595,
        0.07693188848552514,
        -0.07130796689177318,
        0.06651602135012648,
        -0.06390852827208528,
        0.06044752125070733,
        -0.0457378415695496,
        0.04204307327194816,
        -0.08624283817797514,
        0.08448939164465771,
    ),
}
# ln 2, the smallest part first: f64 would lose 0.4 units by one part.
_LN_2 = {"f32": (0.6931472,), "f64": (2.3190468138462996e-17, 0.6931471805599453)}


def log(b: Builder[V], x: V, type: str) -> V:
    """The natural logarithm, within 0.94 units (f32) and 1.17 units (f64).

    x = 2^e (1 + f) with -1/3 <= f < 1/3, so ln x = e ln 2 + ln(1 + f). Zeros of both signs give
    -inf, numbers below zero NaN.
    """
    form = _FORMATS[type]
    e, f = _split(b, x, form, type)
    tail = _polynomial(b, f, (-0.5, *_LOG[type]), type)
    y = b.fma(tail, b.mul(f, f, type), f, type)
    for part in _LN_2[type]:
        y = b.fma(e, b.const(part, type), y, type)
    # The difference is below every logarithm of a finite x, and infinite or NaN where x is.
    y = b.max(y, b.sub(x, b.const(form.largest, type), type), type)
    zero = b.const(0.0, type)
    minus_inf, nan = b.const(float("-inf"), type), b.const(float("nan"), type)
    pole = b.select("eq", x, zero, minus_inf, nan, type)
    return b.select("le", x, zero, pole, y, type)


def _split(b: Builder[V], x: V, form: _Format, type: str) -> tuple[V, V]:
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


def _bits_of_two_thirds(form: _Format) -> int:
    """The bits of 2/3 = 2^-1 (1 + 1/3), its fraction rounded down."""
    return ((form.bias - 1) << form.fraction) + (1 << form.fraction) // 3


# (ln erfc(a) / a - c) for 0 <= a <= the limit, constant first, c being the rounded slope at 0.
_ERF = {
    "f32": (
        5.4128e-08,
        -0.6366194,
        -0.102777824,
        0.019153066,
        0.00016039575,
        -0.0016670262,
        0.0006328369,
        -0.00011764114,
        9.256265e-06,
    ),
    "f64": (
        9.069053206507917e-18,
        -0.6366197723675909,
        -0.1027726033013155,
        0.01912844699309516,
        0.00020919485391858285,
        -0.0016962076698327148,
        0.0005901324299274238,
        -2.5904498636635967e-05,
        -6.44204759570923e-05,
        2.9575677132763672e-05,
        -3.1696880082373387e-06,
        -3.1329420024493796e-06,
        2.0371694555806208e-06,
        -5.70618492747647e-07,
        1.1700051725235903e-08,
        6.573735557631131e-08,
        -3.458626564898871e-08,
        1.0773763611912766e-08,
        -2.360608001769828e-09,
        3.7608702799547735e-10,
        -4.301982974121693e-11,
        3.3645177967614306e-12,
        -1.6149588211309018e-13,
        3.592407254853006e-15,
    ),
}
_ERF_SLOPE = {"f32": -1.1283792, "f64": -1.1283791670955126}
# (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2, constant first.
_EXPM1 = {
    "f32": (
        0.49999997,
        0.16666543,
        0.041667346,
        0.008366641,
        0.0013882729,
    ),
    "f64": (
        0.5,
        0.16666666666666677,
        0.04166666666666652,
        0.008333333333321664,
        0.001388888888896235,
        0.0001984126988595988,
        2.4801587172570628e-05,
        2.7557244380987806e-06,
        2.7557402624002274e-07,
        2.5108976282830074e-08,
        2.0875333090189367e-09,
    ),
}
# Beyond these arguments erf rounds to one, and so does 1 - e^-x.
_ERF_LIMIT = {"f32": 3.95, "f64": 5.95}
_DECAY_LIMIT = {"f32": 20.0, "f64": 40.0}


def tanh(b: Builder[V], x: V, type: str) -> V:
    """The hyperbolic tangent, within 1.97 units (f32) and 2.04 units (f64); never beyond +-1.

    tanh |x| = (1 - e^t) / (1 + e^t) with t = -2 |x|.
    """
    one = b.const(1.0, type)
    t = b.mul(b.abs(x, type), b.const(-2.0, type), type)
    t = b.max(b.const(-_DECAY_LIMIT[type], type), t, type)
    scale, q = _exp_near_one(b, t, type)
    rise = b.fnma(scale, q, b.sub(one, scale, type), type)
    y = b.div(rise, b.fma(scale, q, b.add(one, scale, type), type), type)
    return _with_sign_of(b, x, y, type)


def erf(b: Builder[V], x: V, type: str) -> V:
    """The error function, within 1.85 units (f32) and 1.72 units (f64); never beyond +-1.

    erf |x| = 1 - e^t with t = ln erfc |x|, for which one polynomial without constant does from
    zero to where erf is one: what is lost of t where it is large, e^t loses too.
    """
    a = b.min(b.const(_ERF_LIMIT[type], type), b.abs(x, type), type)
    curve = b.mul(a, _polynomial(b, a, _ERF[type], type), type)
    t = b.fma(a, b.const(_ERF_SLOPE[type], type), curve, type)
    scale, q = _exp_near_one(b, t, type)
    y = b.fnma(scale, q, b.sub(b.const(1.0, type), scale, type), type)
    return _with_sign_of(b, x, y, type)


def _exp_near_one(b: Builder[V], t: V, type: str) -> tuple[V, V]:
    """s and q of e^t = s + s q for -60 < t <= 0: s a power of two, and 1 where t is near zero."""
    scale, r = _reduce(b, t, 1, type)
    tail = b.mul(_polynomial(b, r, _EXPM1[type], type), r, type)
    return scale, b.fma(tail, r, r, type)


def _with_sign_of(b: Builder[V], x: V, size: V, type: str) -> V:
    """`size`, which is not negative, with the sign of x."""
    form = _FORMATS[type]
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
