"""Several policies one after another, each with its share of the builds; all see all outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.protocol import Plan, Policy


class Stages:
    """Each stage is a policy and the number of builds it may use; None is all that is left.

    What a stage leaves over goes to the later ones. `phase` names the stage at work.
    """

    def __init__(self, stages: Sequence[tuple[str, Policy, int | None]]) -> None:
        self._stages = list(stages)
        self._at = 0
        self._used = 0

    @property
    def phase(self) -> str:
        return self._stages[min(self._at, len(self._stages) - 1)][0]

    def suggest(self, count: int) -> Sequence[Plan]:
        while self._at < len(self._stages):
            _, policy, share = self._stages[self._at]
            left = count if share is None else min(count, share - self._used)
            if left > 0:
                plans = policy.suggest(left)
                if plans:
                    self._used += len(plans)
                    return plans
            self._at += 1
            self._used = 0
        return ()

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        for _, policy, _ in self._stages:
            policy.observe(plan, outcome)
