"""Models that never saw a program's project: what they are worth, and what the decoder learns.

Projects are left out in turn. What the remaining ones teach is measured on them: what share of the
baseline is saved after so many builds of the table's recipes, by the model with and without
feedback, and by a coreset chosen greedily from the same table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planish.llvm.recipe import Recipe
from planish.model.labels import LabelTable
from planish.model.policy_net import PolicyNet
from planish.model.process import Process
from planish.model.train import Shape
from planish.search.protocol import Plan
from planish.tune.policy_training import Training, fit, scaled
from planish.tune.winners import cover

Say = Callable[[str], None]
Floats = NDArray[np.float64]
BUILDS = (1, 2, 5, 10, 20)
# What the size heads' spreads may be multiplied by.
_SPREADS, _NOISES = (1.0, 1.4, 2.0), (1.0, 1.5)
_FLOOR = 0.75
# Recipes of a program that the decoder learns, and how much less each counts than the one before.
_TAUGHT, _NEXT = 24, 0.7


@dataclass(frozen=True)
class Validation:
    """What models that never saw a program's project do for it.

    spread, noise  what the size heads' spreads are multiplied by: the pair that saved most
    saved          percent after each of `BUILDS`, mean over all programs
    """

    spread: float
    noise: float
    saved: dict[str, list[float]]


@dataclass(frozen=True)
class LeftOut:
    """One model for each group of projects, trained on all the others.

    fold  group of each program, (programs,)
    """

    training: Training
    fold: NDArray[np.int64]
    nets: tuple[PolicyNet, ...]
    clip: float

    def net(self, program: int) -> PolicyNet:
        """The model that never saw the program's project."""
        return self.nets[int(self.fold[program])]


def leave_out(training: Training, shape: Shape, folds: int, say: Say) -> LeftOut:
    """Train once for each group of projects."""
    table = training.table
    names = sorted(set(table.projects))
    fold = np.array([names.index(project) % folds for project in table.projects])
    nets = []
    for number in range(min(folds, len(names))):
        rest = replace(training, table=_rows(table, fold != number))
        nets.append(fit(rest, shape, lambda words: None))
        say(f"fold {number + 1} of {folds}: {int((fold == number).sum())} programs left out")
    return LeftOut(training, fold, tuple(nets), shape.clip)


def validate(left: LeftOut, say: Say) -> Validation:
    """Choose how sure the models may be of themselves, and compare."""
    table, fold = left.training.table, left.fold

    def reached(spread: float, noise: float, feedback: bool) -> Floats:
        sure = made_unsure(left, spread, noise)
        return np.array([_follow(sure, at, feedback) for at in range(len(fold))])

    tried = {pair: reached(*pair, True) for pair in itertools.product(_SPREADS, _NOISES)}
    # A few programs shrink to nothing by one lucky recipe; they must not decide.
    best = min(tried, key=lambda pair: (float(np.maximum(tried[pair], _FLOOR).mean()), pair))
    ratios = table.ratios[:, : table.broadcast]
    orders = [_coreset(ratios[fold != number]) for number in range(len(left.nets))]
    rows = {
        "learned": tried[best],
        "told nothing": reached(*best, False),
        "coreset": np.array([_after(r[orders[f]]) for r, f in zip(ratios, fold, strict=True)]),
    }
    saved = {name: [100 * (1 - float(v)) for v in each.mean(0)] for name, each in rows.items()}
    for name, values in saved.items():
        pairs = zip(values, BUILDS, strict=True)
        say(f"{name}: " + ", ".join(f"{value:.2f} % at {builds}" for value, builds in pairs))
    return Validation(*best, saved)


def made_unsure(left: LeftOut, spread: float, noise: float) -> LeftOut:
    """The same models with their spreads multiplied."""
    return replace(left, nets=tuple(scaled(net, spread, noise) for net in left.nets))


def wanted(left: LeftOut) -> Floats:
    """What the decoder is to say of each program: shares of its recipes, (programs, recipes).

    The recipes that a model which never saw the program's project would build, in its order. They
    serve programs that are not known, too; what served one program best mostly did so by chance.
    """
    table = left.training.table
    result = np.zeros(table.ratios.shape)
    for at in range(len(table.names)):
        process = _process(left, at)
        chosen = process.choose(range(table.broadcast), _TAUGHT)
        result[at, chosen] = _NEXT ** np.arange(len(chosen))
    result /= np.maximum(result.sum(1, keepdims=True), 1e-9)
    return result


def _rows(table: LabelTable, kept: NDArray[np.bool_]) -> LabelTable:
    at = np.flatnonzero(kept)
    return replace(
        table,
        names=tuple(table.names[i] for i in at),
        projects=tuple(table.projects[i] for i in at),
        looks=tuple(table.looks[i] for i in at),
        ratios=table.ratios[at],
    )


def _process(left: LeftOut, program: int) -> Process:
    """What is expected of the recipes that all programs were built by."""
    table = left.training.table
    texts = table.recipes[: table.broadcast]
    process = Process(left.clip)
    recipes = [Recipe.parse(text) for text in texts]
    expected = left.net(program).expect(table.looks[program], texts)
    process.add(expected, [(*r.passes, *r.options) for r in recipes])
    return process


def _follow(left: LeftOut, program: int, feedback: bool) -> list[float]:
    """Best ratio after each of `BUILDS` builds of a program that the model never saw."""
    process = _process(left, program)
    everything = range(left.training.table.broadcast)
    ratios = left.training.table.ratios[program]
    tried: list[float] = []
    for number in [] if feedback else process.choose(everything, max(BUILDS)):
        tried.append(ratios[number])
    while feedback and len(tried) < max(BUILDS):
        chosen = process.choose(everything, 1)
        if not chosen:
            break
        ratio = float(ratios[chosen[0]])
        process.see(chosen[0], float(np.log(ratio)) if np.isfinite(ratio) else None)
        tried.append(ratio)
    return _after(np.array(tried))


def _after(tried: Floats) -> list[float]:
    lowest = np.minimum.accumulate(np.minimum(np.nan_to_num(tried, nan=1.0), 1.0))
    lowest = np.concatenate([[1.0], lowest])
    return [float(lowest[min(build, len(lowest) - 1)]) for build in BUILDS]


def _coreset(ratios: Floats) -> list[int]:
    plans = [Plan((str(at),)) for at in range(ratios.shape[1])]
    rows = [
        {plan: float(row[at]) for at, plan in enumerate(plans) if np.isfinite(row[at])}
        for row in ratios
    ]
    return [int(plan.actions[0]) for plan, _ in cover(rows, plans, max(BUILDS))]
