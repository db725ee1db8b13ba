"""Training of the policy `learned` from labels: vocabulary, validation, the file and its card.

What it is worth is measured on projects left out in turn: what share of the baseline is saved
after so many builds of the table's recipes, by the model with and without feedback, and by a
coreset chosen greedily from the same table.
"""

from __future__ import annotations

import itertools
import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.llvm.features import FEATURES
from planish.llvm.recipe import Recipe
from planish.model.labels import LabelTable, read_labels
from planish.model.policy_net import ARRAYS, PolicyNet, save
from planish.model.process import Process
from planish.model.train import Shape, train
from planish.search.protocol import Plan
from planish.tune.winners import cover

Say = Callable[[str], None]
Floats = NDArray[np.float64]
BUILDS = (1, 2, 5, 10, 20)
# An action that was measured less often teaches nothing.
_FEWEST = 10
_FEWEST_PROGRAMS = 4
# What the size heads' spreads may be multiplied by.
_SPREADS, _NOISES = (1.0, 1.4, 2.0), (1.0, 1.5)
_FLOOR = 0.75
_LARGEST_BYTES = 8 << 20


@dataclass(frozen=True)
class Training:
    """What the model is trained on: rows of the table whose actions are known well enough."""

    table: LabelTable
    actions: tuple[str, ...]


def learn_policy(labels: Path, goal: str, out: Path, shape: Shape, folds: int, say: Say) -> None:
    """Validate, train on everything, write the model and, beside it, its card (`.md`).

    folds  groups of projects that are left out in turn; 0 for no validation
    """
    training = prepare(read_labels(labels, goal))
    table = training.table
    say(
        f"{len(table.names)} programs of {len(set(table.projects))} projects, {table.broadcast} "
        f"recipes on all, {len(table.recipes) - table.broadcast} more on one each, "
        f"{len(training.actions)} actions"
    )
    found = validate(training, shape, folds, say) if folds else Validation(1.0, 1.0, {})
    net = scaled(fit(training, shape, say), found.spread, found.noise)
    net = replace(net, card=_card(table, goal, shape, folds, found))
    save(net, out)
    size = out.stat().st_size
    if size > _LARGEST_BYTES:
        out.unlink()
        raise UsageError(f"the model takes {size / 1e6:.1f} MB", hint="make it narrower")
    write_atomic(out.with_suffix(".md"), card_text(net, size))


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


def fit(training: Training, shape: Shape, say: Say) -> PolicyNet:
    """Train on all rows of the table."""
    table = training.table
    return train(
        table.looks, table.ratios, table.recipes, training.actions, shape, say,
        broadcast=table.broadcast,
    )  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """What models that never saw a program's project do for it.

    spread, noise  what the size heads' spreads are multiplied by: the pair that saved most
    saved          percent after each of `BUILDS`, mean over all programs
    """

    spread: float
    noise: float
    saved: dict[str, list[float]]


def validate(training: Training, shape: Shape, folds: int, say: Say) -> Validation:
    """Leave projects out in turn, choose how sure the model may be of itself, and compare."""
    table = training.table
    names = sorted(set(table.projects))
    fold = np.array([names.index(project) % folds for project in table.projects])
    nets = []
    for number in range(min(folds, len(names))):
        rest = replace(training, table=_rows(table, fold != number))
        nets.append(fit(rest, shape, lambda words: None))
        say(f"fold {number + 1} of {folds}: {int((fold == number).sum())} programs left out")

    def reached(spread: float, noise: float, feedback: bool) -> Floats:
        sure = [scaled(net, spread, noise) for net in nets]
        return np.array([
            follow(sure[fold[at]], table, at, shape.clip, feedback) for at in range(len(fold))
        ])  # fmt: skip

    tried = {pair: reached(*pair, True) for pair in itertools.product(_SPREADS, _NOISES)}
    # A few programs shrink to nothing by one lucky recipe; they must not decide.
    best = min(tried, key=lambda pair: (float(np.maximum(tried[pair], _FLOOR).mean()), pair))
    ratios = table.ratios[:, : table.broadcast]
    orders = [_coreset(ratios[fold != number]) for number in range(len(nets))]
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


def scaled(net: PolicyNet, spread: float, noise: float) -> PolicyNet:
    """The model less sure of itself: of the program's factors, and of each recipe (about that
    much)."""
    arrays = dict(net.arrays)
    arrays["prior_spread"] = arrays["prior_spread"] * np.float32(spread)
    arrays["noise_bias"] = arrays["noise_bias"] + np.float32(np.log(noise))
    return replace(net, arrays=arrays)


def _rows(table: LabelTable, kept: NDArray[np.bool_]) -> LabelTable:
    at = np.flatnonzero(kept)
    return replace(
        table,
        names=tuple(table.names[i] for i in at),
        projects=tuple(table.projects[i] for i in at),
        looks=tuple(table.looks[i] for i in at),
        ratios=table.ratios[at],
    )


def follow(net: PolicyNet, table: LabelTable, at: int, clip: float, feedback: bool) -> list[float]:
    """Best ratio after each of `BUILDS` builds of a program that the model never saw."""
    texts = table.recipes[: table.broadcast]
    process = Process(clip)
    recipes = [Recipe.parse(text) for text in texts]
    process.add(net.expect(table.looks[at], texts), [(*r.passes, *r.options) for r in recipes])
    everything = range(len(texts))
    ratios = table.ratios[at]
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


def _card(
    table: LabelTable, goal: str, shape: Shape, folds: int, found: Validation
) -> dict[str, Any]:
    return {
        "goal": goal,
        "labels": table.words,
        "programs": len(table.names),
        "projects": sorted(set(table.projects)),
        "recipes on all programs": table.broadcast,
        "recipes on one program": len(table.recipes) - table.broadcast,
        "measurements": int(np.isfinite(table.ratios).sum()),
        "features": list(FEATURES),
        "clip": shape.clip,
        "shape": asdict(shape),
        "folds": folds,
        "builds": list(BUILDS),
        "saved on projects left out": {
            name: [round(value, 2) for value in values] for name, values in found.saved.items()
        },
        "spread": found.spread,
        "noise": found.noise,
        "versions": {
            "planish": "0.1.0", "python": platform.python_version(),
            "torch": metadata.version("torch"), "numpy": metadata.version("numpy"),
        },
    }  # fmt: skip


def card_text(net: PolicyNet, size: int) -> str:
    """The card for people (Markdown)."""
    card = net.card
    words = card["labels"]
    weights = sum(array.size for array in net.arrays.values())
    lines = [
        f"# Recipes for {words['architecture']}, goal {card['goal']}",
        "",
        "Written by `planish learn policy`; the policy `learned` uses it (docs/learn.md).",
        "",
        "| what | |",
        "| --- | --- |",
        f"| compiler | {words['compiler']} |",
        f"| programs | {card['programs']} of {len(card['projects'])} training projects: "
        f"{', '.join(card['projects'])} |",
        f"| recipes | {card['recipes on all programs']} built on all programs, "
        f"{card['recipes on one program']} more on the program whose search tried them |",
        f"| measurements | {card['measurements']} |",
        *(f"| {name} | {words[name]} |" for name in ("searched", "built", "checked")),
        f"| vocabulary | {len(net.actions)} actions |",
        f"| weights | {weights} in {len(ARRAYS)} arrays, {size} bytes |",
        f"| sureness | spread of the factors times {card['spread']}, noise times {card['noise']} |",
        f"| seed | {card['shape']['seed']} |",
        f"| versions | {', '.join(f'{n} {v}' for n, v in card['versions'].items())} |",
        "",
        f"Saved of the baseline by the recipes of the table, on projects left out in turn "
        f"({card['folds']} groups), %:",
        "",
        "| builds | " + " | ".join(map(str, card["builds"])) + " |",
        "| --- |" + " ---: |" * len(card["builds"]),
        *(
            f"| {name} | " + " | ".join(f"{v:.2f}" for v in values) + " |"
            for name, values in card["saved on projects left out"].items()
        ),
    ]
    return "\n".join(lines) + "\n"
