"""Gradient-boosted regression trees in NumPy: fitting on binned features, and prediction.

Trees are grown level by level to a fixed depth, so that a forest is three rectangular arrays and
a prediction is a few gathers. Source: Friedman, "Greedy function approximation: a gradient
boosting machine" (2001); histograms of bins as in LightGBM (Ke et al., 2017).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError

Floats = NDArray[np.float64]

_BINS = 48


@dataclass(frozen=True)
class Forest:
    """The sum of many trees; node n of a tree has the children 2n + 1 and 2n + 2.

    names      of the features, (d,)
    feature    that a node asks for, (trees, 2^depth - 1)
    threshold  a sample goes right where its feature is above, (trees, 2^depth - 1)
    value      of each leaf, (trees, 2^depth)
    base       what is added to the sum
    card       what it was fitted on
    """

    names: tuple[str, ...]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    value: NDArray[np.float32]
    base: float
    card: dict[str, Any]

    def predict(self, rows: NDArray[Any]) -> Floats:
        """One number a row; rows has shape (n, d)."""
        rows = np.asarray(rows, np.float32)
        trees, inner = self.feature.shape
        at = np.zeros((len(rows), trees), np.int64)
        every = np.arange(trees)
        line = np.arange(len(rows))[:, None]
        for _ in range((inner + 1).bit_length() - 1):
            asked = rows[line, self.feature[every, at]]
            at = 2 * at + 1 + (asked > self.threshold[every, at])
        found: Floats = self.value[every, at - inner].sum(1, dtype=np.float64) + self.base
        return found


def fit(
    rows: Floats, targets: Floats, names: Sequence[str], card: dict[str, Any], *,
    weights: Floats | None = None, trees: int = 200, depth: int = 5, rate: float = 0.1,
    least: float = 8.0, share: float = 0.7, seed: int = 0,
) -> Forest:  # fmt: skip
    """Fit to squared errors.

    rows     (n, d); targets (n,); weights (n,), 1 where none are given
    rate     share of each tree's correction that is taken
    least    weight that a leaf must hold, and what its value is shrunk by
    share    of the rows that each tree sees
    """
    draw = np.random.default_rng(seed)
    rows = np.asarray(rows, np.float32)  # what thresholds are kept in
    edges = [_edges(column) for column in rows.T]
    binned = np.stack(
        [np.searchsorted(e, column, "left") for e, column in zip(edges, rows.T, strict=True)], 1
    )
    weight = np.ones(len(rows)) if weights is None else weights
    base = float(np.average(targets, weights=weight))
    left = targets - base
    inner = 2**depth - 1
    features = np.zeros((trees, inner), np.int32)
    thresholds = np.full((trees, inner), np.inf, np.float32)
    values = np.zeros((trees, inner + 1), np.float32)
    for tree in range(trees):
        seen = draw.random(len(rows)) < share
        at = np.zeros(len(rows), np.int64)
        for level in range(depth):
            first = 2**level - 1
            chosen, cut = _splits(
                binned[seen], left[seen], weight[seen], at[seen] - first, 2**level, least
            )
            limits = np.array(
                [edges[f][c] if c < len(edges[f]) else np.inf
                 for f, c in zip(chosen, cut, strict=True)], np.float32,
            )  # fmt: skip
            features[tree, first : first + 2**level] = chosen
            thresholds[tree, first : first + 2**level] = limits
            own = at - first
            right = binned[np.arange(len(rows)), chosen[own]] > cut[own]
            at = 2 * at + 1 + right
        leaf = at - inner
        sums = np.bincount(leaf[seen], (left * weight)[seen], inner + 1)
        mass = np.bincount(leaf[seen], weight[seen], inner + 1)
        values[tree] = rate * sums / (mass + least)
        left = left - values[tree][leaf]
    return Forest(tuple(names), features, thresholds, values, base, card)


def _edges(column: NDArray[Any]) -> NDArray[Any]:
    """Limits of bins that hold about equally many; each is a value that occurs."""
    distinct = np.unique(column)
    if len(distinct) > _BINS:
        distinct = np.unique(np.quantile(column, np.linspace(0, 1, _BINS + 1), method="lower"))
    return distinct[:-1]


def _splits(
    binned: NDArray[np.int64], left: Floats, weight: Floats, node: NDArray[np.int64], nodes: int,
    least: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """For each node the feature and the bin (the last that goes left) that help the most."""
    width = binned.shape[1]
    bins = _BINS + 1
    place = (node[:, None] * width + np.arange(width)) * bins + binned
    flat, size = place.ravel(), nodes * width * bins
    sums = np.bincount(flat, np.repeat(left * weight, width), size).reshape(nodes, width, bins)
    mass = np.bincount(flat, np.repeat(weight, width), size).reshape(nodes, width, bins)
    below, held = np.cumsum(sums, 2), np.cumsum(mass, 2)
    total, whole = below[:, :, -1:], held[:, :, -1:]
    above, rest = total - below, whole - held
    gain = below**2 / (held + least) + above**2 / (rest + least) - total**2 / (whole + least)
    gain[(held < least) | (rest < least)] = -np.inf
    best = gain.reshape(nodes, -1).argmax(1)
    feature, cut = np.divmod(best, bins)
    # Nothing to gain: everything goes left.
    idle = ~np.isfinite(gain.reshape(nodes, -1).max(1))
    cut[idle] = bins
    return feature, cut


def save(forest: Forest, path: Path) -> None:
    """Write it as safetensors; names, base and card are its metadata."""
    from safetensors.numpy import save_file

    words = {
        "names": json.dumps(forest.names), "base": repr(forest.base),
        "card": json.dumps(forest.card, sort_keys=True),
    }  # fmt: skip
    arrays = {name: np.ascontiguousarray(getattr(forest, name)) for name in _ARRAYS}
    save_file(arrays, str(path), metadata=words)


def load(path: Path) -> Forest:
    """Read it; raises UsageError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as file:
            words = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
        return Forest(
            names=tuple(json.loads(words["names"])), base=float(words["base"]),
            card=json.loads(words["card"]), **arrays,
        )  # fmt: skip
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"cannot read the model {path}: {error}") from error


_ARRAYS = ("feature", "threshold", "value")
