"""Nests to imitate: the fastest of many measured ones for each training program.

Actions at random hardly ever come to a nest that keeps its results in registers, and what an
agent never sees it cannot prefer. So it is shown some first; then, round by round, the fastest of
its own (expert iteration, 1705.08439).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from planish.base.errors import PlanishError, UsageError
from planish.gym.loops import LoopProblem
from planish.model.mlp import Mlp
from planish.search.protocol import Plan
from planish.tune.cursor_policy import network_plans
from planish.tune.nest_policy import NestPolicy

Say = Callable[[str], None]
Seconds = Mapping[tuple[str, ...], float]
# What is measured of a program: seconds of a call by the actions that lead to the nest.
Seek = Callable[[str], Seconds]

_BATCH = 24
_NEAR = 1.03  # of the fastest nest: what is worth imitating, too
_KEPT = 3


@dataclass(frozen=True)
class Lesson:
    """How to come to a fast nest.

    actions  from the plain nest; `ratio`, its time over the fastest nest's of the program
    """

    actions: tuple[str, ...]
    ratio: float


@dataclass(frozen=True)
class Taught:
    """The lessons of one program; `best` is the fastest nest's time over the rules' schedule's."""

    benchmark: str
    best: float
    lessons: tuple[Lesson, ...]


def teach(
    problem: LoopProblem, seek: Seek, kept: Path, say: Say, earlier: Sequence[Taught] = ()
) -> list[Taught]:
    """The fastest nests of each program among what `seek` measures, and the earlier lessons.

    kept  a file to which each program's lessons are added; those in it are not measured again
    """
    known = {taught.benchmark: taught for taught in _read(kept)}
    before = {taught.benchmark: taught for taught in earlier}
    for at, name in enumerate(problem.benchmarks):
        if name in known:
            continue
        try:
            known[name] = _taught(problem, name, seek(name), before.get(name))
        except PlanishError as error:
            say(f"{name}: left out: {error}")
            continue
        with kept.open("a") as file:
            file.write(json.dumps(_to_json(known[name])) + "\n")
        if at % 10 == 9:
            say(f"lessons: {at + 1} of {len(problem.benchmarks)} programs")
    return [known[name] for name in problem.benchmarks if name in known]


def searched(problem: LoopProblem, nests: int, seed: int) -> Seek:
    """So many nests of a program, half of them drawn and half changed from the fastest."""

    def seek(name: str) -> Seconds:
        policy = NestPolicy(problem.space(name), problem.target, seed, nests // 2)
        values: dict[tuple[str, ...], float] = {}
        left = nests
        while left > 0 and (plans := policy.suggest(min(_BATCH, left))):
            left -= len(plans)
            for plan, outcome in zip(plans, problem.measure(name, plans), strict=True):
                policy.observe(plan, outcome)
                if outcome.ok:
                    values[plan.actions] = outcome.value
        return values

    return seek


def sampled(problem: LoopProblem, network: Mlp, samples: int) -> Seek:
    """So many nests of a program by Priority Sampling of the network."""

    def seek(name: str) -> Seconds:
        plans = list(islice(network_plans(network, problem.space(name), problem.target), samples))
        return _measured(problem, name, plans)

    return seek


def _measured(problem: LoopProblem, name: str, plans: Sequence[Plan]) -> Seconds:
    outcomes = problem.measure(name, plans)
    return {
        plan.actions: outcome.value
        for plan, outcome in zip(plans, outcomes, strict=True)
        if outcome.ok
    }


def _taught(problem: LoopProblem, name: str, found: Seconds, earlier: Taught | None) -> Taught:
    baseline = problem.start(name).baseline
    values = dict(found)
    if earlier is not None:  # measured anew: the luckiest of many timings is not the fastest nest
        values |= _measured(problem, name, [Plan(lesson.actions) for lesson in earlier.lessons])
    if not values:
        raise UsageError("no nest could be measured")
    best = min(values.values())
    # The shortest walks: what is alike in many programs is easier to learn than a lucky detour.
    near = sorted((len(a), v / best, a) for a, v in values.items() if v <= _NEAR * best)
    lessons = tuple(Lesson(actions, ratio) for _, ratio, actions in near[:_KEPT])
    return Taught(name, best / baseline, lessons)


def _to_json(taught: Taught) -> dict[str, object]:
    lessons = [{"actions": " ".join(le.actions), "ratio": le.ratio} for le in taught.lessons]
    return {"benchmark": taught.benchmark, "best": taught.best, "lessons": lessons}


def _read(path: Path) -> Iterator[Taught]:
    if not path.exists():
        return
    try:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            lessons = tuple(Lesson(tuple(x["actions"].split()), x["ratio"]) for x in row["lessons"])
            yield Taught(row["benchmark"], row["best"], lessons)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} holds no lessons: {error}", hint="remove it, or choose another --out"
        ) from error
