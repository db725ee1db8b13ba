"""Recipes that serve training programs: searched on one each, minimised, tried on all, chosen.

Source of the procedure: "Learning compiler pass orders using coreset and normalized value
prediction" (2301.05104).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from planish.base.records import Budget, Outcome
from planish.llvm.requests import Job
from planish.search.genetic import GeneticPolicy
from planish.search.loop import run
from planish.search.moves import deletions
from planish.search.protocol import Best, Evaluate, Plan
from planish.tune.pass_space import PassSpace

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How much is spent; the defaults take about an hour on two cores for 300 modules.

    searched   modules that are searched, spread over the projects
    builds     builds of one such search
    common     recipes searched for all of these modules at once, after that; labels only
    tried      recipes tried for the first of those, half as many for the second, a third then
    earlier    coreset files whose plans are candidates, too
    variants   words to add to each of those plans (or, behind `!`, to take out): candidates, too
    plans, moves, suffixes  how many are kept at most
    ahead      plans that are assumed to have been tried before moves and suffixes are
    """

    searched: int = 80
    builds: int = 160
    common: int = 0
    tried: int = 600
    earlier: tuple[Path, ...] = ()
    variants: tuple[str, ...] = ()
    plans: int = 40
    moves: int = 40
    suffixes: int = 40
    ahead: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Sample:
    """One training module: its evaluator, its baseline, and how it is built."""

    name: str
    project: str
    evaluate: Evaluate
    baseline: Outcome
    job: Job | None = None


def spread(samples: Sequence[Sample], settings: Settings) -> list[Sample]:
    """A seeded choice that takes from each project in turn."""
    rng = random.Random(settings.seed)
    by_project: dict[str, list[Sample]] = {}
    for sample in samples:
        by_project.setdefault(sample.project, []).append(sample)
    for group in by_project.values():
        rng.shuffle(group)
    chosen: list[Sample] = []
    while len(chosen) < min(settings.searched, len(samples)):
        for group in by_project.values():
            if group:
                chosen.append(group.pop())
    return chosen[: settings.searched]


def search_winner(
    sample: Sample, space: PassSpace, seeds: Sequence[Plan], settings: Settings, say: Say
) -> Plan:
    """The best plan that a genetic search finds for a sample, minimised."""
    policy = GeneticPolicy(space, settings.seed, seeds)
    budget = Budget(builds=settings.builds)
    best = run(space, policy, sample.evaluate, budget, baseline=sample.baseline)
    plan = minimise(sample.evaluate, space, best)
    gain = 1 - best.value / sample.baseline.value
    say(f"searched {sample.name}: {gain:.1%} by {' '.join(plan.actions)}")
    return plan


def minimise(evaluate: Evaluate, space: PassSpace, best: Best) -> Plan:
    """The plan without the actions that earn nothing; short plans serve other programs as well."""
    plan, value = best.plan, best.value
    at = 0
    while True:
        shorter = list(deletions(space, plan))[at : at + 1]
        if not shorter:
            return plan
        [outcome] = evaluate(shorter)
        if outcome.value <= value:
            plan, value = shorter[0], outcome.value
        else:
            at += 1


def broadcast(
    samples: Sequence[Sample], candidates: Sequence[Plan], say: Say
) -> list[dict[Plan, float]]:
    ratios = []
    for at, sample in enumerate(samples):
        outcomes = sample.evaluate(candidates)
        pairs = zip(candidates, outcomes, strict=True)
        ratios.append({p: o.value / sample.baseline.value for p, o in pairs if o.ok})
        if at % 20 == 0:
            say(f"broadcast to {at + 1} of {len(samples)} modules")
    return ratios


def cover(
    ratios: Sequence[Mapping[Plan, float]], candidates: Sequence[Plan], count: int
) -> list[tuple[Plan, float]]:
    """Greedy choice: each plan adds most to the mean of the best-so-far over all modules.

    ratios  for each module: plan to size over the baseline's size; a missing plan failed
    """
    best = [1.0] * len(ratios)
    chosen: list[tuple[Plan, float]] = []
    left = list(candidates)
    while left and len(chosen) < count:
        gains = [
            sum(max(0.0, b - row.get(plan, 1.0)) for b, row in zip(best, ratios, strict=True))
            for plan in left
        ]
        at = max(range(len(left)), key=lambda i: gains[i])
        if gains[at] <= 0:
            break
        plan = left.pop(at)
        chosen.append((plan, gains[at] / len(ratios)))
        best = [min(b, row.get(plan, 1.0)) for b, row in zip(best, ratios, strict=True)]
    return chosen
