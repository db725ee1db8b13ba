"""What the policy `learned` is trained on, and one training of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.llvm.recipe import Recipe
from planish.model.labels import LabelTable
from planish.model.policy_net import PolicyNet
from planish.model.train import Shape, train

Say = Callable[[str], None]
Floats = NDArray[np.float64]
# An action that was measured less often teaches nothing.
_FEWEST = 10
_FEWEST_PROGRAMS = 4


@dataclass(frozen=True)
class Training:
    """What the model is trained on: rows of the table whose actions are known well enough."""

    table: LabelTable
    actions: tuple[str, ...]


def prepare(table: LabelTable) -> Training:
    """Drop recipes with an action that was hardly measured; raises UsageError where little is
    left."""
    parsed = [Recipe.parse(text) for text in table.recipes]
    built = np.isfinite(table.ratios).sum(0)
    counts: Counter[str] = Counter()
    for at, recipe in enumerate(parsed):
        weight = int(built[at])
        counts.update(dict.fromkeys({*recipe.passes, *recipe.options}, weight))
    kept = [
        at for at, recipe in enumerate(parsed)
        if at < table.broadcast
        or min((counts[a] for a in (*recipe.passes, *recipe.options)), default=0) >= _FEWEST
    ]  # fmt: skip
    used = [parsed[at] for at in kept]
    passes = sorted({action for recipe in used for action in recipe.passes})
    options = sorted({option for recipe in used for option in recipe.options})
    if len(table.names) < _FEWEST_PROGRAMS or len(kept) < 2:
        raise UsageError(
            f"{len(table.names)} programs and {len(kept)} recipes are too few to learn from",
            hint="label more: planish corpus label",
        )
    texts = tuple(table.recipes[at] for at in kept)
    smaller = replace(table, recipes=texts, ratios=table.ratios[:, kept])
    return Training(smaller, (*passes, *options))


def fit(training: Training, shape: Shape, say: Say, wanted: Floats | None = None) -> PolicyNet:
    """Train on all rows of the table; `wanted` as `model/train.py` takes it."""
    table = training.table
    return train(
        table.looks, table.ratios, table.recipes, training.actions, shape, say,
        broadcast=table.broadcast, wanted=wanted,
    )  # fmt: skip


def scaled(net: PolicyNet, spread: float, noise: float) -> PolicyNet:
    """The model less sure of itself: of the program's factors, and of each recipe (about that
    much)."""
    arrays = dict(net.arrays)
    arrays["prior_spread"] = arrays["prior_spread"] * np.float32(spread)
    arrays["noise_bias"] = arrays["noise_bias"] + np.float32(np.log(noise))
    return replace(net, arrays=arrays)
