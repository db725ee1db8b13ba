"""Training of the cost model of loop schedules, from measurements in the store.

What it is worth is measured on programs left out in turn, which stand in for shapes never seen:
how near to the best of a program's measured schedules one gets by trying those that the model
ranks first, beside trying them in random order.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.measure.machine import processor
from planish.model.trees import Forest, fit, save
from planish.store.store import Store
from planish.tune.cost_model import configs_of, default_config, predict, rows_of
from planish.tune.kernel_samples import Samples, collect, gather
from planish.tune.kernel_training import training_examples
from planish.tune.loop_features import FEATURES
from planish.tune.loop_space import fuses

Say = Callable[[str], None]
Floats = NDArray[np.float64]

_FOLDS = 4
_TREES = 160
_FEWEST = 10
_WORST = 1.4  # log of a ratio: how much worse than four times makes no difference
_FORGIVING = 1.5  # what is slow need not be predicted as well: weights fall with the log ratio
_ANCHOR = 4.0  # weight of the rules' own choices, whose ratio is 1
_TRIED = (1, 4, 10)


@dataclass(frozen=True)
class KernelSettings:
    """How much to measure and what to leave out.

    programs  how many, and `plans` schedules of each
    seconds   stop measuring after so long; a later run goes on
    held_out  identities of shapes that must not be learned from
    """

    programs: int = 160
    plans: int = 48
    seconds: float = float("inf")
    seed: int = 0
    held_out: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def learn_kernels(settings: KernelSettings, out: Path, store: Store, say: Say) -> Forest:
    """Measure what the store has not got, fit, check, write; the model that was written.

    Raises UsageError where too little was measured.
    """
    vector = processor().vector
    examples = list(
        training_examples(settings.programs, settings.seed, settings.held_out, settings.groups)
    )
    end = time.monotonic() + settings.seconds
    collect(
        examples, settings.plans, settings.seed, vector, store, say,
        stop=lambda: time.monotonic() >= end,
    )  # fmt: skip
    table = Table.of(gather(examples, settings.plans, settings.seed, vector, store))
    if len(table.programs) < _FEWEST:
        raise UsageError(
            f"{len(table.programs)} measured programs are too few to learn from",
            hint=f"at least {_FEWEST}: run longer, or with more --programs",
        )
    checked = cross_validate(table, settings.seed)
    for line in checked.lines:
        say(line)
    groups = sorted({s.example.group for s in table.programs})
    card: dict[str, Any] = {
        "what": "log(time / the rules' time) of a stage's schedule; one thread, warm caches",
        "machine": f"{processor().name}, {vector}-byte vectors",
        "fingerprint": processor().fingerprint,
        "programs": len(table.programs),
        "schedules": len(table.targets),
        "groups": groups,
        "error": round(checked.error, 4),
        "checked": list(checked.lines),
        "shapes": sorted(s.example.identity for s in table.programs),
        "held out": len(settings.held_out),
        "seed": settings.seed,
        "planish": "0.1.0",
    }
    forest = fit_table(table, np.ones(len(table.targets), bool), settings.seed, card)
    save(forest, out)
    return forest


@dataclass(frozen=True)
class Table:
    """All usable measurements.

    rows     features, (n, d); targets: log ratios, (n,); weights, (n,)
    owner    which program each row is of, (n,)
    """

    programs: tuple[Samples, ...]
    rows: Floats
    targets: Floats
    weights: Floats
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, gathered: Sequence[Samples]) -> Table:
        """Plans that change one stage only: the model is one of stages."""
        rows, targets, weights, owner = [], [], [], []
        for at, samples in enumerate(gathered):
            space = samples.space
            for stage, rules in space.rules.items():
                if rules.domain():
                    rows.append(rows_of(space, stage, default_config(space, stage)[None]))
                    targets.append(0.0)
                    weights.append(_ANCHOR)
                    owner.append(at)
            for sample in samples.samples:
                changed = configs_of(space, sample.plan.actions)
                if len(changed) != 1 or any(map(fuses, sample.plan.actions)):
                    continue
                [(stage, config)] = changed.items()
                value = float(np.log(sample.ratio))
                rows.append(rows_of(space, stage, config[None]))
                targets.append(min(value, _WORST))
                weights.append(float(np.exp(-_FORGIVING * max(value, 0.0))))
                owner.append(at)
        width = len(FEATURES)
        table = np.vstack(rows) if rows else np.zeros((0, width))
        return cls(
            tuple(gathered), table, np.array(targets), np.array(weights), np.array(owner, np.int64)
        )


@dataclass(frozen=True)
class Checked:
    """error: weighted root mean square of the log ratio on programs left out."""

    error: float
    lines: tuple[str, ...]


def fit_table(table: Table, chosen: NDArray[np.bool_], seed: int, card: dict[str, Any]) -> Forest:
    """A forest from the chosen rows."""
    return fit(
        table.rows[chosen], table.targets[chosen], FEATURES, card, weights=table.weights[chosen],
        trees=_TREES, depth=5, rate=0.1, least=6.0, seed=seed,
    )  # fmt: skip


def cross_validate(table: Table, seed: int) -> Checked:
    """Whole programs are left out; the best of those ranked first against the best of all."""
    squares, mass = 0.0, 0.0
    ours: dict[int, list[float]] = {count: [] for count in _TRIED}
    theirs: dict[int, list[float]] = {count: [] for count in _TRIED}
    draw = random.Random(seed)
    for fold in range(_FOLDS):
        out = table.owner % _FOLDS == fold
        forest = fit_table(table, ~out, seed, {})
        error = forest.predict(table.rows[out]) - table.targets[out]
        squares += float((table.weights[out] * error**2).sum())
        mass += float(table.weights[out].sum())
        for at in range(fold, len(table.programs), _FOLDS):
            found = _ranked(forest, table.programs[at])
            if len(found) < 2 * max(_TRIED):
                continue
            best = min(1.0, *(ratio for _, ratio in found))
            order = [ratio for _, ratio in sorted(found)]
            shuffled = [draw.sample(order, len(order)) for _ in range(20)]
            for count in _TRIED:
                ours[count].append(min(1.0, *order[:count], 1.0) / best)
                theirs[count] += [min(1.0, *one[:count], 1.0) / best for one in shuffled]
    lines = []
    for count in _TRIED:
        if ours[count]:
            mine, other = statistics.fmean(ours[count]), statistics.fmean(theirs[count])
            lines.append(
                f"after {count} tried: {100 * (mine - 1):.1f} % above the best measured, "
                f"in random order {100 * (other - 1):.1f} % ({len(ours[count])} programs left out)"
            )
    return Checked((squares / max(mass, 1e-9)) ** 0.5, tuple(lines))


def _ranked(forest: Forest, samples: Samples) -> list[tuple[float, float]]:
    """(predicted log ratio, measured ratio) of every sample that changes one stage."""
    found = []
    for sample in samples.samples:
        changed = configs_of(samples.space, sample.plan.actions)
        if len(changed) == 1:
            [(stage, config)] = changed.items()
            said = predict(forest, samples.space, stage, config[None])
            found.append((float(said[0]), sample.ratio))
    return found


def read_identities(path: Path) -> Collection[str]:
    """One a line."""
    try:
        return tuple(path.read_text().split())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
