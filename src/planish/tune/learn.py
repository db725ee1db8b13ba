"""Learning a coreset: search on training modules, broadcast the winners, choose greedily.

Source of the idea: "Learning compiler pass orders using coreset and normalized value prediction"
(2301.05104), on allocated bytes instead of instruction counts, and with the code generator's
options and function attributes in the plans. Every build goes through the store, so that a run
that was killed goes on where it was, and a repeated run builds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from planish.base.records import Outcome
from planish.search.protocol import Best, Plan
from planish.tune.common_search import search_common
from planish.tune.pass_space import PassSpace
from planish.tune.winners import Sample, Settings, broadcast, cover, search_winner, spread

Say = Callable[[str], None]


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
    searched = spread(samples, settings)
    winners = [search_winner(sample, space, seeds, settings, say) for sample in searched]
    known = list(dict.fromkeys([*seeds, *winners]))
    candidates = list(
        dict.fromkeys([*known, *search_common(searched, space, known, settings, say)])
    )
    say(f"{len(candidates)} candidate plans")
    ratios = broadcast(samples, candidates, say)
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
