"""The policy that ranks candidates by the cost model before any is measured, and learns as it goes.

The model's prediction is the mean of a Gaussian belief about the logarithm of each candidate's
time; what the model got wrong is explained by the choices themselves (one coefficient each), and
every measurement corrects it (Bayesian linear regression). The next candidates are those with the
most expected improvement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planish.base.records import Outcome
from planish.model.process import expected_improvement
from planish.model.trees import Forest
from planish.search.protocol import Plan
from planish.tune.cost_model import Configs, configs_of, default_config, predict
from planish.tune.loop_features import CHOICES
from planish.tune.loop_space import LoopSpace

Floats = NDArray[np.float64]

_DRAWN = 900  # candidates of the program at first
_AROUND = 60  # and around each new best one
_NOISE = 0.02
_DEFAULT_ERROR = 0.15
_CHANGED = 4  # choices that a typical candidate changes
_NEAR = 64  # the best candidates, whose schedules are built to see whether they are new


class CostPolicy:
    """Candidates by expected improvement over the best measured one."""

    def __init__(self, space: LoopSpace, seed: int, forest: Forest) -> None:
        self._space = space
        self._forest = forest
        self._draw = np.random.default_rng(seed)
        self._domains = {n: d for n, rules in space.rules.items() if (d := _known(rules.domain()))}
        self._stages = list(self._domains)
        self._defaults = {name: default_config(space, name) for name in self._stages}
        self._columns = self._number_choices()
        count = max(1, len(self._columns))
        error = float(forest.card.get("error", _DEFAULT_ERROR))
        self._precision = np.eye(count) * (_CHANGED / error**2)
        self._pull = np.zeros(count)
        self._base = float("nan")
        self._best = 0.0
        self._kept: dict[str, Configs] = {}
        self._pools: dict[str, tuple[Configs, Floats]] = {}
        self._seen: set[str] = {str(space.schedule(()))}
        self._tried: set[tuple[str, ...]] = {()}
        self._filled = False

    def suggest(self, count: int) -> Sequence[Plan]:
        if not self._filled:
            self._filled = True
            for stage in self._stages:
                self._add(stage, self._at_random(stage, _DRAWN // len(self._stages)))
        precision, pull = self._precision.copy(), self._pull.copy()
        plans: list[Plan] = []
        while len(plans) < count and (found := self._next()) is not None:
            plan, features, mean = found
            plans.append(plan)
            # The others of a batch are chosen as if this one did what is expected of it.
            self._learn(features, mean)
        self._precision, self._pull = precision, pull
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._tried.add(plan.actions)
        if not plan.actions:
            self._base = outcome.value
            return
        if not outcome.ok or not math.isfinite(self._base):
            return
        configs = configs_of(self._space, plan.actions)
        value = math.log(outcome.value / self._base)
        predicted = sum(
            float(predict(self._forest, self._space, stage, config[None])[0])
            for stage, config in configs.items()
        )
        self._learn(self._features(configs), value - predicted)
        if value < self._best:
            self._best, self._kept = value, configs
            for stage in self._stages:
                self._add(stage, self._around(stage, _AROUND // len(self._stages)))

    # The belief.

    def _learn(self, features: Floats, error: float) -> None:
        self._precision += np.outer(features, features) / _NOISE**2
        self._pull += features * (error / _NOISE**2)

    def _next(self) -> tuple[Plan, Floats, float] | None:
        """The most promising new candidate, its features and the error expected of it."""
        covariance = np.linalg.inv(self._precision)
        weights = covariance @ self._pull
        ranked: list[tuple[float, str, int]] = []
        for stage, (configs, predicted) in self._pools.items():
            features = self._rows(stage, configs)
            mean = predicted + self._others(stage) + features @ weights
            spread = np.sqrt(np.einsum("nk,kl,nl->n", features, covariance, features) + _NOISE**2)
            gain = expected_improvement(mean, spread, self._best)
            order = np.argsort(-gain, kind="stable")[:_NEAR]
            ranked += [(-float(gain[at]), stage, int(at)) for at in order]
        for _, stage, at in sorted(ranked):
            config = self._pools[stage][0][at]
            plan = self._plan({**self._kept, stage: config})
            if plan is not None:
                features = self._rows(stage, config[None])[0]
                return plan, features, float(features @ weights)
        return None

    def _plan(self, configs: dict[str, Configs]) -> Plan | None:
        """The plan of these choices; None where it was tried, is the same code, or is not legal."""
        actions = tuple(
            sorted(
                f"{stage} {name}={config[at]}"
                for stage, config in configs.items()
                for at, name in enumerate(CHOICES)
                if config[at] != self._defaults[stage][at]
            )
        )
        if actions in self._tried:
            return None
        self._tried.add(actions)
        if not self._space.legal(actions):
            return None
        text = str(self._space.schedule(actions))
        if text in self._seen:
            return None
        self._seen.add(text)
        return Plan(actions)

    def _others(self, stage: str) -> float:
        """What the model says of the choices that are kept for the other stages."""
        return sum(
            float(predict(self._forest, self._space, name, config[None])[0])
            for name, config in self._kept.items()
            if name != stage
        )

    # Features of a plan: one for each choice that differs from the rules'.

    def _number_choices(self) -> dict[tuple[str, int, int], int]:
        found: dict[tuple[str, int, int], int] = {}
        for stage in self._stages:
            for name, values in self._domains[stage].items():
                at = CHOICES.index(name)
                for value in values:
                    if value != self._defaults[stage][at]:
                        found[stage, at, value] = len(found)
        return found

    def _features(self, configs: dict[str, Configs]) -> Floats:
        row = np.zeros(max(1, len(self._columns)))
        for stage, config in configs.items():
            for at, value in enumerate(config):
                column = self._columns.get((stage, at, int(value)))
                if column is not None:
                    row[column] = 1.0
        return row

    def _rows(self, stage: str, configs: Configs) -> Floats:
        """Features of candidates of a stage on top of what is kept for the others."""
        others = {name: config for name, config in self._kept.items() if name != stage}
        rows = np.tile(self._features(others), (len(configs), 1))
        for (name, at, value), column in self._columns.items():
            if name == stage:
                rows[:, column] = configs[:, at] == value
        return rows

    # Candidates.

    def _at_random(self, stage: str, count: int) -> Configs:
        """The rules' choices with one changed, each way, and with several drawn anew."""
        default, domain = self._defaults[stage], self._domains[stage]
        rows = [default]
        for name, values in domain.items():
            for value in values:
                row = default.copy()
                row[CHOICES.index(name)] = value
                rows.append(row)
        drawn = np.tile(default, (count, 1))
        for name, values in domain.items():
            changed = self._draw.random(count) < self._draw.choice((0.25, 0.5, 1.0), count)
            fresh = self._draw.choice(np.array(values), count)
            at = CHOICES.index(name)
            drawn[:, at] = np.where(changed, fresh, drawn[:, at])
        return np.vstack([np.array(rows), drawn])

    def _around(self, stage: str, count: int) -> Configs:
        """Neighbours of what is kept for the stage: one or two choices drawn anew."""
        domain = self._domains[stage]
        middle = self._kept.get(stage, self._defaults[stage])
        rows = np.tile(middle, (count, 1))
        names = list(domain)
        for row in rows:
            for _ in range(int(self._draw.integers(1, 3))):
                name = names[int(self._draw.integers(len(names)))]
                row[CHOICES.index(name)] = self._draw.choice(np.array(domain[name]))
        return rows

    def _add(self, stage: str, configs: Configs) -> None:
        """Put candidates that fit the registers into the stage's pool, each once."""
        configs = np.unique(configs[_fits(self._space, stage, configs)], axis=0)
        if stage in self._pools:
            configs = np.unique(np.vstack([self._pools[stage][0], configs]), axis=0)
        if len(configs):
            self._pools[stage] = (configs, predict(self._forest, self._space, stage, configs))


def _fits(space: LoopSpace, stage: str, configs: Configs) -> NDArray[np.bool_]:
    """By rows and vectors, which decide it but for rare cases; `legal` has the last word."""
    rules = space.rules[stage]
    tiles, which = np.unique(configs[:, :2], axis=0, return_inverse=True)
    found = [rules.fits(dict(zip(CHOICES[:2], map(int, tile), strict=True))) for tile in tiles]
    return np.array(found, bool)[which.ravel()]


def _known(domain: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The choices that the model knows of; others are left to what comes after it."""
    return {name: values for name, values in domain.items() if name in CHOICES}
