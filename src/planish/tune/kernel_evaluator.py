"""From plans to outcomes: compiled side by side, then measured one at a time, each in turn with
the rules' schedule.

A value is the baseline's seconds times the ratio of the two, round by round: a clock or a load
that changes between two candidates, or between two runs of a search, changes no ranking.
"""

from __future__ import annotations

import pickle
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planish.base.hashing import digest
from planish.base.records import Failure, Measurement, Outcome
from planish.measure.machine import processor
from planish.measure.timer import ratio_interval
from planish.proc.pool import Call, Pool, Reply
from planish.search.protocol import Plan
from planish.store.store import Key, Store
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.kernel_requests import Build, Measure, Measured
from planish.tune.loop_space import describe

_MEASURE = 0.01
# A candidate that is surely this much slower than the best so far is timed no longer.
_HOPELESS = 1.15
_PRECISE = 0.004
_SAMPLES = 50


def kernel_key(program: Program, vector: int, cold: bool, machine: str = "") -> Key:
    """Under which outcomes are kept; of this machine where no other is named."""
    return Key(
        digest(str(program)), f"kernels of {vector}-byte vectors{' cold' if cold else ''}", "time",
        f"planish {platform.python_implementation()}", machine or processor().fingerprint,
    )  # fmt: skip


@dataclass
class Counts:
    """What a search has spent so far; `clock` holds the probes of every measurement."""

    measured: int = 0
    cached: int = 0
    compiled: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    clock: list[float] = field(default_factory=list)


class ScheduleSpace(Protocol):
    """A space whose plans are schedules of one program."""

    @property
    def program(self) -> Program: ...

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        """The schedule of a plan; None where it may not be taken."""


class KernelEvaluator:
    """Evaluates plans of a space of schedules; each batch is measured in a fresh process.

    floor     what refuses times that no kernel of the program can have
    rules     the schedule that all are measured in turn with; by default the space's start
    thorough  time what is hopelessly slow as long as the rest: its value is wanted, too
    """

    def __init__(
        self, pool: Pool, space: ScheduleSpace, vector: int, *, cold: bool = False,
        store: Store | None = None, seed: int = 0, floor: Floor | None = None,
        thorough: bool = False, rules: Schedule | None = None,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._space = space
        self._vector = vector
        self._cold = cold
        self._store = store
        self._floor = floor
        self._thorough = thorough
        self._draw = random.Random(seed)
        data = pickle.dumps(space.program)
        self._blob = digest(data)
        pool.keep(self._blob, data)
        self._key = kernel_key(space.program, vector, cold)
        self.known = store.outcomes(self._key) if store is not None else {}
        self._batch = 0
        self._image = b""
        self._rules = str(space.schedule(()) if rules is None else rules)
        self._best = float("inf")
        self._base = float("nan")
        self.counts = Counts()

    def baseline(self) -> Outcome:
        """The rules' schedule, compiled here and measured unless it is known."""
        [image] = self._build([self._rules])
        if isinstance(image, Outcome):
            return image
        self._image = image
        outcome = self.known.get(self._rules)
        if outcome is None or not outcome.ok:
            started = time.monotonic()
            [reply] = self._measure([image], _MEASURE)
            # What the first call took says what is too long for others.
            self._pool.seconds = 5 + 20 * (time.monotonic() - started)
            self._retire()
            self._base = 1.0
            if reply.failure is None:
                self._base = statistics.median(reply.value.baseline)
                if self._floor is not None:
                    self._floor.trust(min(reply.value.baseline))
            outcome = self._outcome(self._rules, reply)
            self._keep(outcome)
        self._base = self._best = outcome.value
        return outcome

    def __call__(self, plans: Sequence[Plan]) -> Sequence[Outcome]:
        """Outcomes in the order of the plans."""
        texts = [self._text(plan) for plan in plans]
        found = {t: self.known[t] for t in texts if t is not None and t in self.known}
        self.counts.cached += sum(1 for t in texts if t in found)
        fresh = [t for t in dict.fromkeys(texts) if t is not None and t not in found]
        for text, outcome in zip(fresh, self._outcomes(fresh), strict=True):
            self.counts.measured += 1
            self._best = min(self._best, outcome.value)
            self._keep(outcome)
            found[text] = outcome
        if fresh:
            self._retire()
        invalid = [Outcome(describe(p), None, Failure.INVALID, "a step may not be taken")
                   for p in plans]  # fmt: skip
        outcomes = [bad if t is None else found[t] for t, bad in zip(texts, invalid, strict=True)]
        self.counts.failures.update(o.failure.value for o in outcomes if o.failure is not None)
        return outcomes

    def measure_text(self, text: str) -> Outcome:
        """One schedule, measured now, whatever is on record."""
        [outcome] = self._outcomes([text])
        self._retire()
        return outcome

    def confirm(self, text: str, seconds: float) -> Measured | None:
        """A schedule and the rules' one again, for longer; None where that fails."""
        [image] = self._build([text])
        if isinstance(image, Outcome):
            return None
        [reply] = self._measure([image], seconds, final=True)
        self._retire()
        return None if reply.failure is not None else reply.value

    def _text(self, plan: Plan) -> str | None:
        schedule = self._space.schedule(plan.actions)
        return None if schedule is None else str(schedule)

    def _outcomes(self, texts: Sequence[str]) -> list[Outcome]:
        """All compiled, then measured: each alone on its machine."""
        built = self._build(texts)
        replies = iter(self._measure([b for b in built if isinstance(b, bytes)], _MEASURE))
        return [
            b if isinstance(b, Outcome) else self._outcome(text, next(replies))
            for text, b in zip(texts, built, strict=True)
        ]

    def _build(self, texts: Sequence[str]) -> list[bytes | Outcome]:
        started = time.monotonic()
        replies = self._pool.run(
            [Call("build", Build(self._blob, text, self._vector), (self._blob,)) for text in texts]
        )
        self.counts.compiled += time.monotonic() - started
        return [
            Outcome(text, None, r.failure, r.reason) if r.failure is not None else r.value
            for text, r in zip(texts, replies, strict=True)
        ]

    def _measure(
        self, images: Sequence[bytes], seconds: float, *, final: bool = False
    ) -> list[Reply]:
        enough = float("inf") if final or self._thorough else _HOPELESS * self._best / self._base
        requests = [
            Measure(
                self._blob, self._image, image, seconds, self._draw.randrange(1 << 30), self._cold,
                enough if enough == enough else float("inf"), 0.0 if final else _PRECISE,
            )
            for image in images
        ]  # fmt: skip
        flavour = ("measure", self._batch)
        replies = self._pool.alone([Call(flavour, r, (self._blob,)) for r in requests])
        return [
            Reply(None, Failure.REJECTED, r.reason) if r.failure is Failure.INVALID else r
            for r in replies
        ]

    def _retire(self) -> None:
        """The next batch gets a process that no candidate has touched."""
        self._pool.retire(("measure", self._batch))
        self._batch += 1

    def _outcome(self, text: str, reply: Reply) -> Outcome:
        if reply.failure is not None:
            return Outcome(text, None, reply.failure, reply.reason)
        taken: Measured = reply.value
        self.counts.clock += taken.clock
        if self._floor is not None:
            reason = self._floor.refuses(min(taken.candidate))
            if reason:
                return Outcome(text, None, Failure.REJECTED, reason)
        ratios = [a / b for a, b in zip(taken.candidate, taken.baseline, strict=True)]
        samples = tuple(self._base * ratio for ratio in ratios[:_SAMPLES])
        value = self._base * statistics.median(ratios)
        measured = Measurement(value, "s", {}, samples, processor().fingerprint)
        return Outcome(text, measured, identity=digest(text))

    def _keep(self, outcome: Outcome) -> None:
        self.known[outcome.recipe] = outcome
        # What ran out of time or memory may do better on a quieter machine.
        passing = outcome.failure in (Failure.TIMEOUT, Failure.MEMORY)
        if self._store is not None and not passing:
            self._store.put(self._key, outcome)


class Floor:
    """The seconds that no kernel of a program can be below, from the roofline."""

    def __init__(self, program: Program, vector: int, dot4: bool) -> None:
        self._program = program
        self._vector = vector
        self._dot4 = dot4
        self._seconds = 0.0

    def refuses(self, seconds: float) -> str:
        """Why so short a time cannot be true; nothing where it can."""
        from planish.tune.roofline import peak_flops

        if seconds >= self._least():
            return ""
        # The peak may have been taken while the machine was busy: once more, before it is held
        # against a kernel.
        peak_flops(self._vector, peak_flops(self._vector) * (1 + 1e-9))
        self._seconds = 0.0
        if seconds >= self._least():
            return ""
        return (
            f"{seconds * 1e6:.2f} us is less than the {self._seconds * 1e6:.2f} us that this "
            f"machine needs at least"
        )

    def trust(self, seconds: float) -> None:
        """What the rules' schedule took is possible: a peak below it was taken in a bad moment."""
        from planish.tune.roofline import peak_flops

        while seconds < (least := self._least()):
            known = peak_flops(self._vector)
            peak_flops(self._vector, known * least / seconds * 1.01)
            self._seconds = 0.0

    def _least(self) -> float:
        from planish.tune.roofline import least_seconds, peak_flops, relative_rate

        if not self._seconds:
            relative = relative_rate(self._program, self._dot4)
            self._seconds = least_seconds(self._program, peak_flops(self._vector), relative)
        return self._seconds


def interval(taken: Measured, draw: random.Random) -> tuple[float, float, float]:
    """The ratio of medians, candidate over baseline, between the ends of its 95 % interval."""
    low, high = ratio_interval(taken.candidate, taken.baseline, draw)
    middle = statistics.median(taken.candidate) / statistics.median(taken.baseline)
    return low, middle, high
