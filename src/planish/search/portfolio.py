"""Several policies side by side: each suggests, all observe, and who finds the best gets more."""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.protocol import Best, Plan, Policy

_LEADER = 2  # turns of the policy that found the best so far, to one of each other


class Portfolio:
    """Turns go round; a policy that has nothing left drops out.

    In a turn a policy suggests `turn` plans, so that each keeps the batches that it needs.
    """

    def __init__(self, policies: Sequence[Policy], turn: int = 4) -> None:
        self._policies = list(policies)
        self._turn = turn
        self._best = Best(Plan())
        self._owner: dict[Plan, Policy] = {}
        self._leader: Policy | None = None
        self._queue: list[Policy] = []

    def suggest(self, count: int) -> Sequence[Plan]:
        found: list[Plan] = []
        while len(found) < count and self._policies:
            if not self._queue:
                self._queue = [
                    policy
                    for policy in self._policies
                    for _ in range(_LEADER if policy is self._leader else 1)
                ]
            policy = self._queue.pop(0)
            plans = policy.suggest(min(self._turn, count - len(found)))
            if not plans:
                self._policies.remove(policy)
                self._queue = [other for other in self._queue if other is not policy]
            for plan in plans:
                if plan not in self._owner:
                    self._owner[plan] = policy
                    found.append(plan)
        return found

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if self._best.see(plan, outcome):
            self._leader = self._owner.get(plan)
        for policy in self._policies:
            policy.observe(plan, outcome)
