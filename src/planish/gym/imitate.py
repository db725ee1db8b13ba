"""Supervised training of a policy network on lessons: what to do next in each state of a nest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.gym.loops import LoopProblem
from planish.gym.teacher import Taught
from planish.tune.cursor_space import ACTIONS

_SHARPNESS = 30.0  # a nest that is 5 % slower than the best counts a fifth
_BATCH = 512
_RATE = 1e-3


def examples(
    taught: Sequence[Taught], problem: LoopProblem
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """States as features, (n, d), the action taken there, (n,), and its weight, (n,).

    A program's lessons weigh 1 together, whatever their length.
    """
    rows: list[NDArray[Any]] = []
    labels: list[int] = []
    weights: list[float] = []
    for one in taught:
        space, view = problem.space(one.benchmark), problem.view(one.benchmark)
        shares = np.exp([-_SHARPNESS * (lesson.ratio - 1) for lesson in one.lessons])
        for lesson, share in zip(one.lessons, shares / shares.sum(), strict=True):
            for at in range(len(lesson.actions) + 1):
                state = space.state(lesson.actions[:at])
                assert state is not None
                rows.append(view(state))
                weights.append(float(share))
            labels += [*map(ACTIONS.index, lesson.actions), len(ACTIONS)]
    return np.array(rows, np.float32), np.array(labels), np.array(weights, np.float32)


def imitate(
    layers: Any,
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    weights: NDArray[np.float32],
    *,
    epochs: int,
    seed: int,
) -> float:
    """Fit the layers, from features to scores of actions; the mean loss of the last epoch."""
    import torch

    torch.manual_seed(seed)
    order = torch.Generator().manual_seed(seed)
    given = torch.from_numpy(features), torch.from_numpy(labels), torch.from_numpy(weights)
    optimiser = torch.optim.AdamW(layers.parameters(), lr=_RATE, weight_decay=1e-3)
    steps = epochs * math.ceil(len(labels) / _BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    mean = 0.0
    for _ in range(epochs):
        total = 0.0
        for chosen in torch.randperm(len(labels), generator=order).split(_BATCH):
            x, y, w = (part[chosen] for part in given)
            loss = (torch.nn.functional.cross_entropy(layers(x), y, reduction="none") * w).sum()
            optimiser.zero_grad()
            (loss / w.sum()).backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
        mean = total / float(weights.sum())
    return mean
