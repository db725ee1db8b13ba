"""The learned cost model of loop schedules: how long a candidate takes, before it is measured.

It says the logarithm of a stage's time over the rules' schedule's; the stages of a program add up.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.model.trees import Forest, load
from planish.tune.loop_features import CHOICES, FEATURES, default_choices, stage_features
from planish.tune.loop_space import LoopSpace, choices_of

Floats = NDArray[np.float64]
Configs = NDArray[np.int64]

SHIPPED = Path(__file__).parent / "data" / "kernels-cost.safetensors"


@functools.lru_cache(maxsize=4)
def load_cost_model(path: Path = SHIPPED) -> Forest:
    """The shipped model, or another one; raises UsageError for one of other features."""
    forest = load(path)
    if forest.names != FEATURES:
        raise UsageError(
            f"the model {path} was learned from other features",
            hint="learn it anew: planish learn kernels",
        )
    return forest


def shares(space: LoopSpace) -> dict[str, float]:
    """Each stage's share of the program's work, counted in points of its loops."""
    points = {s.name: prod(s.extents.values()) for s in space.program.stages}
    total = max(sum(points.values()), 1)
    return {name: count / total for name, count in points.items()}


def default_config(space: LoopSpace, stage: str) -> Configs:
    """What the rules choose for a stage, in the order of CHOICES, shape (8,)."""
    chosen = default_choices(space.rules[stage])
    return np.array([chosen[name] for name in CHOICES], np.int64)


def configs_of(space: LoopSpace, actions: Sequence[str]) -> dict[str, Configs]:
    """The choices of a plan by stage; only of stages where it changes something."""
    found = {}
    for stage, given in choices_of(actions).items():
        config = default_config(space, stage)
        for name, value in given.items():
            if name in CHOICES:  # of fusion and of newer choices the model says nothing
                config[CHOICES.index(name)] = value
        found[stage] = config
    return found


def rows_of(space: LoopSpace, stage: str, configs: Configs) -> Floats:
    """Features of candidates of one stage; configs has shape (n, 8)."""
    columns: Mapping[str, NDArray[Any]] = {name: configs[:, at] for at, name in enumerate(CHOICES)}
    return stage_features(
        space.rules[stage], shares(space)[stage], len(space.program.stages), columns
    )


def predict(forest: Forest, space: LoopSpace, stage: str, configs: Configs) -> Floats:
    """log(time / the rules' time) of the whole program for candidates of one stage, (n,).

    The rules' own choices are 0 by definition, which takes the model's error on the program off.
    """
    both = np.vstack([default_config(space, stage)[None], configs])
    found = forest.predict(rows_of(space, stage, both))
    result: Floats = found[1:] - found[0]
    return result
