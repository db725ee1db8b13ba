"""Measurements to learn from: random schedules of many programs, kept in the store."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planish.base.records import Outcome
from planish.codegen.units import has_dot4
from planish.measure.machine import processor
from planish.search.moves import mutate
from planish.search.protocol import Plan
from planish.store.store import Store
from planish.tune.kernel_evaluator import Floor, KernelEvaluator, kernel_key
from planish.tune.kernel_training import Example
from planish.tune.loop_space import LoopSpace
from planish.tune.stage_shape import Target
from planish.tune.workers import kernel_pool

Say = Callable[[str], None]

_SECONDS_PER_CALL = 30.0
_STRAYING = 0.4
_BATCH = 8
_FEWEST_SAMPLES = 3
_SPREAD = 0.1


@dataclass(frozen=True)
class Sample:
    """A plan with its time over the rules' schedule's."""

    plan: Plan
    ratio: float


@dataclass(frozen=True)
class Samples:
    """What was measured of one program."""

    example: Example
    space: LoopSpace
    samples: tuple[Sample, ...]


def native_space(program_of: Example, vector: int) -> LoopSpace:
    """The space of a program on this machine."""
    return LoopSpace(program_of.program, Target.of(processor(), vector))


def draw_plans(space: LoopSpace, count: int, seed: int) -> list[Plan]:
    """Different plans: a few changes of the rules' schedule, or of each other."""
    draw = random.Random(seed)
    found: dict[Plan, None] = {}
    for _ in range(count * 20):
        if len(found) == count or not space.all_actions:
            break
        plan = space.start
        if found and draw.random() < _STRAYING:
            plan = draw.choice(list(found))
        for _ in range(draw.choice((1, 1, 2, 3, 4))):
            plan = mutate(space, plan, draw)
        if plan.actions:
            found.setdefault(plan)
    return list(found)


def collect(
    examples: Sequence[Example], plans: int, seed: int, vector: int, store: Store, say: Say,
    *, stop: Callable[[], bool] = lambda: False,
) -> None:  # fmt: skip
    """Measure so many plans of each example; those that the store has are not measured again.

    stop  asked before each example: whether to leave the rest for another time
    """
    with kernel_pool(_SECONDS_PER_CALL) as pool:
        for at, example in enumerate(examples):
            if stop():
                say(f"stopped before program {at + 1} of {len(examples)}; run again to go on")
                return
            space = native_space(example, vector)
            wanted = draw_plans(space, plans, seed + at)
            known = store.outcomes(kernel_key(example.program, vector, False))
            if all(str(space.schedule(p.actions)) in known for p in wanted):
                continue
            pool.seconds = _SECONDS_PER_CALL  # a baseline sets it for its own program
            floor = Floor(example.program, vector, has_dot4(vector))
            evaluator = KernelEvaluator(
                pool, space, vector, store=store, seed=seed, floor=floor, thorough=True
            )
            if not evaluator.baseline().ok:
                continue
            for start in range(0, len(wanted), _BATCH):
                evaluator(wanted[start : start + _BATCH])
            say(f"{at + 1} of {len(examples)}: {example.group}, {len(wanted)} schedules")


def gather(
    examples: Sequence[Example], plans: int, seed: int, vector: int, store: Store
) -> list[Samples]:
    """What the store has of these examples; nothing is measured."""
    found = []
    for at, example in enumerate(examples):
        known = store.outcomes(kernel_key(example.program, vector, False))
        space = native_space(example, vector)
        rules = known.get(str(space.schedule(())))
        if rules is None or not rules.ok:
            continue
        samples = [
            Sample(plan, known[text].value / rules.value)
            for plan in draw_plans(space, plans, seed + at)
            if (text := str(space.schedule(plan.actions))) in known and agrees(known[text])
        ]
        found.append(Samples(example, space, tuple(samples)))
    return found


def agrees(outcome: Outcome) -> bool:
    """Whether the samples of an outcome say the same: half of them lie within a tenth."""
    if not outcome.ok or outcome.measurement is None:
        return False
    samples = sorted(outcome.measurement.samples)
    if len(samples) < _FEWEST_SAMPLES:
        return False
    low, high = samples[len(samples) // 4], samples[(3 * len(samples)) // 4]
    return high - low <= _SPREAD * low
