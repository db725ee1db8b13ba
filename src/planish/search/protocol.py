"""What a space and a policy owe each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from planish.base.records import Outcome


@dataclass(frozen=True)
class Plan:
    """A candidate, as text: what a space turns into a recipe.

    actions     steps in order, each one action of the space
    parts       part of the task (a function) to a choice that concerns it alone, sorted by part
    everywhere  one such choice tried on all parts at once, to learn which parts like it
    """

    actions: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    everywhere: str = ""

    def acting(self, actions: Sequence[str]) -> Plan:
        """The same plan with these actions."""
        return replace(self, actions=tuple(actions))


class Space(Protocol):
    """What may be done to a task."""

    @property
    def start(self) -> Plan:
        """The baseline; always a candidate."""

    def actions(self, plan: Plan) -> Sequence[str]:
        """Actions that are legal somewhere in the plan, in a fixed order."""

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether the actions may stand together in this order."""


class Policy(Protocol):
    """Suggests plans and learns from what became of them."""

    def suggest(self, count: int) -> Sequence[Plan]:
        """At most `count` plans; none means that the policy has nothing left to try."""

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        """What became of a plan, its own or another policy's; in a fixed order."""


Evaluate = Callable[[Sequence[Plan]], Sequence[Outcome]]


@dataclass
class Best:
    """The best plan seen so far. The earliest wins a tie, so that the baseline is hard to leave.

    A plan that tries one choice everywhere is a probe and is never kept: its parts are unchosen.
    """

    plan: Plan
    outcome: Outcome | None = None

    @property
    def value(self) -> float:
        return self.outcome.value if self.outcome is not None else float("inf")

    def see(self, plan: Plan, outcome: Outcome) -> bool:
        """Take note; True when it is better than all before."""
        if outcome.ok and not plan.everywhere and outcome.value < self.value:
            self.plan, self.outcome = plan, outcome
            return True
        return False
