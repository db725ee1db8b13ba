"""The end of a kernel search: the best schedules once more, and what is kept of them.

The best of many short timings is partly the luckiest. So those that lie near it are timed again,
longer; and the one that does best there has to beat the rules' schedule beyond the noise a last
time, in another process: that time alone is reported.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from planish.search.protocol import Plan
from planish.tensor.schedule import Schedule
from planish.tune.kernel_evaluator import KernelEvaluator, ScheduleSpace, interval
from planish.tune.kernel_requests import Measured

_NEAR = 1.02  # times the best value: whatever is this near may be as good
_MOST = 3
_AGAIN = 0.25  # seconds for each of those
_LAST = 0.4

Ratio = tuple[float, float, float]


@dataclass(frozen=True)
class Kept:
    """What is kept: a schedule, seconds of a call under the rules' and under it.

    ratio  of the two, between the ends of its 95 % interval
    plan   whose schedule it is; the start where the rules' was not beaten
    """

    schedule: Schedule
    baseline: float
    best: float
    ratio: Ratio
    plan: Plan


def confirmed(
    evaluator: KernelEvaluator,
    space: ScheduleSpace,
    values: Mapping[Plan, float],
    baseline: float,
    draw: random.Random,
) -> Kept:
    """The plan that beats the rules' schedule twice, or the rules'.

    values    seconds of each plan that could be measured
    baseline  seconds under the rules' schedule, as the search knew them
    """
    rules = space.schedule(())
    assert rules is not None
    first: list[tuple[float, int, Schedule, Plan]] = []
    for at, (plan, schedule) in enumerate(_near(space, values, baseline, rules).items()):
        taken = evaluator.confirm(str(schedule), _AGAIN)
        if taken is not None:
            baseline = statistics.median(taken.baseline)
            _, middle, high = interval(taken, draw)
            if high < 1.0:
                first.append((middle, at, schedule, plan))
    if first:
        _, _, schedule, plan = min(first)
        last = evaluator.confirm(str(schedule), _LAST)
        if last is not None and (ratio := interval(last, draw))[2] < 1.0:
            return Kept(schedule, *_medians(last), ratio, plan)
    return Kept(rules, baseline, baseline, (1.0, 1.0, 1.0), Plan())


def _near(
    space: ScheduleSpace, values: Mapping[Plan, float], baseline: float, rules: Schedule
) -> dict[Plan, Schedule]:
    """The best plans with their schedules, each schedule once; none that is the rules' own."""
    limit = _NEAR * min(values.values(), default=0.0)
    found: dict[Plan, Schedule] = {}
    for plan in sorted(values, key=lambda plan: values[plan]):
        if len(found) == _MOST or values[plan] > min(limit, baseline):
            break
        schedule = space.schedule(plan.actions)
        if schedule is not None and schedule != rules and schedule not in found.values():
            found[plan] = schedule
    return found


def _medians(taken: Measured) -> tuple[float, float]:
    return statistics.median(taken.baseline), statistics.median(taken.candidate)
