"""What searches share that measure a round of plans whole before they choose the next round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from planish.base.records import Outcome
from planish.search.protocol import Plan


class RoundPolicy(ABC):
    """Suggests the plans of a round; the next one begins when all outcomes have come back."""

    def __init__(self, start: Plan) -> None:
        self._seen: set[Plan] = {start}
        self._values: dict[Plan, float] = {}
        self._waiting: set[Plan] = set()

    def suggest(self, count: int) -> Sequence[Plan]:
        plans: list[Plan] = []
        while len(plans) < count:
            plan = self._following()
            if plan is not None:
                self._seen.add(plan)
                self._waiting.add(plan)
                plans.append(plan)
            elif plans or self._waiting or not self._advance():
                break
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)
        self._waiting.discard(plan)
        if outcome.ok:
            self._values[plan] = outcome.value

    @abstractmethod
    def _following(self) -> Plan | None:
        """The round's next plan; None where all are out."""

    @abstractmethod
    def _advance(self) -> bool:
        """Begin the next round; False where there is none."""
