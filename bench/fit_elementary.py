"""Fits the coefficients that stand in src/planish/codegen/elementary.py, and prints them.

Each polynomial is the minimax fit, found by the exchange algorithm of Remez in 50 digits
(J.-M. Muller, Elementary Functions, 3rd edition, 2016, chapter 3). Its coefficients are then
rounded to the type and moved by single units in the last place while that lowers the error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]
_GRID = 1500
_TYPES = {"f32": np.float32, "f64": np.float64}
_ROUNDING = {"f32": 2.0**-24, "f64": 2.0**-53}


@dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial near `target` on [low, high]; its errors are multiplied by `weight`."""

    name: str
    type: str
    target: Real
    weight: Real
    low: float
    high: float
    degree: int


def exp_fit(name: str, type: str, high: float, exact: Real, degree: int) -> Fit:
    """(e^r - 1 - r) / r^2 for |r| <= high; the error counts relative to `exact`."""
    return Fit(
        name,
        type,
        lambda r: (mp.expm1(r) - r) / r**2,
        lambda r: r**2 / abs(exact(r)),
        -high,
        high,
        degree,
    )


def log_fit(type: str, degree: int) -> Fit:
    """(ln(1 + f) - f + f^2/2) / f^3 for |f| <= 1/3; the error counts relative to ln(1 + f)."""
    return Fit(
        "log",
        type,
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        lambda f: f**3 / mp.log1p(f),
        -1 / 3,
        1 / 3,
        degree,
    )


def erf_fit(type: str, high: float, degree: int) -> Fit:
    """ln(erfc(a)) / a - c for a <= high, c = -2/sqrt(pi) rounded; the error is that of erf."""
    slope = mpf(float(_TYPES[type](-2 / np.sqrt(np.pi))))
    return Fit(
        "erf",
        type,
        lambda a: mp.log(mp.erfc(a)) / a - slope,
        lambda a: a * mp.erfc(a) / mp.erf(a),
        0.0,
        high,
        degree,
    )


FITS = (
    exp_fit("exp", "f32", 0.6932, mp.exp, 5),
    exp_fit("exp", "f64", 0.6932, mp.exp, 11),
    exp_fit("expm1", "f32", 0.3466, mp.expm1, 4),
    exp_fit("expm1", "f64", 0.3466, mp.expm1, 10),
    log_fit("f32", 7),
    log_fit("f64", 18),
    erf_fit("f32", 3.95, 8),
    erf_fit("f64", 5.95, 23),
)


def remez(fit: Fit) -> list[mpf]:
    """Coefficients of the minimax polynomial, constant first."""
    grid = _nodes(fit, _GRID)
    target = [fit.target(z) for z in grid]
    weight = [fit.weight(z) for z in grid]
    count = fit.degree + 2
    at = [round(i * (_GRID - 1) / (count - 1)) for i in range(count)]
    for _ in range(60):
        *coefficients, level = _levelled([(grid[i], target[i], weight[i]) for i in at])
        errors = [
            (_value(coefficients, z) - t) * w for z, t, w in zip(grid, target, weight, strict=True)
        ]
        if max(map(abs, errors)) < 1.001 * abs(level):
            return coefficients
        at = _extrema(errors, count)
    raise SystemExit(f"{fit.name} {fit.type}: the exchange does not converge")


def _nodes(fit: Fit, count: int) -> list[mpf]:
    """Chebyshev nodes of the interval: dense at its ends, and the ends not among them."""
    middle, half = mpf(fit.low + fit.high) / 2, mpf(fit.high - fit.low) / 2
    return [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def _levelled(reference: Sequence[tuple[mpf, mpf, mpf]]) -> list[mpf]:
    """P and E with (P - target) * weight = +E, -E, +E, .. on the reference."""
    size = len(reference)
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for row, (z, target, weight) in enumerate(reference):
        for power in range(size - 1):
            matrix[row, power] = z**power
        matrix[row, size - 1] = mpf(-1) ** row / weight
        right[row] = target
    return list(mp.lu_solve(matrix, right))


def _extrema(errors: Sequence[mpf], count: int) -> list[int]:
    """Places of `count` errors of alternating sign, each the largest of its run."""
    runs: list[int] = []
    for at, error in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = at
        else:
            runs.append(at)
    if len(runs) < count:
        raise SystemExit(f"{len(runs)} alternations where {count} are needed; more digits?")
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def _value(coefficients: Sequence[mpf], z: mpf) -> mpf:
    return mpmath.polyval(coefficients[::-1], z)


class Rounded:
    """The fit with coefficients of its type; its error is evaluated in long double."""

    def __init__(self, fit: Fit, exact: Sequence[mpf]) -> None:
        self.type = _TYPES[fit.type]
        self.coefficients = [self.type(mp.nstr(c, 25)) for c in exact]
        nodes = _nodes(fit, 400)
        self.nodes = _long(nodes)
        self.target = _long([fit.target(z) for z in nodes])
        self.weight = _long([fit.weight(z) for z in nodes])

    def error(self) -> float:
        value = np.zeros_like(self.nodes)
        for coefficient in reversed(self.coefficients):
            value = value * self.nodes + np.longdouble(coefficient)
        return float(np.max(np.abs((value - self.target) * self.weight)))

    def polish(self) -> float:
        """Move single coefficients by one unit while that helps; the maximal error."""
        best, moved = self.error(), True
        while moved:
            moved = False
            for at, toward in np.ndindex(len(self.coefficients), 2):
                kept = self.coefficients[at]
                self.coefficients[at] = np.nextafter(kept, self.type((-np.inf, np.inf)[toward]))
                error = self.error()
                if error < best:
                    best, moved = error, True
                else:
                    self.coefficients[at] = kept
        return best


def _long(values: Sequence[mpf]) -> np.ndarray:
    return np.array([np.longdouble(mp.nstr(v, 25)) for v in values])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="one function")
    given = parser.parse_args()
    mp.dps = 50
    for fit in FITS:
        if given.only in ("", fit.name):
            _print(fit)


def _print(fit: Fit) -> None:
    rounded = Rounded(fit, remez(fit))
    unit = _ROUNDING[fit.type]
    before, after = rounded.error() / unit, rounded.polish() / unit
    print(
        f"{fit.name} {fit.type}, degree {fit.degree}: maximal error {after:.3f} half units"
        f" relative to one ({before:.3f} before polishing)"
    )
    print(f"  {', '.join(map(str, rounded.coefficients))}")


if __name__ == "__main__":
    main()
