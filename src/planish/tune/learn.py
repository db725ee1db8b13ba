"""Learning a coreset: search on training modules, broadcast the winners, choose greedily.

Source of the idea: "Learning compiler pass orders using coreset and normalized value prediction"
(2301.05104), on allocated bytes instead of instruction counts, and with the code generator's
options and function attributes in the plans. Every build goes through the store, so that a run
that was killed goes on where it was, and a repeated run builds nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    earlier    coreset files whose plans are candidates, too
    variants   words to add to each of those plans (or, behind `!`, to take out): candidates, too
    plans, moves, suffixes  how many are kept at most
    ahead      plans that are assumed to have been tried before moves and suffixes are
    """

    searched: int = 80
    builds: int = 160
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


@dataclass(frozen=True)
class Learned:
    """The coreset, each entry with what it adds to those before it (mean share of the baseline)."""

    plans: tuple[tuple[Plan, float], ...]
    moves: tuple[tuple[str, float], ...]
    suffixes: tuple[tuple[str, float], ...]


def learn(
    samples: Sequence[Sample],
    space: PassSpace,
    moves: Sequence[str],
    suffixes: Sequence[str],
    seeds: Sequence[Plan],
    settings: Settings,
    say: Say,
) -> Learned:
    """Learn from the samples.

    moves     actions to be ranked as additions to a good plan
    suffixes  choices for functions to be ranked
    seeds     plans that every search starts with and that are broadcast in any case
    """
    winners = [
        search_winner(sample, space, seeds, settings, say) for sample in spread(samples, settings)
    ]
    candidates = list(dict.fromkeys([*seeds, *winners]))
    say(f"{len(candidates)} candidate plans")
    ratios = _broadcast(samples, candidates, say)
    plans = cover(ratios, candidates, settings.plans)
    ahead = [plan for plan, _ in plans[: settings.ahead]]
    bests = [_best_of(sample, ahead) for sample in samples]
    chosen_moves = _rank_moves(samples, bests, space, moves, settings, say)
    chosen_suffixes = _rank_suffixes(samples, bests, suffixes, settings, say)
    return Learned(tuple(plans), tuple(chosen_moves), tuple(chosen_suffixes))


def varied(plans: Sequence[Plan], variants: Sequence[str]) -> list[Plan]:
    """The plans, and each of them changed by each variant (`-new-option !-old-option`)."""
    found = list(plans)
    for variant in variants:
        words = variant.split()
        gone = {word[1:] for word in words if word.startswith("!")}
        added = [word for word in words if not word.startswith("!")]
        for plan in plans:
            kept = [action for action in plan.actions if action not in {*gone, *added}]
            found.append(plan.acting((*kept, *added)))
    return list(dict.fromkeys(found))


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
    plan = _minimise(sample, space, best)
    gain = 1 - best.value / sample.baseline.value
    say(f"searched {sample.name}: {gain:.1%} by {' '.join(plan.actions)}")
    return plan


def _minimise(sample: Sample, space: PassSpace, best: Best) -> Plan:
    """The plan without the actions that earn nothing; short plans serve other programs as well."""
    plan, value = best.plan, best.value
    at = 0
    while True:
        shorter = list(deletions(space, plan))[at : at + 1]
        if not shorter:
            return plan
        [outcome] = sample.evaluate(shorter)
        if outcome.value <= value:
            plan, value = shorter[0], outcome.value
        else:
            at += 1


def _broadcast(
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


def _best_of(sample: Sample, plans: Sequence[Plan]) -> Best:
    best = Best(Plan())
    for plan, outcome in zip(plans, sample.evaluate(plans), strict=True):
        best.see(plan, outcome)
    return best


def _rank_moves(
    samples: Sequence[Sample],
    bests: Iterable[Best],
    space: PassSpace,
    moves: Sequence[str],
    settings: Settings,
    say: Say,
) -> list[tuple[str, float]]:
    """By the mean gain of adding each to the module's best plan, where it is an improvement."""
    gains = dict.fromkeys(moves, 0.0)
    for at, (sample, best) in enumerate(zip(samples, bests, strict=True)):
        legal = [m for m in moves if space.legal((*best.plan.actions, m))]
        plans = [best.plan.acting((*best.plan.actions, move)) for move in legal]
        for move, outcome in zip(legal, sample.evaluate(plans), strict=True):
            gains[move] += max(0.0, best.value - outcome.value) / sample.baseline.value
        if at % 20 == 0:
            say(f"moves on {at + 1} of {len(samples)} modules")
    ranked = sorted(gains.items(), key=lambda row: (-row[1], row[0]))
    return [(m, gain / len(samples)) for m, gain in ranked if gain > 0][: settings.moves]


def _rank_suffixes(
    samples: Sequence[Sample],
    bests: Iterable[Best],
    suffixes: Sequence[str],
    settings: Settings,
    say: Say,
) -> list[tuple[str, float]]:
    """Greedily, by what each adds when every function keeps the best suffix chosen so far."""
    rows: list[dict[str, dict[str, float]]] = []
    for at, (sample, best) in enumerate(zip(samples, bests, strict=True)):
        plans = [replace(best.plan, everywhere=suffix) for suffix in suffixes]
        outcomes = dict(zip(suffixes, sample.evaluate(plans), strict=True))
        outcomes[""] = best.outcome or sample.baseline
        rows.append({suffix: _shares(o, sample.baseline.value) for suffix, o in outcomes.items()})
        if at % 20 == 0:
            say(f"suffixes on {at + 1} of {len(samples)} modules")
    return cover_parts(rows, suffixes, settings.suffixes)


def cover_parts(
    rows: Sequence[Mapping[str, Mapping[str, float]]], suffixes: Sequence[str], count: int
) -> list[tuple[str, float]]:
    """Greedy choice of suffixes when each function keeps its best.

    rows  for each module: suffix to (function to its share of the module's baseline); "" is none
    """
    current = [dict(row[""]) for row in rows]
    left = list(suffixes)
    chosen: list[tuple[str, float]] = []
    while left and len(chosen) < count:
        gains = [
            sum(
                max(0.0, now - row[suffix].get(name, now))
                for best, row in zip(current, rows, strict=True)
                for name, now in best.items()
            )
            for suffix in left
        ]
        at = max(range(len(left)), key=lambda i: gains[i])
        if gains[at] <= 0:
            break
        suffix = left.pop(at)
        chosen.append((suffix, gains[at] / len(rows)))
        for best, row in zip(current, rows, strict=True):
            for name, now in best.items():
                best[name] = min(now, row[suffix].get(name, now))
    return chosen


def _shares(outcome: Outcome, baseline: float) -> dict[str, float]:
    if not outcome.ok or outcome.measurement is None:
        return {}
    return {name: size / baseline for name, size in outcome.measurement.parts.items()}
