"""Training of the model: a matrix of programs times recipes, the fit, and what it is worth.

What it is worth is measured on projects left out in turn: after how many builds which share of the
baseline is saved, by the model's order and by the coreset chosen from the same matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.llvm.features import FEATURES
from planish.model.ranker import Belief, Ranker, fit, save
from planish.search.protocol import Plan
from planish.tune.learn import Sample, Settings, cover
from planish.tune.learn_coreset import (
    draw,
    earlier_plans,
    hand_written,
    make_samples,
    make_space,
)
from planish.tune.model import describe
from planish.tune.pass_space import to_recipe
from planish.tune.session import Session

Say = Callable[[str], None]
Floats = NDArray[np.float64]
_FOLDS = 6
_FACTORS = (2, 3, 4, 6, 8, 12)
_BUILDS = (1, 2, 5, 10, 20)


def learn_model(
    session: Session,
    corpus: Path,
    architecture: str,
    goal: str,
    out: Path,
    settings: Settings,
    *,
    modules: int,
    largest: int,
    say: Say,
) -> None:
    """Build the matrix (from the store, as far as it is there), choose the factors, fit, write."""
    chosen = draw(corpus, "train", modules, settings.seed, largest=largest)
    words, space = make_space(session, architecture, goal)
    samples = make_samples(session, corpus, chosen, architecture, goal, space.start, say)
    seeds, _ = hand_written(words, space, goal)
    plans = list(dict.fromkeys([*seeds, *earlier_plans(space, settings)]))
    if len(samples) < 2 * _FOLDS or not plans:
        raise UsageError(
            f"{len(samples)} modules and {len(plans)} recipes are too few to learn from",
            hint="more --modules, or --from a coreset",
        )
    features = np.array([_features(session, sample) for sample in samples])
    ratios = _matrix(samples, plans, say)
    folds = _folds([sample.project for sample in samples])
    scores = {
        factors: _validate(features, ratios, folds, factors)
        for factors in _FACTORS
        if factors < len(samples) // 2
    }
    best = min(scores, key=lambda factors: (float(scores[factors].mean(0).sum()), factors))
    rival = _validate_coreset(ratios, folds)
    rows = _table(scores[best], rival)
    for row in rows:
        say(row)
    card: dict[str, Any] = {
        "compiler": session.compiler,
        "architecture": architecture,
        "goal": goal,
        "projects": sorted({sample.project for sample in samples}),
        "modules": len(samples),
        "recipes": len(plans),
        "features": list(FEATURES),
        "factors": best,
        "folds": _FOLDS,
        "saved, cross-validated": rows,
        "seed": settings.seed,
        "planish": "0.1.0",
    }
    texts = [str(to_recipe(plan)) for plan in plans]
    save(fit(features, ratios, texts, best, card), out)


def _features(session: Session, sample: Sample) -> tuple[float, ...]:
    assert sample.job is not None
    return describe(session.pool, sample.job).features


def _matrix(samples: Sequence[Sample], plans: Sequence[Plan], say: Say) -> Floats:
    """Size over the baseline's, (modules, plans); not a number where a build failed."""
    rows = []
    for at, sample in enumerate(samples):
        outcomes = sample.evaluate(plans)
        base = sample.baseline.value
        rows.append([outcome.value / base if outcome.ok else np.nan for outcome in outcomes])
        if at % 10 == 9:
            say(f"{at + 1} of {len(samples)} modules built by {len(plans)} recipes")
    return np.array(rows)


def _folds(projects: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Masks of the modules that are left out together: whole projects."""
    names = sorted(set(projects))
    group = {name: at % _FOLDS for at, name in enumerate(names)}
    number = np.array([group[name] for name in projects])
    return [number == fold for fold in range(min(_FOLDS, len(names)))]


def _validate(
    features: Floats, ratios: Floats, folds: Sequence[NDArray[np.bool_]], factors: int
) -> Floats:
    """Best ratio after each of `_BUILDS` builds for every module, by models that never saw it."""
    reached = np.ones((len(ratios), len(_BUILDS)))
    names = [str(at) for at in range(ratios.shape[1])]
    for out in folds:
        ranker = fit(features[~out], ratios[~out], names, factors, {})
        for at in np.flatnonzero(out):
            reached[at] = _follow(ranker, features[at], ratios[at])
    return reached


def _follow(ranker: Ranker, features: Floats, ratios: Floats) -> list[float]:
    belief = Belief(ranker, list(features), [True] * len(ratios))
    best, reached = 1.0, []
    for build in range(1, max(_BUILDS) + 1):
        for recipe in belief.choose(1):
            ratio = float(ratios[recipe])
            belief.see(recipe, ratio if np.isfinite(ratio) else None)
            best = min(best, ratio) if np.isfinite(ratio) else best
        if build in _BUILDS:
            reached.append(best)
    return reached


def _validate_coreset(ratios: Floats, folds: Sequence[NDArray[np.bool_]]) -> Floats:
    """The same by a coreset chosen greedily from the modules that are not left out."""
    reached = np.ones((len(ratios), len(_BUILDS)))
    plans = [Plan((str(at),)) for at in range(ratios.shape[1])]
    for out in folds:
        rows = [
            {plan: float(row[at]) for at, plan in enumerate(plans) if np.isfinite(row[at])}
            for row in ratios[~out]
        ]
        order = [int(plan.actions[0]) for plan, _ in cover(rows, plans, max(_BUILDS))]
        for at in np.flatnonzero(out):
            tried = np.nan_to_num(ratios[at][order], nan=1.0)
            lowest = np.minimum.accumulate(np.minimum(tried, 1.0))
            reached[at] = [lowest[min(build, len(order)) - 1] for build in _BUILDS]
    return reached


def _table(model: Floats, coreset: Floats) -> list[str]:
    rows = []
    for at, build in enumerate(_BUILDS):
        ours, theirs = (100 * (1 - table[:, at].mean()) for table in (model, coreset))
        error = 100 * (model[:, at] - coreset[:, at]).std() / np.sqrt(len(model))
        rows.append(f"{build} builds: {ours:.2f} %, coreset {theirs:.2f} % (+- {error:.2f})")
    return rows
