"""Run a program with the energy meters sampled beside it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planish.base.errors import UsageError
from planish.base.files import read_bytes, write_atomic
from planish.measure.energy import Energy, Sampler, Series, clocks, energy
from planish.measure.meters import Meters, find_meters

_VERSION = 1


@dataclass(frozen=True)
class Profile:
    """start and end in nanoseconds since the epoch; `energy` of each series in between.

    cpu     seconds of processor time that the program and its children used
    memory  bytes, the most that one of these processes held
    """

    command: tuple[str, ...]
    code: int
    start: int
    end: int
    period: float
    series: tuple[Series, ...]
    energy: tuple[Energy, ...]
    missing: tuple[str, ...]
    cpu: float = 0.0
    memory: int = 0

    @property
    def utilisation(self) -> float:
        """Processors that were busy with the program, on average."""
        return self.cpu / self.seconds if self.end > self.start else 0.0

    @property
    def seconds(self) -> float:
        """How long the program ran."""
        return (self.end - self.start) * 1e-9

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the samples."""
        meters = [
            {
                "name": series.name, "joules": spent.joules, "watts": spent.watts,
                "covered": spent.covered, "samples": len(series.times), "failed": series.failed,
                "flags": series.flags, "utilisation": series.utilisation,
                "clock": asdict(clock) if (clock := clocks(series)) else None,
            }
            for series, spent in zip(self.series, self.energy, strict=True)
        ]  # fmt: skip
        return {
            "command": list(self.command), "code": self.code, "seconds": self.seconds,
            "cpu": self.cpu, "utilisation": self.utilisation, "memory": self.memory,
            "meters": meters, "missing": list(self.missing),
        }  # fmt: skip


def profile(words: Sequence[str], period: float, meters: Meters | None = None) -> Profile:
    """Run the program to its end; raises UsageError where it cannot be started.

    An interrupt goes to the program too, which decides; its end is waited for.
    """
    found = meters or find_meters()
    before = _used()[0]
    with Sampler(found.sources, period) as sampler:
        start = time.time_ns()
        try:
            program = subprocess.Popen(list(words))
        except OSError as error:
            raise UsageError(
                f"cannot start {words[0]}: {error.strerror or error}", hint="check the name"
            ) from error
        code = _wait(program)
        end = time.time_ns()
    spent = tuple(energy(series, start, end, period) for series in sampler.series)
    cpu, memory = _used()
    return Profile(
        tuple(words), code, start, end, period, tuple(sampler.series), spent, found.missing,
        cpu - before, memory,
    )  # fmt: skip


def _used() -> tuple[float, int]:
    """Processor seconds of all children that have ended, and the most bytes one of them held."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_utime + used.ru_stime, used.ru_maxrss * unit


def _wait(program: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            code = program.wait()
        except KeyboardInterrupt:
            continue
        return 128 + (-code) if code < 0 else code


def write_samples(found: Profile, path: Path) -> None:
    """The samples as JSON; `read_samples` reads them back."""
    rows = [asdict(series) for series in found.series]
    head = {"version": _VERSION, "period": found.period, "start": found.start, "end": found.end}
    write_atomic(path, json.dumps({**head, "series": rows}))


def read_samples(path: Path) -> tuple[float, list[Series]]:
    """The period and the series of a file that `planish profile -o` wrote."""
    try:
        found = json.loads(read_bytes(path))
        if found["version"] != _VERSION:
            raise UsageError(f"{path} has version {found['version']}, not {_VERSION}")
        return float(found["period"]), [Series(**row) for row in found["series"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} holds no energy samples",
            hint="write them with: planish profile -o FILE -- ...",
        ) from error
