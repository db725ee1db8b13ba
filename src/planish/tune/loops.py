"""Kernel tuning: a search over schedules, measured in worker processes, never worse than the rules.

The rules' schedule is the baseline. At the end the best one is measured against it again, in
turn, and kept only where it is faster beyond the noise.
"""

from __future__ import annotations

import contextlib
import pickle
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planish.base.errors import PlanishError, UsageError, unknown
from planish.base.hashing import digest
from planish.base.progress import Progress, Silent, Step
from planish.base.records import Budget, Failure, Measurement, Outcome
from planish.measure.machine import processor
from planish.measure.timer import ratio_interval
from planish.proc.pool import Call, Pool, Reply
from planish.search.genetic import GeneticPolicy
from planish.search.greedy import GreedyPolicy
from planish.search.loop import run
from planish.search.protocol import Best, Plan, Policy
from planish.search.random import RandomPolicy
from planish.store.lockfile import LockEntry
from planish.store.store import Key, Store
from planish.tensor.expr import Expr, Tensor
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule
from planish.tune.kernel_worker import HANDLER, Ran, Run
from planish.tune.loop_space import LoopSpace, describe
from planish.tune.stage_shape import Target
from planish.tune.tensors import as_tensors, vector_of

POLICIES = ("genetic", "greedy", "random")
_SECONDS_PER_CALL = 60.0
_MEMORY = 8 << 30
_MEASURE = 0.01
_CONFIRM = 0.4


@dataclass(frozen=True)
class TunedLedger:
    """What a tuning cost.

    measured  schedules compiled and timed; `cached` were known from the store
    failures  kind to count
    curve     best seconds after each candidate, the rules' first
    """

    measured: int
    cached: int
    seconds: float
    failures: dict[str, int]
    policy: str
    seed: int
    curve: tuple[float, ...]


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    schedule     the kept one; the rules' own where nothing beat it beyond the noise
    baseline     seconds of a call under the rules' schedule, from the final comparison
    best         seconds under the kept one
    ratio        best over baseline with its 95 % interval
    changes      the choices that differ from the rules'
    """

    program: Program
    schedule: Schedule
    baseline: float
    best: float
    ratio: tuple[float, float, float]
    changes: tuple[str, ...]
    ledger: TunedLedger
    target: str = "native"

    def entry(self, source: str) -> LockEntry:
        """For `planish.lock`: nanoseconds of a call, before and after."""
        return LockEntry(
            source, digest(str(self.program)), "time", processor().fingerprint, str(self.schedule),
            round(self.baseline * 1e9), round(self.best * 1e9), "ns", f"planish {self.target}",
            "tested on 1 inputs",
        )  # fmt: skip

    def __str__(self) -> str:
        low, middle, high = self.ratio
        return (
            f"{self.baseline * 1e6:.1f} us -> {self.best * 1e6:.1f} us "
            f"({1 / middle:.2f} times as fast, {1 / high:.2f} to {1 / low:.2f}), "
            f"{self.ledger.measured} schedules, {self.ledger.seconds:.1f} s"
        )


@dataclass
class _Search:
    """A search under way."""

    failures: Counter[str] = field(default_factory=Counter)
    curve: list[float] = field(default_factory=list)
    measured: int = 0
    cached: int = 0


def tune_kernel(
    outputs: Tensor | Expr | Sequence[Tensor],
    *,
    budget: Budget | int | str = "2s",
    policy: str = "genetic",
    seed: int = 0,
    target: str = "native",
    cold: bool = False,
    store: bool = True,
    progress: Progress | None = None,
) -> Tuned:
    """Search for the fastest schedule of a tensor program on this machine.

    budget  schedules measured and/or seconds: 200, "2s", "200,10s"
    policy  genetic, greedy or random
    cold    measure with flushed caches
    store   keep measurements, so that a repeated or killed search goes on where it was
    Raises UsageError, and PlanishError where this machine runs no kernels.
    """
    if policy not in POLICIES:
        raise unknown("policy", policy, POLICIES)
    vector = vector_of(target)
    if vector < 32:
        raise PlanishError("kernels are tuned on x86 machines with AVX2 or AVX-512 only")
    started = time.monotonic()
    program = lower(as_tensors(outputs))
    space = LoopSpace(program, Target.of(processor(), vector))
    limits = budget if isinstance(budget, Budget) else Budget.parse(str(budget))
    with contextlib.ExitStack() as held:
        opened = held.enter_context(Store.open_default()) if store else None
        pool = held.enter_context(
            Pool(HANDLER, None, jobs=1, seconds=_SECONDS_PER_CALL, memory=_MEMORY)
        )
        evaluator = _Evaluator(pool, space, vector, cold, opened)
        [baseline] = evaluator([space.start])
        if not baseline.ok:
            raise UsageError(f"the kernel cannot be measured: {baseline.reason}")
        best = _run(space, evaluator, limits, policy, seed, baseline, progress or Silent())
        found = _confirm(evaluator, space, best, random.Random(seed))
    search = evaluator.search
    ledger = TunedLedger(
        search.measured, search.cached, time.monotonic() - started, dict(search.failures), policy,
        seed, tuple(search.curve),
    )  # fmt: skip
    schedule, before, after, ratio, changes = found
    return Tuned(program, schedule, before, after, ratio, changes, ledger, target)


def _run(
    space: LoopSpace,
    evaluator: _Evaluator,
    limits: Budget,
    policy: str,
    seed: int,
    baseline: Outcome,
    progress: Progress,
) -> Best:
    makers: dict[str, Callable[[LoopSpace, int], Policy]] = {
        "genetic": GeneticPolicy, "greedy": GreedyPolicy, "random": RandomPolicy,
    }  # fmt: skip
    chosen = makers[policy](space, seed)
    best = Best(space.start)
    search = evaluator.search
    search.curve.append(baseline.value)

    def watch(plan: Plan, outcome: Outcome, so_far: Best) -> None:
        if outcome.failure is not None:
            search.failures[outcome.failure.value] += 1
        search.curve.append(so_far.value)
        progress.step(
            Step(
                "kernel", policy, len(search.curve) - 1, limits.builds, so_far.value * 1e6,
                baseline.value * 1e6, "us",
            )
        )  # fmt: skip

    with contextlib.suppress(KeyboardInterrupt):  # the best so far is confirmed and kept
        run(space, chosen, evaluator, limits, baseline=baseline, watch=watch, best=best)
    return best


class _Evaluator:
    """Plans to outcomes, one at a time: what is measured shares its core with nothing."""

    def __init__(
        self, pool: Pool, space: LoopSpace, vector: int, cold: bool, store: Store | None
    ) -> None:
        self._pool = pool
        self._space = space
        self._vector = vector
        self._cold = cold
        self._store = store
        data = pickle.dumps(space.program)
        self._blob = digest(data)
        pool.keep(self._blob, data)
        self._key = Key(
            digest(str(space.program)), f"vectors of {vector} bytes{' cold' if cold else ''}",
            "time", f"planish {platform.python_implementation()}", processor().fingerprint,
        )  # fmt: skip
        self._known = store.outcomes(self._key) if store is not None else {}
        self.search = _Search()

    def __call__(self, plans: Sequence[Plan]) -> Sequence[Outcome]:
        return [self._one(plan) for plan in plans]

    def _one(self, plan: Plan) -> Outcome:
        schedule = self._space.schedule(plan.actions)
        if schedule is None:
            return Outcome(describe(plan), None, Failure.INVALID, "a step may not be taken")
        text = str(schedule)
        known = self._known.get(text)
        if known is not None:
            self.search.cached += 1
            return known
        self.search.measured += 1
        reply = self.measure((text,), _MEASURE)
        outcome = self._outcome(text, reply)
        self._known[text] = outcome
        if self._store is not None:
            self._store.put(self._key, outcome)
        return outcome

    def measure(self, texts: tuple[str, ...], seconds: float) -> Reply:
        """Time schedules in a worker, in turn."""
        reference = str(self._space.schedule(()))
        request = Run(self._blob, reference, texts, self._vector, seconds, self._cold)
        [reply] = self._pool.run([Call((), request, (self._blob,))])
        return reply

    def _outcome(self, text: str, reply: Reply) -> Outcome:
        if reply.failure is not None:
            return Outcome(text, None, reply.failure, reply.reason)
        ran: Ran = reply.value
        times = ran.times[0]
        middle = statistics.median(times)
        measured = Measurement(middle, "s", {}, times[:50], processor().fingerprint)
        return Outcome(text, measured, identity=digest(text))


def _confirm(
    evaluator: _Evaluator, space: LoopSpace, best: Best, draw: random.Random
) -> tuple[Schedule, float, float, tuple[float, float, float], tuple[str, ...]]:
    """The rules' schedule and the best one again, in turn: the winner must win beyond the noise."""
    rules = space.schedule(())
    assert rules is not None
    chosen = space.schedule(best.plan.actions) or rules
    if chosen == rules:
        return rules, best.value, best.value, (1.0, 1.0, 1.0), ()
    reply = evaluator.measure((str(rules), str(chosen)), _CONFIRM)
    if reply.failure is not None:
        return rules, best.value, best.value, (1.0, 1.0, 1.0), ()
    before, after = reply.value.times
    low, high = ratio_interval(after, before, draw)
    old, new = statistics.median(before), statistics.median(after)
    if high >= 1.0:
        return rules, old, old, (1.0, 1.0, 1.0), ()
    return chosen, old, new, (low, new / old, high), best.plan.actions
