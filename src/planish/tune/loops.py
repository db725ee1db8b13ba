"""Kernel tuning: a search over schedules, measured in worker processes, never worse than the rules.

The rules' schedule is the baseline. At the end the best ones are measured against it again, in
turn, and one is kept only where it is faster beyond the noise, twice (`final_check`).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from planish.base.errors import PlanishError, UsageError, unknown
from planish.base.hashing import digest
from planish.base.progress import Progress, Silent, Step
from planish.base.records import Budget, Outcome
from planish.codegen.units import has_dot4
from planish.measure.machine import processor
from planish.measure.quiet import Conditions, conditions, unsteadiness
from planish.search.loop import run
from planish.search.protocol import Best, Plan
from planish.store.lockfile import LockEntry
from planish.store.store import Store
from planish.tensor.expr import Expr, Tensor
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule
from planish.tune.final_check import confirmed
from planish.tune.fusing import fused_words
from planish.tune.kernel_evaluator import Floor, KernelEvaluator
from planish.tune.kernel_offline import best_stored
from planish.tune.kernel_policies import DEFAULT, POLICIES, make_policy
from planish.tune.schedule_space import AllSchedules
from planish.tune.stage_shape import Target
from planish.tune.tensors import as_tensors, vector_of
from planish.tune.workers import kernel_pool

_SECONDS_PER_CALL = 60.0
LOADED = ("flag", "refuse")


@dataclass(frozen=True)
class TunedLedger:
    """What a tuning cost.

    measured  schedules compiled and timed; `cached` were known from the store
    seconds   of everything: workers started, baseline, search (the budget's part), final check
    failures  kind to count
    curve     best seconds after each candidate, the rules' first
    times     seconds of the search when each of them was known
    steps     seconds of the search and text of each schedule that was the best so far
    warnings  what the machine was unfit in while it was measured on
    """

    measured: int
    cached: int
    seconds: float
    failures: dict[str, int]
    policy: str
    seed: int
    curve: tuple[float, ...]
    times: tuple[float, ...] = ()
    steps: tuple[tuple[float, str], ...] = ()
    warnings: tuple[str, ...] = ()


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

    @property
    def fused(self) -> list[str]:
        """What the kept schedule computes together, in words."""
        return fused_words(self.schedule)

    def __str__(self) -> str:
        low, middle, high = self.ratio
        return (
            f"{self.baseline * 1e6:.1f} us -> {self.best * 1e6:.1f} us "
            f"({1 / middle:.2f} times as fast, {1 / high:.2f} to {1 / low:.2f}), "
            f"{self.ledger.measured} schedules, {self.ledger.seconds:.1f} s"
        )


@dataclass
class _Curve:
    """The best so far, after each candidate, and the schedules that were it; each plan's value."""

    values: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)
    plans: dict[Plan, float] = field(default_factory=dict)


def tune_kernel(
    outputs: Tensor | Expr | Sequence[Tensor],
    *,
    budget: Budget | int | str = "2s",
    policy: str = DEFAULT,
    seed: int = 0,
    target: str = "native",
    cold: bool = False,
    store: bool = True,
    loaded: str = "flag",
    offline: bool = False,
    machine: str = "",
    workers: str = "",
    progress: Progress | None = None,
) -> Tuned:
    """Search for the fastest schedule of a tensor program on this machine.

    budget  schedules measured and/or seconds: 200, "2s", "200,10s"
    policy  one of `planish.tune.kernel_policies.POLICIES`
    cold    measure with flushed caches
    store   keep measurements, so that a repeated or killed search goes on where it was
    loaded  what to do where others keep the machine busy: `flag` it in the ledger, or `refuse`
    offline measure nothing: the best schedule that the store has a measurement of
    machine with `offline`, use the records of the machine of this fingerprint, not of this one
    workers a Ray cluster whose machines like this one compile and measure: see `Cluster`
    Raises UsageError, and PlanishError where this machine runs no kernels or is too busy.
    """
    if policy not in POLICIES:
        raise unknown("policy", policy, POLICIES)
    if loaded not in LOADED:
        raise unknown("way to treat a loaded machine", loaded, LOADED)
    vector = tunable_vector(target)
    limits = budget if isinstance(budget, Budget) else Budget.parse(str(budget))
    if offline:
        return _offline(outputs, target, vector, cold=cold, machine=machine, policy=policy)
    if machine:
        raise UsageError(
            "records of another machine are used offline only", hint="add offline (--offline)"
        )
    state = conditions()
    if state.loaded and loaded == "refuse":
        raise PlanishError(
            f"this machine is too busy to measure on: {state.warnings[0]}",
            hint="wait until it is quiet, or let it be flagged only (loaded='flag')",
        )
    started = time.monotonic()
    program = lower(as_tensors(outputs))
    space = AllSchedules(program, Target.of(processor(), vector))
    with contextlib.ExitStack() as held:
        opened = held.enter_context(Store.open_default()) if store else None
        pool = held.enter_context(kernel_pool(_SECONDS_PER_CALL, workers))
        floor = Floor(program, vector, target == "native" and has_dot4(vector))
        evaluator = KernelEvaluator(
            pool, space, vector, cold=cold, store=opened, seed=seed, floor=floor
        )
        baseline = evaluator.baseline()
        if not baseline.ok:
            raise UsageError(f"the kernel cannot be measured: {baseline.reason}")
        curve = _Curve([baseline.value], [0.0])
        _run(space, evaluator, limits, policy, seed, baseline, progress or Silent(), curve)
        draw = random.Random(seed)
        kept = confirmed(evaluator, space, curve.plans, baseline.value, draw)
        notes = pool.notes
    counts = evaluator.counts
    state = Conditions(state.others, state.processors, unsteadiness(counts.clock))
    ledger = TunedLedger(
        counts.measured, counts.cached, time.monotonic() - started, dict(counts.failures), policy,
        seed, tuple(curve.values), tuple(curve.times), tuple(curve.steps),
        (*state.warnings, *notes),
    )  # fmt: skip
    return Tuned(
        program, kept.schedule, kept.baseline, kept.best, kept.ratio, kept.plan.actions, ledger,
        target,
    )  # fmt: skip


def _offline(
    outputs: Tensor | Expr | Sequence[Tensor], target: str, vector: int, *, cold: bool,
    machine: str, policy: str,
) -> Tuned:  # fmt: skip
    started = time.monotonic()
    program = lower(as_tensors(outputs))
    rules = Target.of(processor(), vector)
    with Store.open_default() as store:
        found = best_stored(program, rules, cold=cold, machine=machine, store=store)
    whose = f"of machine {machine}" if machine else "of this machine"
    ledger = TunedLedger(
        0, found.records, time.monotonic() - started, {}, f"offline, records {whose}", 0,
        (found.baseline, found.best),
    )  # fmt: skip
    return Tuned(
        program, found.schedule, found.baseline, found.best, found.ratio, (), ledger, target
    )


def tunable_vector(target: str) -> int:
    """Vector bytes of the target; raises PlanishError where kernels are not tuned for it."""
    vector = vector_of(target)
    if vector < 32:
        raise PlanishError("kernels are tuned on x86 machines with AVX2 or AVX-512 only")
    return vector


def _run(
    space: AllSchedules,
    evaluator: KernelEvaluator,
    limits: Budget,
    policy: str,
    seed: int,
    baseline: Outcome,
    progress: Progress,
    curve: _Curve,
) -> None:
    started = time.monotonic()
    chosen = make_policy(policy, space, seed)

    def watch(plan: Plan, outcome: Outcome, so_far: Best) -> None:
        if so_far.value < curve.values[-1]:
            text = str(space.schedule(so_far.plan.actions))
            curve.steps.append((time.monotonic() - started, text))
        if outcome.ok:
            curve.plans[plan] = outcome.value
        curve.values.append(so_far.value)
        curve.times.append(time.monotonic() - started)
        progress.step(
            Step(
                "kernel", policy, len(curve.values) - 1, limits.builds, so_far.value * 1e6,
                baseline.value * 1e6, "us",
            )
        )  # fmt: skip

    with contextlib.suppress(KeyboardInterrupt):  # the best so far is confirmed and kept
        run(space, chosen, evaluator, limits, baseline=baseline, watch=watch)
