"""exp, log, tanh and erf of generated code: errors in ULP, special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import planish as pl
from planish.measure.machine import processor

_EXACT = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": np.vectorize(math.erf)}
_BOUND = {"exp": 2.0, "log": 2.0, "tanh": 4.0, "erf": 4.0}

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")


def _run(name: str, x: np.ndarray, target: str = "native") -> np.ndarray:
    (i,) = pl.axes("i")
    kind = "f32" if x.dtype == np.float32 else "f64"
    y = pl.define("y", [i], getattr(pl, name)(pl.tensor("x", x.shape, kind)[i]))
    result: np.ndarray = pl.compile(y, target=target, store=False)(x)
    return result


def _samples(name: str, count: int) -> np.ndarray:
    numbers = np.random.default_rng(0)
    bits = numbers.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32)
    anything = bits.view(np.float32)
    if name == "log":
        near = np.exp(numbers.uniform(-103, 88, count))
        return np.concatenate([anything, near.astype(np.float32)])
    ranges = [numbers.uniform(-r, r, count) for r in (1.0, 5.0, 104.0)]
    return np.concatenate([anything, *ranges]).astype(np.float32)


def _ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        finite = np.isfinite(rounded) & np.isfinite(found)
        unit = np.spacing(np.abs(np.where(finite, rounded, 1))).astype(np.float64)
        error = np.abs(found.astype(np.float64) - exact.astype(np.float64)) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same, 0.0, np.where(finite, error, np.inf))


@pytest.mark.parametrize("name", sorted(_EXACT))
@pytest.mark.parametrize("target", ["avx2", "native"])
def test_f32_is_within_its_bound(name: str, target: str) -> None:
    with np.errstate(all="ignore"):
        x = _samples(name, 50_000)
        exact = _EXACT[name](x.astype(np.float64))
    worst = _ulps(_run(name, x, target), exact)
    assert worst.max() <= _BOUND[name], x[worst.argmax()]


@pytest.mark.parametrize("name", sorted(_EXACT))
def test_f64_is_within_its_bound(name: str) -> None:
    """Against the C library's, which is itself within one ULP."""
    numbers = np.random.default_rng(1)
    ranges = {"exp": 745.0, "tanh": 20.0, "erf": 6.5, "log": 700.0}
    x = np.concatenate(
        [numbers.uniform(-ranges[name], ranges[name], 20_000), numbers.uniform(-1, 1, 20_000)]
    )
    if name == "log":
        x = np.exp(x)
    with np.errstate(all="ignore"):
        exact = _EXACT[name](x)
    assert _ulps(_run(name, x), exact).max() <= _BOUND[name] + 1


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_special_values(kind: type) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], kind)
    assert np.array_equal(_run("exp", x), np.array([1, 1, np.inf, 0, np.nan], kind), equal_nan=True)
    inf = np.inf
    wanted = np.array([-inf, -inf, inf, np.nan, np.nan], kind)
    assert np.array_equal(_run("log", x), wanted, equal_nan=True)
    for name in ("tanh", "erf"):
        found = _run(name, x)
        assert np.array_equal(found, np.array([0, 0, 1, -1, np.nan], kind), equal_nan=True)
        assert list(np.signbit(found[:2])) == [False, True]
    tiny = np.array([np.finfo(kind).smallest_subnormal, -1.0], kind)
    logs = _run("log", tiny)
    assert np.isclose(logs[0], np.log(tiny[0])) and np.isnan(logs[1])
