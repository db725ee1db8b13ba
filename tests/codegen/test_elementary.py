"""exp, log, tanh and erf against references of more digits, by a `Builder` that computes.

The dense measurements, f32 at every input, are those of bench/elementary_error.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from planish.codegen import elementary

Vector = NDArray[np.generic]
_FLOATS = {"f32": np.float32, "f64": np.float64}
_INTS = {"i32": np.int32, "i64": np.int64}
_UNSIGNED = {"i32": np.uint32, "i64": np.uint64}
_DTYPES = _FLOATS | _INTS
_PREDICATES = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
# As the docstrings say.
_BOUNDS = {
    ("exp", "f32"): 1.62,
    ("exp", "f64"): 1.48,
    ("log", "f32"): 0.94,
    ("log", "f64"): 1.17,
    ("tanh", "f32"): 1.97,
    ("tanh", "f64"): 2.04,
    ("erf", "f32"): 1.85,
    ("erf", "f64"): 1.72,
}
_CASES = sorted(_BOUNDS)


class NumpyBuilder:
    """Computes each operation; refuses operands of other types, and what AVX2 lacks."""

    def const(self, value: float | int, type: str) -> Vector:
        if type in _FLOATS:
            return np.array(value, _FLOATS[type])
        return np.array(value & (2 ** int(type[1:]) - 1), _UNSIGNED[type]).view(_INTS[type])

    def add(self, a: Vector, b: Vector, type: str) -> Vector:
        return np.add(*_floats(type, a, b))

    def sub(self, a: Vector, b: Vector, type: str) -> Vector:
        return np.subtract(*_floats(type, a, b))

    def mul(self, a: Vector, b: Vector, type: str) -> Vector:
        return np.multiply(*_floats(type, a, b))

    def div(self, a: Vector, b: Vector, type: str) -> Vector:
        return np.divide(*_floats(type, a, b))

    def min(self, a: Vector, b: Vector, type: str) -> Vector:
        return self.select("lt", a, b, a, b, type)

    def max(self, a: Vector, b: Vector, type: str) -> Vector:
        return self.select("gt", a, b, a, b, type)

    def fma(self, a: Vector, b: Vector, c: Vector, type: str) -> Vector:
        a, b, c = np.broadcast_arrays(*_floats(type, a, b, c))
        return _fma_f32(a, b, c) if type == "f32" else _fma_f64(a, b, c)

    def fnma(self, a: Vector, b: Vector, c: Vector, type: str) -> Vector:
        return self.fma(-a, b, c, type)

    def abs(self, a: Vector, type: str) -> Vector:
        return np.abs(*_floats(type, a))

    def neg(self, a: Vector, type: str) -> Vector:
        return np.negative(*_floats(type, a))

    def sqrt(self, a: Vector, type: str) -> Vector:
        return np.sqrt(*_floats(type, a))

    def round(self, a: Vector, type: str) -> Vector:
        return np.rint(*_floats(type, a))

    def and_(self, a: Vector, b: Vector, itype: str) -> Vector:
        return np.bitwise_and(*_ints(itype, a, b))

    def or_(self, a: Vector, b: Vector, itype: str) -> Vector:
        return np.bitwise_or(*_ints(itype, a, b))

    def xor(self, a: Vector, b: Vector, itype: str) -> Vector:
        return np.bitwise_xor(*_ints(itype, a, b))

    def shl(self, a: Vector, bits: int, itype: str) -> Vector:
        (a,) = _ints(itype, a)
        return (a.view(_UNSIGNED[itype]) << _UNSIGNED[itype](bits)).view(_INTS[itype])

    def srl(self, a: Vector, bits: int, itype: str) -> Vector:
        (a,) = _ints(itype, a)
        return (a.view(_UNSIGNED[itype]) >> _UNSIGNED[itype](bits)).view(_INTS[itype])

    def sra(self, a: Vector, bits: int, itype: str) -> Vector:
        assert itype == "i32"
        (a,) = _ints(itype, a)
        return a >> np.int32(bits)

    def iadd(self, a: Vector, b: Vector, itype: str) -> Vector:
        return np.add(*_ints(itype, a, b))

    def isub(self, a: Vector, b: Vector, itype: str) -> Vector:
        return np.subtract(*_ints(itype, a, b))

    def bitcast(self, a: Vector, from_type: str, to_type: str) -> Vector:
        assert a.dtype == _DTYPES[from_type]
        assert from_type[1:] == to_type[1:]
        return a.view(_DTYPES[to_type])

    def to_int(self, a: Vector, type: str) -> Vector:
        assert type == "f32"
        (a,) = _floats(type, a)
        return a.astype(np.int32)

    def from_int(self, a: Vector, itype: str) -> Vector:
        assert itype == "i32"
        (a,) = _ints(itype, a)
        return a.astype(np.float32)

    def select(self, pred: str, a: Vector, b: Vector, x: Vector, y: Vector, type: str) -> Vector:
        a, b, x, y = _floats(type, a, b, x, y)
        return np.where(_PREDICATES[pred](a, b), x, y)


def _floats(type: str, *operands: Vector) -> tuple[Vector, ...]:
    assert all(operand.dtype == _FLOATS[type] for operand in operands)
    return operands


def _ints(itype: str, *operands: Vector) -> tuple[Vector, ...]:
    assert all(operand.dtype == _INTS[itype] for operand in operands)
    return operands


def _fma_f32(a: Vector, b: Vector, c: Vector) -> Vector:
    """The product is exact in f64; a sum rounded to odd there rounds to f32 as the exact one."""
    return _sum_to_odd(a.astype(np.float64) * b, c.astype(np.float64)).astype(np.float32)


def _fma_f64(a: Vector, b: Vector, c: Vector) -> Vector:
    """S. Boldo, G. Melquiond, Emulation of FMA and correctly rounded sums, IEEE TC 57, 2008."""
    high = a * b
    size = np.abs(high)
    zero = (a == 0) | (b == 0)
    split_fits = (np.abs(a) < 2.0**900) & (np.abs(b) < 2.0**900) & (size < 2.0**1000)
    safe = split_fits & (zero | (size > 2.0**-900)) & (np.abs(c) < 2.0**1000)
    low = _product_error(a, b, high)
    top, rest = _two_sum(c, low)
    most, left = _two_sum(high, top)
    result = np.where(zero, high + c, most + _sum_to_odd(left, rest))
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    result = np.where(finite, result, high + c)
    for at in np.argwhere(finite & ~safe):
        key = tuple(at)
        result[key] = _exact_fma(a[key], b[key], c[key])
    return result


def _exact_fma(a: float, b: float, c: float) -> float:
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return float(a) * float(b) + float(c)
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _product_error(a: Vector, b: Vector, product: Vector) -> Vector:
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Vector) -> tuple[Vector, Vector]:
    scaled = a * (2.0**27 + 1)
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _sum_to_odd(a: Vector, b: Vector) -> Vector:
    """a + b; where inexact, the neighbour of the exact sum whose last bit is one."""
    total, error = _two_sum(a, b)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def _run(name: str, x: Vector, type: str) -> Vector:
    with np.errstate(all="ignore"):
        result = getattr(elementary, name)(NumpyBuilder(), x, type)
    assert result.dtype == _FLOATS[type]
    return result


def _errors(name: str, x: Vector, type: str) -> tuple[Vector, Vector]:
    """Errors where the result is finite, in units in the last place; and where that is."""
    y = _run(name, x, type)
    kept = np.isfinite(y)
    errors = _errors_f32 if type == "f32" else _errors_f64
    return errors(name, x[kept], y[kept]), kept


def _errors_f32(name: str, x: Vector, y: Vector) -> Vector:
    wide = x.astype(np.float64)
    with np.errstate(under="ignore"):
        exact = np.vectorize(math.erf)(wide) if name == "erf" else getattr(np, name)(wide)
    exponents = np.where(exact == 0, -126, np.maximum(np.frexp(exact)[1] - 1, -126))
    return np.abs(y - exact) * np.ldexp(1.0, 23 - exponents)


def _errors_f64(name: str, x: Vector, y: Vector) -> Vector:
    function, errors = getattr(mpmath, name), []
    with mpmath.workdps(30):
        for argument, value in zip(x.tolist(), y.tolist(), strict=True):
            exact = function(argument)
            exponent = max(mpmath.frexp(exact)[1] - 1, -1022) if exact else -1022
            errors.append(float(abs(value - exact) * mpmath.mpf(2) ** (52 - exponent)))
    return np.array(errors)


_RANGES = {"exp": (-746.0, 709.7), "log": (0.4, 2.5), "tanh": (-20.0, 20.0), "erf": (-6.2, 6.2)}


def _inputs(name: str, type: str, count: int) -> Vector:
    """Finite numbers: of all binades, over the range where the function moves, near one."""
    rng = np.random.default_rng(0)
    kind = _FLOATS[type]
    patterns = rng.integers(0, 2 ** int(type[1:]), count, dtype=np.uint64)
    anywhere = patterns.astype(_UNSIGNED["i" + type[1:]]).view(kind)
    low, high = (-104.5, 88.72) if (name, type) == ("exp", "f32") else _RANGES[name]
    line = np.linspace(low, high, count).astype(kind)
    small = (line / high * 2.0 ** -rng.integers(0, 30, count)).astype(kind)
    found = np.concatenate([anywhere, line, small])
    if name == "log":
        found = np.abs(found[found != 0])
    return found[np.isfinite(found)]


@pytest.mark.parametrize(("name", "type"), _CASES)
def test_errors_stay_below_the_documented_bounds(name: str, type: str) -> None:
    x = _inputs(name, type, 150_000 if type == "f32" else 6_000)
    errors, kept = _errors(name, x, type)
    assert errors.max() <= _BOUNDS[name, type], float(x[kept][errors.argmax()]).hex()
    # Only exp leaves the finite numbers, and only above the logarithm of the largest.
    limit = math.log(float(np.finfo(_FLOATS[type]).max)) if name == "exp" else math.inf
    assert (x[~kept] > limit).all()


@pytest.mark.parametrize(("name", "type"), _CASES)
def test_nan_propagates_whatever_its_bits(name: str, type: str) -> None:
    kind, itype = _FLOATS[type], "i" + type[1:]
    quiet = np.array(np.nan, kind).view(_INTS[itype])
    payloads = np.array([quiet, quiet | 1, quiet | 0x1FF, ~quiet | quiet, quiet | 0x3FFFFF])
    x = payloads.astype(_INTS[itype]).view(kind)
    assert np.isnan(x).all()
    assert np.isnan(_run(name, np.concatenate([x, -x]), type)).all()


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_special_values(type: str) -> None:
    inf, nan = math.inf, math.nan
    tiny = float(np.finfo(_FLOATS[type]).smallest_subnormal)
    largest = float(np.finfo(_FLOATS[type]).max)
    cases = {
        "exp": [(0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (largest, inf), (-largest, 0.0)],
        "log": [(1.0, 0.0), (0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan), (-tiny, nan)],
        "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (tiny, tiny), (-tiny, -tiny)],
        "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (tiny, tiny), (-tiny, -tiny)],
    }
    for name, pairs in cases.items():
        x = np.array([given for given, _ in pairs], _FLOATS[type])
        expected = np.array([value for _, value in pairs], _FLOATS[type])
        got = _run(name, x, type)
        np.testing.assert_array_equal(got, expected, err_msg=name)
        assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all(), name


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_exp_goes_over_to_zero_and_infinity_where_rounding_does(type: str) -> None:
    info = np.finfo(_FLOATS[type])
    half_tiny, beyond = math.log(2) * (info.minexp - info.nmant - 1), math.log(2) * info.maxexp
    x = np.array([half_tiny - 0.01, half_tiny + 0.01, beyond - 1e-4, beyond + 1e-4], info.dtype)
    zero, tiny, finite, infinite = _run("exp", x, type)
    assert zero == 0 and tiny == info.smallest_subnormal
    assert 0.9 * info.max < finite < infinite == math.inf


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_odd_and_stay_within_one(name: str, type: str) -> None:
    x = _inputs(name, type, 50_000 if type == "f32" else 5_000)
    y = _run(name, x, type)
    np.testing.assert_array_equal(_run(name, -x, type), -y)
    assert np.abs(y).max() == 1.0


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_log_of_subnormals_is_that_of_the_scaled_number(type: str) -> None:
    info = np.finfo(_FLOATS[type])
    x = (info.smallest_subnormal * np.arange(1, 5000)).astype(info.dtype)
    errors, kept = _errors("log", x, type)
    assert kept.all()
    assert errors.max() <= _BOUNDS["log", type]


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_the_fused_product_of_these_tests_rounds_once(type: str) -> None:
    rng, kind, info = np.random.default_rng(1), _FLOATS[type], np.finfo(_FLOATS[type])
    a, b, c = (rng.normal(size=3000).astype(kind) for _ in range(3))
    # A third cancels; a third has results among the subnormals; in the last the product lies
    # just below half a unit of c, whose last bit is one: two roundings would go up.
    c[:1000] = -a[:1000] * b[:1000]
    a[1000:2000] *= info.smallest_normal
    c[1000:2000] *= info.smallest_normal
    a[2000:] = 2.0 ** -(info.nmant // 2 + 1) * (1 + info.eps)
    b[2000:] = 2.0 ** -(info.nmant - info.nmant // 2) * (1 - info.eps)
    c[2000:] = 1 + (2 * np.arange(1000) + 1) * info.eps
    with np.errstate(all="ignore"):
        got = NumpyBuilder().fma(a, b, c, type)
    for value, *parts in zip(got, a, b, c, strict=True):
        p, q, r = (Fraction(float(part)) for part in parts)
        away = abs(Fraction(float(value)) - (p * q + r))
        for toward in (np.inf, -np.inf):
            neighbour = Fraction(float(np.nextafter(value, kind(toward))))
            assert away <= abs(neighbour - (p * q + r))
