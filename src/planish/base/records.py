"""The records that every layer speaks of: budget, measurement, outcome, verdict, ledger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from planish.base.errors import UsageError


class Failure(StrEnum):
    """Why a candidate has no measurement, or is not kept although it has one."""

    CRASH = "crash"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    INVALID = "invalid"
    REJECTED = "rejected"
    WORSE = "worse"


class Grade(StrEnum):
    """How far a result has been checked that it computes the same."""

    PROVED = "proved"
    PROVED_TO_BOUND = "proved to bound"
    TESTED = "tested"
    UNKNOWN = "unknown"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Verdict:
    """A grade with its detail: the bound, the number of inputs, or the refuting input."""

    grade: Grade
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.grade.value} {self.detail}".rstrip()


@dataclass(frozen=True)
class Measurement:
    """One measured value.

    value    in `unit` (bytes, instructions, seconds); smaller is better
    parts    the value's share by part (function name to bytes), where the evaluator knows it
    beside   what else the same build showed, by unit (IR instructions beside bytes)
    samples  the single readings, where there are several
    machine  fingerprint of the machine, empty where the value does not depend on one
    """

    value: float
    unit: str
    parts: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[float, ...] = ()
    machine: str = ""
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of one recipe: a measurement, or a failure with its reason.

    identity  hash of what was built; equal identities are the same artefact
    cached    true when it came from the store and nothing was built
    """

    recipe: str
    measurement: Measurement | None = None
    failure: Failure | None = None
    reason: str = ""
    identity: str = ""
    cached: bool = False

    @property
    def ok(self) -> bool:
        return self.measurement is not None and self.failure is None

    @property
    def value(self) -> float:
        """The measured value; infinity for a failure, so that it never wins."""
        return self.measurement.value if self.ok and self.measurement else float("inf")


@dataclass(frozen=True)
class Budget:
    """At most so many builds and so many seconds; None is no limit."""

    builds: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`32` or `32b` is builds, `10s`, `5m` or `1h` is time; `100,30s` is both."""
        builds: int | None = None
        seconds: float | None = None
        for part in text.split(","):
            match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*(b|builds?|s|m|h|)\s*", part)
            if match is None:
                raise UsageError(
                    f"cannot read the budget '{text}'",
                    hint="give builds and/or time: 32, 10s, 5m, or 100,30s",
                )
            number, unit = float(match[1]), match[2]
            timed = unit in ("s", "m", "h")
            if (seconds if timed else builds) is not None:
                raise UsageError(
                    f"the budget '{text}' gives two {'times' if timed else 'numbers of builds'}",
                    hint="give one of each: 100,30s",
                )
            if timed:
                seconds = number * {"s": 1, "m": 60, "h": 3600}[unit]
            elif number != int(number):
                raise UsageError(f"cannot read the budget '{text}'", hint="builds are whole")
            else:
                builds = int(number)
        if builds == 0 or seconds == 0:
            raise UsageError("the budget is zero", hint="use --replay to build without a search")
        return cls(builds=builds, seconds=seconds)

    def __str__(self) -> str:
        parts = []
        if self.builds is not None:
            parts.append(f"{self.builds} builds")
        if self.seconds is not None:
            parts.append(f"{self.seconds:g} s")
        return ", ".join(parts) or "no limit"


@dataclass(frozen=True)
class Ledger:
    """How a result came about.

    builds      recipes built and measured (failed ones included)
    duplicates  builds that ended in a module already seen, and were not emitted again
    check_builds  builds of the final check of the winner, a bisection's among them
    cached      recipes answered by the store without a build
    seconds     wall time of the search
    failures    failure kind to count
    baseline    compiler, version and flags of the baseline
    fallbacks   what was tried and given up, in words
    checks      what was checked, in words
    curve       best value after each build, the baseline first
    """

    builds: int = 0
    duplicates: int = 0
    check_builds: int = 0
    cached: int = 0
    seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    baseline: str = ""
    policy: str = ""
    seed: int = 0
    fallbacks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    curve: tuple[float, ...] = ()

    @property
    def rejected(self) -> int:
        """Candidates that failed, of whatever kind."""
        return sum(self.failures.values())
