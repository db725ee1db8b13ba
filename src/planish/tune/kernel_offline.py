"""Kernel tuning from what the store has: nothing is compiled, nothing is measured."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

from planish.base.errors import UsageError
from planish.base.records import Outcome
from planish.measure.timer import ratio_interval
from planish.store.store import Store
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.default_schedule import default_nest
from planish.tune.kernel_evaluator import kernel_key
from planish.tune.stage_shape import Target


@dataclass(frozen=True)
class Found:
    """The best of the records.

    baseline, best  seconds of a call; ratio is best over baseline with its 95 % interval
    records         how many there are, of which `failed` are of failures
    """

    schedule: Schedule
    baseline: float
    best: float
    ratio: tuple[float, float, float]
    records: int
    failed: int


def best_stored(
    program: Program, target: Target, *, cold: bool, machine: str, store: Store
) -> Found:
    """The fastest schedule on record, the rules' one where none is faster beyond the noise.

    machine  fingerprint of the machine whose records to use; empty for this one
    Raises UsageError where nothing is on record.
    """
    rules, _ = default_nest(program, target)
    known = store.outcomes(kernel_key(program, target.vector, cold, machine))
    base = known.get(str(rules))
    if base is None or not base.ok:
        whose = f"machine {machine}" if machine else "this machine"
        raise UsageError(
            f"the store has no measurement of this kernel on {whose}",
            hint="tune it without --offline first",
        )
    failed = sum(1 for outcome in known.values() if not outcome.ok)
    ranked = sorted(
        (o for o in known.values() if o.value < base.value), key=lambda o: (o.value, o.recipe)
    )
    for outcome in ranked:
        ratio = _ratio(outcome, base)
        schedule = Schedule.parse(outcome.recipe)
        # A record of another version may hold steps that can no longer be taken.
        if ratio[2] < 1.0 and _applies(schedule, program):
            return Found(schedule, base.value, outcome.value, ratio, len(known), failed)
    return Found(rules, base.value, base.value, (1.0, 1.0, 1.0), len(known), failed)


def _ratio(outcome: Outcome, base: Outcome) -> tuple[float, float, float]:
    """Each sample is the baseline's value times a ratio that was taken in turn with it."""
    assert outcome.measurement is not None
    own = outcome.measurement.samples
    low, high = ratio_interval(own, (base.value,) * len(own), random.Random(0))
    return low, statistics.median(own) / base.value, high


def _applies(schedule: Schedule, program: Program) -> bool:
    try:
        schedule.apply(program)
    except UsageError:
        return False
    return True
