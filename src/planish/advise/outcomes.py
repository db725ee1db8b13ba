"""What became of advice: estimates beside measured speed-ups, kept in the store.

    planish advise before.json --outcome after.json --followed 2
    planish advise --calibration

An estimate is an upper bound, so that the ratio of measured to estimated gain tells how far a
rule's estimates can be trusted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planish.advise.advice import Advice
from planish.base.errors import StoreError, UsageError
from planish.base.records import Measurement, Outcome
from planish.store.store import Key, Store
from planish.trace.trace import Trace

_KEY = Key("advice", "traces", "speed-up", "planish advise")


@dataclass(frozen=True)
class AdviceOutcome:
    """One piece of advice that was followed. `when` is seconds since the epoch."""

    rule: str
    where: str
    confidence: str
    estimate: float
    measured: float
    when: int

    @property
    def reached(self) -> float:
        """The share of the estimated gain that was measured: 1 where the estimate was right."""
        gain = self.estimate - 1
        return (self.measured - 1) / gain if gain else 0.0


@dataclass(frozen=True)
class Calibration:
    """All outcomes of one rule: medians of estimate, measured speed-up and share reached."""

    rule: str
    count: int
    estimate: float
    measured: float
    reached: float
    overrun: int  # outcomes that were faster than the bound said


def measured_speedup(before: Trace, after: Trace) -> float:
    """Mean step over mean step where both have steps, else span over span.

    Raises UsageError where one of them took no time.
    """
    lengths = []
    for trace in (before, after):
        steps = [step.duration for step in trace.steps]
        lengths.append((statistics.fmean(steps) if steps else 0.0, trace.span[1] - trace.span[0]))
    place = 0 if all(steps for steps, _ in lengths) else 1
    if not lengths[0][place] or not lengths[1][place]:
        raise UsageError("a trace without any time has no speed-up", hint="give two whole traces")
    return lengths[0][place] / lengths[1][place]


def chosen(found: Sequence[Advice], followed: Sequence[str]) -> list[Advice]:
    """The pieces that numbers (from 1) or rules name; raises UsageError for what is not there."""
    picked = []
    for word in followed:
        if word.isdigit():
            if not 1 <= int(word) <= len(found):
                raise UsageError(f"there is no advice {word}", hint=f"there are {len(found)}")
            picked.append(found[int(word) - 1])
            continue
        of_rule = [advice for advice in found if advice.rule == word]
        if not of_rule:
            rules = ", ".join(dict.fromkeys(advice.rule for advice in found))
            raise UsageError(f"no advice of rule '{word}'", hint=f"given were: {rules or 'none'}")
        picked.append(of_rule[0])
    return list(dict.fromkeys(picked))


def keep_outcomes(store: Store, advice: Sequence[Advice], measured: float) -> list[AdviceOutcome]:
    """Note them. Several pieces that were followed together share the speed-up unresolved."""
    made = [
        AdviceOutcome(a.rule, a.where, a.confidence.value, a.speedup, measured, int(time.time()))
        for a in advice
    ]
    store.put_many(_KEY, (
        Outcome(f"{o.rule} | {o.where} | {o.when}", Measurement(
            o.measured, "speed-up", parts={"estimate": o.estimate}), identity=o.confidence)
        for o in made
    ))  # fmt: skip
    return made


def read_outcomes(store: Store) -> list[AdviceOutcome]:
    """All that were noted, by rule and place; raises StoreError for what cannot be read."""
    found = []
    for text, outcome in store.outcomes(_KEY).items():
        rule, _, rest = text.partition(" | ")
        where, _, when = rest.rpartition(" | ")
        measurement = outcome.measurement
        if measurement is None or "estimate" not in measurement.parts or not when.isdigit():
            raise StoreError(f"the store {store.path} holds a damaged outcome of advice",
                             hint="delete it; only measurements are lost")  # fmt: skip
        found.append(AdviceOutcome(
            rule, where, outcome.identity, float(measurement.parts["estimate"]),
            float(measurement.value), int(when),
        ))  # fmt: skip
    return found


def calibrate(found: Sequence[AdviceOutcome]) -> list[Calibration]:
    """A row for each rule, the most outcomes first."""
    rows = []
    for rule in dict.fromkeys(o.rule for o in found):
        mine = [o for o in found if o.rule == rule]
        rows.append(Calibration(
            rule, len(mine), statistics.median(o.estimate for o in mine),
            statistics.median(o.measured for o in mine),
            statistics.median(o.reached for o in mine),
            sum(o.measured > o.estimate for o in mine),
        ))  # fmt: skip
    return sorted(rows, key=lambda row: (-row.count, row.rule))


def to_json(rows: Sequence[Calibration], found: Sequence[AdviceOutcome]) -> dict[str, Any]:
    """Plain data of both."""
    return {
        "rules": [vars(row) for row in rows],
        "outcomes": [{**vars(o), "reached": o.reached} for o in found],
    }
