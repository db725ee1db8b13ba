"""Builds and measures pass recipes: many at once, each result looked up in the store first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planish.base.records import Measurement, Outcome
from planish.llvm.requests import Build, Built, Job
from planish.proc.pool import Call, Pool, Reply
from planish.search.protocol import Plan
from planish.store.store import Key, Store
from planish.tune.pass_space import describe, to_recipe


@dataclass
class Counts:
    """What the evaluations cost."""

    builds: int = 0
    cached: int = 0
    duplicates: int = 0


class PassEvaluator:
    """Turns plans into outcomes, in their order.

    goal  `size` (allocated bytes) or `instructions` (IR instructions)
    """

    def __init__(
        self, pool: Pool, job: Job, key: Key, store: Store | None, goal: str = "size"
    ) -> None:
        self._pool = pool
        self._job = job
        self._key = key
        self._store = store
        self._goal = goal
        self._measured: dict[str, Measurement] = {}
        self._known: dict[str, Outcome] = store.outcomes(key) if store is not None else {}
        self.counts = Counts()

    @property
    def known(self) -> Mapping[str, Outcome]:
        """Every outcome so far, the store's included, by the text of its plan."""
        return self._known

    def __call__(self, plans: Sequence[Plan]) -> Sequence[Outcome]:
        names = [describe(plan) for plan in plans]
        fresh = [at for at, name in enumerate(names) if name not in self._known]
        calls = [self._call(plans[at]) for at in fresh]
        replies = dict(zip(fresh, self._pool.run(calls), strict=True))
        outcomes = []
        for at, name in enumerate(names):
            if at in replies:
                outcome = self._outcome(name, replies[at])
                self._known[name] = outcome
                outcomes.append(outcome)
            else:
                self.counts.cached += 1
                outcomes.append(replace(self._known[name], cached=True))
            self._remember(outcomes[-1])
        if self._store is not None and fresh:
            self._store.put_many(self._key, [outcomes[at] for at in fresh])
        return outcomes

    def _call(self, plan: Plan) -> Call:
        recipe = to_recipe(plan)
        build = Build(
            self._job,
            recipe,
            everywhere=plan.everywhere,
            emit=self._goal == "size",
            known=frozenset(self._measured),
        )
        return Call(recipe.options, build, (self._job.blob,))

    def _outcome(self, name: str, reply: Reply) -> Outcome:
        self.counts.builds += 1
        if reply.failure is not None:
            return Outcome(name, failure=reply.failure, reason=reply.reason)
        built: Built = reply.value
        known = self._measured.get(built.identity)
        if known is not None:
            self.counts.duplicates += 1
            return Outcome(name, known, identity=built.identity)
        if self._goal == "instructions":
            measurement = Measurement(built.instructions, "instructions", parts=built.counts)
        else:
            beside = {"instructions": built.instructions}
            measurement = Measurement(built.size, "bytes", parts=built.functions, beside=beside)
        return Outcome(name, measurement, identity=built.identity)

    def _remember(self, outcome: Outcome) -> None:
        if outcome.ok and outcome.measurement is not None and outcome.identity:
            self._measured.setdefault(outcome.identity, outcome.measurement)
