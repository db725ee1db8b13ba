"""The loop every search runs in: suggest, evaluate, observe, until the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable

from planish.base.records import Budget, Outcome
from planish.search.protocol import Best, Evaluate, Plan, Policy, Space

# Plans asked for at once. Fixed, so that what a policy has observed when it suggests does not
# depend on how many workers there are.
BATCH = 4

Watch = Callable[[Plan, Outcome, Best], None]


def run(
    space: Space,
    policy: Policy,
    evaluate: Evaluate,
    budget: Budget,
    *,
    baseline: Outcome,
    watch: Watch | None = None,
    best: Best | None = None,
) -> Best:
    """Spend the budget; returns the best plan, which is the baseline when nothing beats it.

    baseline  the outcome of `space.start`, which costs nothing here
    watch     called after every outcome, in order
    best      where the best is kept; given by a caller who wants it after an interrupt
    """
    best = best if best is not None else Best(space.start)
    best.see(space.start, baseline)
    policy.observe(space.start, baseline)
    started = time.monotonic()
    spent = 0
    while True:
        count = BATCH if budget.builds is None else min(BATCH, budget.builds - spent)
        if count <= 0 or _late(started, budget):
            return best
        plans = list(policy.suggest(count))[:count]
        if not plans:
            return best
        for plan, outcome in zip(plans, evaluate(plans), strict=True):
            spent += 1
            best.see(plan, outcome)
            policy.observe(plan, outcome)
            if watch is not None:
                watch(plan, outcome, best)


def _late(started: float, budget: Budget) -> bool:
    return budget.seconds is not None and time.monotonic() - started >= budget.seconds
