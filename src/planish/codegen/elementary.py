"""exp, log, tanh and erf as straight-line programs over vector operations.

One definition serves both code generators and the tests. Coefficients are minimax fits of our
own (`bench/fit_elementary.py` prints them); `bench/elementary_error.py` measures the errors that
the docstrings state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

V = TypeVar("V")


class Builder(Protocol[V]):
    """Operations on all lanes; `type` is the operands'.

    `fma` is a*b + c and `fnma` c - a*b, rounded once. `min(a, b)` is a where a < b, else b, and
    `max` alike, so that the second operand's NaN comes through. `select` is x where `a pred b`.
    """

    def const(self, value: float | int, type: str) -> V: ...
    def add(self, a: V, b: V, type: str) -> V: ...
    def sub(self, a: V, b: V, type: str) -> V: ...
    def mul(self, a: V, b: V, type: str) -> V: ...
    def div(self, a: V, b: V, type: str) -> V: ...
    def min(self, a: V, b: V, type: str) -> V: ...
    def max(self, a: V, b: V, type: str) -> V: ...
    def fma(self, a: V, b: V, c: V, type: str) -> V: ...
    def fnma(self, a: V, b: V, c: V, type: str) -> V: ...
    def abs(self, a: V, type: str) -> V: ...
    def round(self, a: V, type: str) -> V: ...
    def and_(self, a: V, b: V, itype: str) -> V: ...
    def or_(self, a: V, b: V, itype: str) -> V: ...
    def shl(self, a: V, bits: int, itype: str) -> V: ...
    def srl(self, a: V, bits: int, itype: str) -> V: ...
    def sra(self, a: V, bits: int, itype: str) -> V: ...
    def iadd(self, a: V, b: V, itype: str) -> V: ...
    def isub(self, a: V, b: V, itype: str) -> V: ...
    def bitcast(self, a: V, source: str, target: str) -> V: ...
    def to_int(self, a: V, type: str) -> V: ...
    def from_int(self, a: V, itype: str) -> V: ...
    def select(self, pred: str, a: V, b: V, x: V, y: V, type: str) -> V: ...

    def scale(self, a: V, n: V, type: str) -> V | None:
        """a * 2^n, rounded once, where the machine has an instruction for it."""


_LOG2_E = 1.4426950408889634
# ln 2 in two parts; the first has so many zeros at its end that its products with n are exact.
_LN2 = {
    "f32": (0.693359375, -0.00021219444170128554),
    "f64": (0.6931471804855391, 7.440617110012397e-11),
}

# exp(r) = 1 + r + r^2 q(r) for |r| <= ln(2)/2.
_EXP = {
    "f32": (0.4999999403953552, 0.16666515171527863, 0.04166845604777336, 0.008369418792426586,
            0.0013813141267746687),
    "f64": (0.5, 0.16666666666666685, 0.04166666666666603, 0.008333333333315708,
            0.0013888888889134244, 0.0001984126989971594, 2.4801586903706392e-05,
            2.755723149250437e-06, 2.7557592515807506e-07, 2.5113222926781466e-08,
            2.082558854245862e-09),
}  # fmt: skip
# Beyond these exp is infinite or 0.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}

# f32: log(1+f) = f - f^2/2 + f^3 p(f). f64: log(1+f) = 2s + s z R(z), s = f/(2+f), z = s^2.
_LOG_F32 = (
    0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053,
    0.14219555258750916, -0.1240558922290802, 0.11888144910335541, -0.11675640195608139,
    0.0674666315317154,
)  # fmt: skip
_LOG_F64 = (
    0.6666666666666666, 0.4000000000000624, 0.2857142856908728, 0.22222222646578565,
    0.1818177568341748, 0.15387089959766237, 0.13250136386903127, 0.1325116111094774,
)  # fmt: skip

# tanh(x) = x + x z T(z), z = x^2, for |x| <= 0.56.
_TANH = {
    "f32": (-0.3333333134651184, 0.13333287835121155, -0.05395861715078354, 0.021775228902697563,
            -0.008388903923332691, 0.002365403575822711),
    "f64": (-0.3333333333333333, 0.1333333333333332, -0.05396825396824069, 0.021869488535560224,
            -0.00886323551415497, 0.0035921277682920156, -0.0014558312920028372,
            0.0005900025431556293, -0.00023898750430074723, 9.634563675632678e-05,
            -3.7678802469551164e-05, 1.2882638958352135e-05, -2.7698392081605933e-06),
}  # fmt: skip
# From here on tanh is 1 to working precision.
_TANH_LIMIT = {"f32": 9.5, "f64": 20.0}

# erf(x) = x + x E(z), z = x^2, for |x| <= 0.9.
_ERF = {
    "f32": (0.12837916612625122, -0.37612634897232056, 0.11283694207668304, -0.02685927040874958,
            0.005200634244829416, -0.0008137435652315617, 8.345217065652832e-05),
    "f64": (0.1283791670955126, -0.37612638903183754, 0.112837916709551, -0.026866170645124192,
            0.005223977625342115, -0.0008548327015003106, 0.00012055332523708819,
            -1.4925633694041065e-05, 1.6461698612468161e-06, -1.6358699258882837e-07,
            1.4723754482120722e-08, -1.1653695736485593e-09, 6.497540662264161e-11),
}  # fmt: skip
# f32: erfc(x) = exp(-x G(x)) for 0.9 <= x <= 3.95.
_ERFC_F32 = (
    1.1286370754241943, 0.6351980566978455, 0.1061590313911438, -0.023694554343819618,
    0.0036103359889239073, -0.00031485664658248425, 1.0432970157125965e-05,
)  # fmt: skip
# f64: erfc(x) = t exp(-x^2) H(t - middle), t = 2 / (2 + x), for 0.9 <= x <= 6.
_ERFC_MIDDLE = 0.46982758620689655
_ERFC_F64 = (
    0.4905627607066374, 0.6538478702609115, 0.5448392866212045, 0.16554142395789434,
    -0.15515174989055, -0.12041757055731946, 0.08545172960204427, 0.07353285692079432,
    -0.07931488154288753, -0.03256966433695998, 0.08241297374703757, -0.013865088397967578,
    -0.07410885732182897, 0.08304916932730087, -0.03210802892327496,
)  # fmt: skip


def _polynomial(b: Builder[V], x: V, coefficients: Sequence[float], type: str) -> V:
    """By Horner's rule, lowest coefficient first."""
    value = b.const(coefficients[-1], type)
    for coefficient in reversed(coefficients[:-1]):
        value = b.fma(value, x, b.const(coefficient, type), type)
    return value


def _reduce(b: Builder[V], x: V, type: str) -> tuple[V, V]:
    """n and r with x = n ln 2 + r, |r| <= ln(2)/2."""
    n = b.round(b.mul(x, b.const(_LOG2_E, type), type), type)
    high, low = _LN2[type]
    r = b.fnma(n, b.const(high, type), x, type)
    return n, b.fnma(n, b.const(low, type), r, type)


def _power(b: Builder[V], n: V, type: str) -> V:
    """2^n for a whole n inside the range of normal exponents."""
    if type == "f32":
        biased = b.iadd(b.to_int(n, "f32"), b.const(127, "i32"), "i32")
        return b.bitcast(b.shl(biased, 23, "i32"), "i32", "f32")
    # 1.5 * 2^52 brings the whole number into the low bits.
    bits = b.bitcast(b.add(n, b.const(6755399441055744.0, "f64"), "f64"), "f64", "i64")
    biased = b.iadd(bits, b.const(1023, "i64"), "i64")
    return b.bitcast(b.shl(biased, 52, "i64"), "i64", "f64")


def _exp_small(b: Builder[V], x: V, type: str) -> V:
    """exp for an x whose result is a normal number."""
    n, r = _reduce(b, x, type)
    q = _polynomial(b, r, _EXP[type], type)
    one = b.const(1.0, type)
    value = b.add(b.fma(b.mul(r, r, type), q, r, type), one, type)
    scaled = b.scale(value, n, type)
    return scaled if scaled is not None else b.mul(value, _power(b, n, type), type)


def exp(b: Builder[V], x: V, type: str) -> V:
    """e to the power of x, subnormal results included.

    The power of two is applied in two halves, so that the result is rounded once.
    """
    low, high = _EXP_RANGE[type]
    x = b.min(b.const(high, type), x, type)
    x = b.max(b.const(low, type), x, type)
    n, r = _reduce(b, x, type)
    q = _polynomial(b, r, _EXP[type], type)
    value = b.add(b.fma(b.mul(r, r, type), q, r, type), b.const(1.0, type), type)
    scaled = b.scale(value, n, type)
    if scaled is not None:
        return scaled
    half = b.round(b.mul(n, b.const(0.5, type), type), type)
    value = b.mul(value, _power(b, half, type), type)
    return b.mul(value, _power(b, b.sub(n, half, type), type), type)


def log(b: Builder[V], x: V, type: str) -> V:
    """The natural logarithm; -inf at 0, NaN below."""
    wide = type == "f64"
    itype, shift, bias = ("i64", 52, 1023) if wide else ("i32", 23, 127)
    smallest, scale = (2.0**-1022, 54) if wide else (2.0**-126, 24)
    zero = b.const(0.0, type)
    tiny = b.const(smallest, type)
    scaled = b.mul(x, b.const(2.0**scale, type), type)
    y = b.select("lt", x, tiny, scaled, x, type)
    lift = b.select("lt", x, tiny, b.const(float(scale), type), zero, type)
    bits = b.bitcast(y, type, itype)
    # Exponents are split at sqrt(1/2), so that the fraction lies around 1.
    root = b.const(0x3FE6A09E667F3BCD if wide else 0x3F3504F3, itype)
    offset = b.iadd(b.isub(bits, root, itype), b.const(bias << shift, itype), itype)
    biased = b.srl(offset, shift, itype)
    whole = b.shl(biased, shift, itype)
    fraction = b.iadd(b.isub(bits, whole, itype), b.const(bias << shift, itype), itype)
    f = b.sub(b.bitcast(fraction, itype, type), b.const(1.0, type), type)
    if wide:
        # 2^52 in the upper bits makes a small whole number a float.
        raised = b.or_(biased, b.const(0x4330000000000000, "i64"), "i64")
        e = b.sub(b.bitcast(raised, "i64", "f64"), b.const(2.0**52 + bias, "f64"), "f64")
    else:
        e = b.sub(b.from_int(biased, "i32"), b.const(float(bias), "f32"), "f32")
    e = b.sub(e, lift, type)
    value = _log1p_f64(b, f, e) if wide else _log1p_f32(b, f, e)
    infinity = b.const(float("inf"), type)
    value = b.select("eq", x, infinity, x, value, type)
    value = b.select("eq", x, zero, b.const(float("-inf"), type), value, type)
    value = b.select("lt", x, zero, b.const(float("nan"), type), value, type)
    return b.select("ne", x, x, x, value, type)


def _log1p_f32(b: Builder[V], f: V, e: V) -> V:
    """log(1 + f) + e ln 2"""
    high, low = _LN2["f32"]
    square = b.mul(f, f, "f32")
    cube = b.mul(square, f, "f32")
    tail = b.mul(cube, _polynomial(b, f, _LOG_F32, "f32"), "f32")
    tail = b.fma(e, b.const(low, "f32"), tail, "f32")
    tail = b.fma(b.const(-0.5, "f32"), square, tail, "f32")
    return b.fma(e, b.const(high, "f32"), b.add(f, tail, "f32"), "f32")


def _log1p_f64(b: Builder[V], f: V, e: V) -> V:
    """log(1 + f) + e ln 2, with s = f / (2 + f): f - (f^2/2 - s (f^2/2 + z R(z)))"""
    high, low = _LN2["f64"]
    s = b.div(f, b.add(f, b.const(2.0, "f64"), "f64"), "f64")
    z = b.mul(s, s, "f64")
    r = b.mul(z, _polynomial(b, z, _LOG_F64, "f64"), "f64")
    half = b.mul(b.mul(f, f, "f64"), b.const(0.5, "f64"), "f64")
    inner = b.fma(s, b.add(half, r, "f64"), b.mul(e, b.const(low, "f64"), "f64"), "f64")
    rest = b.sub(b.sub(half, inner, "f64"), f, "f64")
    return b.sub(b.mul(e, b.const(high, "f64"), "f64"), rest, "f64")


def _with_sign(b: Builder[V], value: V, sign: V, type: str) -> V:
    """|value| with the sign of another one."""
    itype = "i64" if type == "f64" else "i32"
    top = b.const(-(1 << 63) if type == "f64" else -(1 << 31), itype)
    bit = b.and_(b.bitcast(sign, type, itype), top, itype)
    return b.bitcast(b.or_(b.bitcast(value, type, itype), bit, itype), itype, type)


def tanh(b: Builder[V], x: V, type: str) -> V:
    """The hyperbolic tangent: a polynomial near 0, else 1 - 2 / (exp(2|x|) + 1)."""
    size = b.abs(x, type)
    z = b.mul(x, x, type)
    near = b.fma(b.mul(size, z, type), _polynomial(b, z, _TANH[type], type), size, type)
    y = b.min(b.const(_TANH_LIMIT[type], type), size, type)
    power = _exp_small(b, b.add(y, y, type), type)
    one = b.const(1.0, type)
    far = b.sub(one, b.div(b.const(2.0, type), b.add(power, one, type), type), type)
    value = b.select("lt", size, b.const(0.56, type), near, far, type)
    return _with_sign(b, value, x, type)


def erf(b: Builder[V], x: V, type: str) -> V:
    """The error function: a polynomial near 0, else 1 - erfc(|x|)."""
    size = b.abs(x, type)
    z = b.mul(x, x, type)
    near = b.fma(size, _polynomial(b, z, _ERF[type], type), size, type)
    y = b.min(b.const(3.95 if type == "f32" else 6.0, type), size, type)
    if type == "f32":
        exponent = b.mul(y, _polynomial(b, y, _ERFC_F32, type), type)
        zero = b.const(0.0, type)
        rest = _exp_small(b, b.sub(zero, exponent, type), type)
    else:
        two = b.const(2.0, type)
        t = b.div(two, b.add(y, two, type), type)
        u = b.sub(t, b.const(_ERFC_MIDDLE, type), type)
        shape = b.mul(t, _polynomial(b, u, _ERFC_F64, type), type)
        square = b.sub(b.const(0.0, type), b.mul(y, y, type), type)
        rest = b.mul(_exp_small(b, square, type), shape, type)
    far = b.sub(b.const(1.0, type), rest, type)
    value = b.select("lt", size, b.const(0.9, type), near, far, type)
    return _with_sign(b, value, x, type)
