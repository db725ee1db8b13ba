"""What outcomes say of recipes not tried yet: a normal process over recipes, conditioned.

The model expects of each recipe a mean, a loading on a few hidden factors of the program, and a
noise (`policy_net.py`). Here recipes that share most of their actions share most of their noise as
well, so that a measured recipe tells about its neighbours. Everything is in log(size / baseline).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# How much of its noise a recipe shares with another for each action that only one of them has.
_KINSHIP = 0.8
_JITTER = 1e-4
_DRAWS = 512


@dataclass(frozen=True)
class Expected:
    """What is expected of recipes before anything is built, in log(size / baseline).

    mean     (n,)
    loading  on the program's hidden factors, which are standard normal, (n, k)
    noise    variance that is each recipe's own, (n,)
    """

    mean: Floats
    loading: Floats
    noise: Floats


class Process:
    """A belief over a growing list of recipes of one program.

    clip  outcomes are taken to be no further from the baseline than this, as in training
    """

    def __init__(self, clip: float) -> None:
        self._clip = clip
        self._mean = np.zeros(0)
        self._loading = np.zeros((0, 0))
        self._spread = np.zeros(0)
        self._there = np.zeros((0, 0))
        self._columns: dict[tuple[str, int], int] = {}
        self._trust = np.zeros(0)
        self._seen: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._mean)

    @property
    def best(self) -> float:
        """The lowest log ratio seen; 0 for the baseline."""
        return min(0.0, *self._seen.values()) if self._seen else 0.0

    def add(
        self, expected: Expected, actions: Sequence[Sequence[str]], trust: float | Floats = 1.0
    ) -> range:
        """Further recipes with their actions; their numbers.

        trust  what their expected improvement is multiplied by: of many guesses the best ones
               are mostly mistaken, and the more so the less is known of them
        """
        first = len(self._mean)
        self._trust = np.concatenate([self._trust, np.broadcast_to(trust, len(actions))])
        self._mean = np.concatenate([self._mean, expected.mean])
        known = self._loading.reshape(first, expected.loading.shape[1])
        self._loading = np.vstack([known, expected.loading])
        self._spread = np.concatenate([self._spread, np.sqrt(expected.noise)])
        # The second time that an action stands in a recipe is a column of its own: rows of 0 and 1.
        occurrences = [_numbered(words) for words in actions]
        for words in occurrences:
            for word in words:
                self._columns.setdefault(word, len(self._columns))
        there = np.zeros((first + len(actions), len(self._columns)))
        there[:first, : self._there.shape[1]] = self._there
        for row, words in zip(there[first:], occurrences, strict=True):
            row[[self._columns[word] for word in words]] = 1.0
        self._there = there
        return range(first, len(self._mean))

    def see(self, recipe: int, value: float | None) -> None:
        """An outcome as log(size / baseline); a failure counts as no gain."""
        value = 0.0 if value is None else value
        self._seen[recipe] = float(np.clip(value, -self._clip, self._clip))

    def predict(self, recipes: Sequence[int]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each, given everything seen."""
        return self._condition(np.asarray(recipes, np.int64), self._seen)

    def choose(self, recipes: Sequence[int], count: int, least: float = 0.0) -> list[int]:
        """At most `count` of the recipes, the one with the most expected improvement first.

        Each is taken to do what is expected of it when the next is chosen, so that those tried at
        once differ. None from where less than `least` is to be expected.
        """
        at = np.asarray(recipes, np.int64)
        seen = dict(self._seen)
        chosen: list[int] = []
        while len(chosen) < count and len(at):
            mean, spread = self._condition(at, seen)
            gain = expected_improvement(mean, spread, self.best) * self._trust[at]
            gain[np.isin(at, list(seen))] = -1.0
            best = int(np.argmax(gain))
            if gain[best] <= least:
                break
            chosen.append(int(at[best]))
            seen[chosen[-1]] = float(mean[best])
        return chosen

    def promise(self, recipes: Sequence[int], builds: int) -> float:
        """What share of the baseline's value so many builds are expected to save.

        The mean over draws from the joint normal of the recipes that would be built; nothing is
        lost where none of them gains.
        """
        chosen = np.asarray(self.choose(recipes, builds), np.int64)
        if not len(chosen):
            return 0.0
        covariance = self._covariance(chosen, chosen)
        factor = np.linalg.cholesky(covariance + _JITTER * np.diag(np.diag(covariance)))
        draws = np.random.default_rng(0).standard_normal((_DRAWS, len(chosen)))
        lowest = (self._mean[chosen] + draws @ factor.T).min(1)
        return float(1 - np.exp(np.clip(lowest, -self._clip, 0.0)).mean())

    def _condition(self, at: NDArray[np.int64], seen: dict[int, float]) -> tuple[Floats, Floats]:
        mean, prior = self._mean[at], self._variance(at)
        if not seen:
            return mean, np.sqrt(prior)
        known = np.array(list(seen), np.int64)
        values = np.array(list(seen.values()))
        inner = self._covariance(known, known)
        inner += _JITTER * np.diag(np.diag(inner))
        cross = self._covariance(at, known)
        solved = np.linalg.solve(inner, cross.T)
        mean = mean + solved.T @ (values - self._mean[known])
        variance = prior - np.einsum("mn,nm->m", cross, solved)
        return mean, np.sqrt(np.maximum(variance, _JITTER * prior))

    def _variance(self, at: NDArray[np.int64]) -> Floats:
        result: Floats = (self._loading[at] ** 2).sum(1) + self._spread[at] ** 2
        return result

    def _covariance(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Floats:
        ours, theirs = self._there[left], self._there[right]
        apart = ours.sum(1)[:, None] + theirs.sum(1)[None] - 2 * ours @ theirs.T
        shared = _KINSHIP**apart * np.outer(self._spread[left], self._spread[right])
        result: Floats = self._loading[left] @ self._loading[right].T + shared
        return result


def _numbered(words: Sequence[str]) -> list[tuple[str, int]]:
    return [(word, list(words[:at]).count(word)) for at, word in enumerate(words)]


def expected_improvement(mean: Floats, spread: Floats, best: float) -> Floats:
    """How far below `best` a normal value is expected to lie, counting nothing above it."""
    step = (best - mean) / spread
    density = np.exp(-0.5 * step**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in step])
    result: Floats = (best - mean) * below + spread * density
    return result
