"""Which recipes will serve a program: a Gaussian over its features and the recipes' gains.

Learned from a matrix of programs times recipes: features and log ratios of size are taken for
one long normal vector with few hidden factors. Knowing some entries (the features before anything
is built, then each outcome as it comes) gives the others' mean and spread in closed form, and from
them the expected improvement of every recipe that was not tried: the next to try is the one with
the most. This is coreset and value prediction (2301.05104) with the compiler's feedback taken in
after each build (2403.14714), as Bayesian optimisation with a learned prior does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError

Floats = NDArray[np.float64]

# What a recipe that fails to build is taken for: neither better nor worse than the baseline.
_FAILED = 0.0
# In standard deviations: no column is taken to be known better than this by the others.
_LEAST_NOISE = 0.05
_LEAST_SCALE = 1e-4


@dataclass(frozen=True)
class Ranker:
    """The learned Gaussian; the first entries are features, the others recipes.

    recipes   their text, (m,)
    mean, scale  of each entry, (d + m,): features as they are, recipes as log(size / baseline)
    loadings  of the standardised entries on the hidden factors, (d + m, k)
    noise     variance of each standardised entry that the factors leave, (d + m,)
    card      where it was learned: projects, modules, versions, seed
    """

    recipes: tuple[str, ...]
    mean: Floats
    scale: Floats
    loadings: Floats
    noise: Floats
    card: dict[str, Any]

    @property
    def features(self) -> int:
        """The number of features, d."""
        return len(self.mean) - len(self.recipes)


def fit(
    features: Floats, ratios: Floats, recipes: Sequence[str], factors: int, card: dict[str, Any]
) -> Ranker:
    """Principal factor analysis of the standardised matrix.

    features  (n, d); ratios  size over the baseline's size, (n, m), not a number where it failed
    """
    logs = np.where(np.isfinite(ratios), np.log(ratios), _FAILED)
    table = np.hstack([features, logs])
    mean, scale = table.mean(0), np.maximum(table.std(0), _LEAST_SCALE)
    standard = (table - mean) / scale
    _, singular, right = np.linalg.svd(standard, full_matrices=False)
    shares = singular**2 / len(table)
    factors = min(factors, len(shares) - 1)
    rest = shares[factors:].sum() / max(standard.shape[1] - factors, 1)
    strength = np.sqrt(np.maximum(shares[:factors] - rest, 0.0))
    loadings = right[:factors].T * strength
    noise = np.maximum(standard.var(0) - (loadings**2).sum(1), _LEAST_NOISE**2)
    return Ranker(tuple(recipes), mean, scale, loadings, noise, card)


class Belief:
    """What is known of one program, and what that says of the recipes not tried yet."""

    def __init__(self, ranker: Ranker, features: Sequence[float], legal: Sequence[bool]) -> None:
        """`legal` says for each recipe whether it may be tried, (m,)."""
        self._ranker = ranker
        count = ranker.features
        self._precision = np.eye(ranker.loadings.shape[1])
        self._pull = np.zeros(ranker.loadings.shape[1])
        self._open = np.array(legal, bool)
        self._best = 0.0
        values = (np.asarray(features, np.float64) - ranker.mean[:count]) / ranker.scale[:count]
        # A program unlike all that were learned from must not throw the prediction off.
        for at, value in enumerate(np.clip(values, -3.0, 3.0)):
            self._take(at, float(value))

    def see(self, recipe: int, ratio: float | None) -> None:
        """An outcome: size over the baseline's size, or None for a failure."""
        self._open[recipe] = False
        if ratio is None:
            return
        value = math.log(ratio)
        self._best = min(self._best, value)
        at = self._ranker.features + recipe
        self._take(at, (value - self._ranker.mean[at]) / self._ranker.scale[at])

    def choose(self, count: int, least: float = 0.0) -> list[int]:
        """At most `count` recipes to try at once, the one with the most to expect first.

        Each is taken to do what is expected of it when the next is chosen, so that those tried at
        once differ. None from where less than `least` (share of the baseline) is to be expected.
        """
        precision, pull = self._precision.copy(), self._pull.copy()
        best, open_ = self._best, self._open.copy()
        chosen: list[int] = []
        while len(chosen) < count and self._open.any():
            mean, spread = self.predict()
            gain = np.where(self._open, expected_improvement(mean, spread, self._best), -1.0)
            at = int(np.argmax(gain))
            if gain[at] <= least:
                break
            chosen.append(at)
            self.see(at, math.exp(mean[at]))
        self._precision, self._pull, self._best, self._open = precision, pull, best, open_
        return chosen

    def predict(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log(size / baseline) for every recipe, (m,) each."""
        ranker, count = self._ranker, self._ranker.features
        loadings = ranker.loadings[count:]
        covariance = np.linalg.inv(self._precision)
        mean = loadings @ (covariance @ self._pull)
        variance = np.einsum("mk,kl,ml->m", loadings, covariance, loadings) + ranker.noise[count:]
        scale = ranker.scale[count:]
        return mean * scale + ranker.mean[count:], np.sqrt(variance) * scale

    def _take(self, at: int, value: float) -> None:
        """Condition the factors on one standardised entry."""
        row = self._ranker.loadings[at] / self._ranker.noise[at]
        self._precision += np.outer(row, self._ranker.loadings[at])
        self._pull += row * value


def expected_improvement(mean: Floats, spread: Floats, best: float) -> Floats:
    """How far below `best` a normal value is expected to lie, counting nothing above it."""
    step = (best - mean) / spread
    density = np.exp(-0.5 * step**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in step])
    result: Floats = (best - mean) * below + spread * density
    return result


def save(ranker: Ranker, path: Path) -> None:
    """Write it as safetensors; the recipes and the card are its metadata."""
    from safetensors.numpy import save_file

    words = {"recipes": json.dumps(ranker.recipes), "card": json.dumps(ranker.card, sort_keys=True)}
    # In C order: the format knows no other, and the library writes the bytes as they lie.
    arrays = {name: np.ascontiguousarray(getattr(ranker, name), np.float32) for name in _ARRAYS}
    save_file(arrays, str(path), metadata=words)


def load(path: Path) -> Ranker:
    """Read it; raises UsageError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as file:
            words = file.metadata() or {}
            arrays = {name: file.get_tensor(name).astype(np.float64) for name in _ARRAYS}
        return Ranker(
            recipes=tuple(json.loads(words["recipes"])), card=json.loads(words["card"]), **arrays
        )
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"cannot read the model {path}: {error}") from error


_ARRAYS = ("mean", "scale", "loadings", "noise")
