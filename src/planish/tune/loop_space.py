"""The space of schedules: changes to what the rules choose for each stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from planish.base.errors import UsageError
from planish.search.protocol import Plan
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.default_schedule import assemble
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import Target


class LoopSpace:
    """An action is one choice of one stage: `C rows=8`. The start is the rules' own schedule.

    A plan names each choice at most once, in a fixed order, so that equal plans are equal texts.
    """

    def __init__(self, program: Program, target: Target, threads: int = 1) -> None:
        self.program = program
        self.threads = threads
        self._rules = {s.name: StageRules(s, target, {}) for s in program.stages}
        self._schedules: dict[tuple[str, ...], Schedule | None] = {}

    @property
    def start(self) -> Plan:
        """No change."""
        return Plan()

    @cached_property
    def all_actions(self) -> tuple[str, ...]:
        """Every choice that differs from the rules', sorted."""
        found = []
        for name, rules in self._rules.items():
            chosen = rules.choices()
            for key, values in rules.domain().items():
                found += [f"{name} {key}={v}" for v in values if v != chosen[key]]
        return tuple(sorted(found))

    def actions(self, plan: Plan) -> Sequence[str]:
        """All of them: any may stand somewhere."""
        return self.all_actions

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether they are sorted, no choice is made twice, and the schedule can be applied."""
        keys = [action.split("=")[0] for action in actions]
        if list(actions) != sorted(actions) or len(set(keys)) != len(keys):
            return False
        chosen = self._given(actions)
        if not all(rules.fits(chosen[name]) for name, rules in self._rules.items()):
            return False
        return self.schedule(tuple(actions)) is not None

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        """The schedule of a plan; None where a step may not be taken."""
        if actions not in self._schedules:
            try:
                self._schedules[actions] = self._make(actions)
            except UsageError:
                self._schedules[actions] = None
        return self._schedules[actions]

    def _make(self, actions: Sequence[str]) -> Schedule:
        return assemble(self.program, self._rules, self._given(actions), self.threads)[0]

    def _given(self, actions: Sequence[str]) -> dict[str, dict[str, int]]:
        """The choices by stage."""
        given: dict[str, dict[str, int]] = {name: {} for name in self._rules}
        for action in actions:
            stage, _, choice = action.partition(" ")
            key, _, value = choice.partition("=")
            given[stage][key] = int(value)
        return given


def describe(plan: Plan) -> str:
    """A plan as one line, for the store."""
    return "; ".join(plan.actions) or "the rules"
