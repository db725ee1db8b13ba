"""Partwise search: each part of the task keeps the choice that suits it best.

One build tries a choice on all parts at once and reads from the measurement which parts gained,
so that choosing for a hundred parts costs as many builds as choosing for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planish.base.records import Outcome
from planish.search.protocol import Best, Plan


class PartsPolicy:
    """Tries `choices` everywhere on the best plan so far, then the combination of each part's best.

    rounds  how often; a later round extends what the parts already chose
    join    how a part's choice is extended by another
    """

    def __init__(
        self, start: Plan, choices: Sequence[str], *, rounds: int = 1, join: str = ","
    ) -> None:
        self._best = Best(start)
        self._choices = tuple(choices)
        self._rounds = rounds
        self._join = join
        self._base: Best | None = None
        self._waiting: list[Plan] = []
        self._pending: set[Plan] = set()
        self._gains: dict[str, tuple[float, str]] = {}
        self._combined = True

    def suggest(self, count: int) -> Sequence[Plan]:
        if not self._waiting and not self._pending:
            self._next()
        plans, self._waiting = self._waiting[:count], self._waiting[count:]
        self._pending.update(plans)
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._pending.discard(plan)
        base = self._base
        if plan.everywhere and base is not None and _is_probe_of(plan, base.plan):
            self._learn(plan.everywhere, outcome)
        self._best.see(plan, outcome)

    def _next(self) -> None:
        if not self._combined:
            self._combined = True
            combination = self._combination()
            if combination is not None:
                self._waiting = [combination]
            return
        if self._rounds == 0 or self._best.outcome is None:
            return
        if self._base is not None and self._base.plan == self._best.plan:
            return  # the last round gained nothing
        self._rounds -= 1
        self._combined = False
        self._base = Best(self._best.plan, self._best.outcome)
        self._gains = {}
        self._waiting = [replace(self._best.plan, everywhere=c) for c in self._choices]

    def _learn(self, choice: str, outcome: Outcome) -> None:
        before = _parts(self._base.outcome if self._base else None)
        for part, size in _parts(outcome).items():
            gain = before.get(part, size) - size
            if gain > self._gains.get(part, (0.0, ""))[0]:
                self._gains[part] = (gain, choice)

    def _combination(self) -> Plan | None:
        if self._base is None or not self._gains:
            return None
        chosen = dict(self._base.plan.parts)
        for part, (_, choice) in self._gains.items():
            chosen[part] = self._join.join(text for text in (chosen.get(part), choice) if text)
        return replace(self._base.plan, parts=tuple(sorted(chosen.items())))


def _parts(outcome: Outcome | None) -> dict[str, float]:
    if outcome is None or not outcome.ok or outcome.measurement is None:
        return {}
    return dict(outcome.measurement.parts)


def _is_probe_of(plan: Plan, base: Plan) -> bool:
    return replace(plan, everywhere="") == base
