"""Energy: counters and power sensors, sampled beside a run and integrated.

A counter (RAPL, NVML's total energy, hwmon energy) says how much was used since some moment and
wraps; a sensor (NVML or hwmon power) says how much is used now. Both become a series of joules
over time. Time without samples is known as a gap: it is never filled in silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from planish.base.closing import Closing

Times = npt.NDArray[np.int64]
Joules = npt.NDArray[np.float64]

_GAP = 10.0  # sampling periods between two samples: more than that is a gap
_SAME_CLOCK = 0.01  # relative: drivers report a steady clock to a step or two
_SLOW_CLOCK = 0.95  # of the fastest clock seen: below that, work took notably longer


@dataclass(frozen=True)
class Reading:
    """What a source says now: joules (counter) or watts, and flags such as throttling.

    busy   the share of the time since the driver's last look in which the device worked
           (None where the source does not know it)
    clock  of the compute units in MHz (0 where the source does not know it)
    """

    value: float
    flags: tuple[str, ...] = ()
    busy: float | None = None
    clock: float = 0.0


class Source(Protocol):
    """One meter. `wraps_at` is in joules, 0 for counters that never wrap and for sensors."""

    @property
    def name(self) -> str: ...

    @property
    def is_counter(self) -> bool: ...

    @property
    def wraps_at(self) -> float: ...

    def read(self) -> Reading:
        """Raises OSError where the meter does not answer."""
        ...


@dataclass
class Series:
    """Samples of one source: times in nanoseconds since the epoch, joules or watts.

    flags   what limited the device, with the number of samples that say so
    limits  the same by sample: flags joined by "; ", "" where nothing limited it
    clocks  MHz by sample, 0 where unknown
    """

    name: str
    is_counter: bool
    wraps_at: float = 0.0
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    flags: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    busy: list[float] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)

    @property
    def utilisation(self) -> float | None:
        """Mean of the samples that say how busy the device was; None where none does."""
        return sum(self.busy) / len(self.busy) if self.busy else None


@dataclass(frozen=True)
class Clocks:
    """The clock of a device over its samples, in MHz.

    changes  how often it differed from the sample before by more than a percent
    slow     share of the samples below 95 % of the fastest
    """

    least: float
    mean: float
    most: float
    changes: int
    slow: float


@dataclass(frozen=True)
class Energy:
    """Joules in a stretch of time, and the share of it that samples cover."""

    joules: float
    seconds: float
    covered: float

    @property
    def watts(self) -> float:
        """Average power over what is covered."""
        seconds = self.seconds * self.covered
        return self.joules / seconds if seconds else 0.0


def cumulative(series: Series) -> tuple[Times, Joules]:
    """Times and joules used since the first sample; wraps of a counter are undone.

    A power sensor is integrated by trapezoids. A counter that goes backwards by less than half
    its range has been reset, not wrapped: nothing is counted for that interval.
    """
    times = np.array(series.times, np.int64)
    values = np.array(series.values, np.float64)
    if len(times) < 2:
        return times, np.zeros(len(times))
    if series.is_counter:
        steps = np.diff(values)
        back = steps < 0
        if series.wraps_at:
            wrapped = back & (-steps > series.wraps_at / 2)
            steps[wrapped] += series.wraps_at
            back &= ~wrapped
        steps[back] = 0.0
    else:
        steps = (values[1:] + values[:-1]) / 2 * np.diff(times) * 1e-9
    return times, np.concatenate((np.zeros(1), np.cumsum(steps)))


def used(series: Series, start: Times, end: Times) -> Joules:
    """Joules between each start and end, between samples by straight lines; outside nothing."""
    times, total = cumulative(series)
    if len(times) < 2:
        return np.zeros(len(start))
    made: Joules = np.interp(end, times, total) - np.interp(start, times, total)
    return made


def energy(series: Series, start: int, end: int, period: float) -> Energy:
    """Joules from `start` to `end`, and how much of that time lies between near samples.

    period  of sampling in seconds; samples farther apart than ten of it leave a gap
    """
    joules = float(used(series, np.array([start]), np.array([end]))[0])
    times = np.array(series.times, np.int64)
    near = np.diff(times) <= _GAP * period * 1e9
    left, right = np.maximum(times[:-1], start), np.minimum(times[1:], end)
    covered = int(np.maximum(right - left, 0)[near].sum()) if len(times) > 1 else 0
    length = end - start
    return Energy(joules, length * 1e-9, covered / length if length > 0 else 0.0)


def clocks(series: Series) -> Clocks | None:
    """None where no sample knows the clock."""
    known = np.array([clock for clock in series.clocks if clock > 0])
    if not len(known):
        return None
    steps = np.abs(np.diff(known)) > _SAME_CLOCK * known[:-1]
    most = float(known.max())
    return Clocks(
        float(known.min()), float(known.mean()), most, int(steps.sum()),
        float((known < _SLOW_CLOCK * most).mean()),
    )  # fmt: skip


def limited(series: Series, start: int, end: int) -> tuple[str, ...]:
    """What held the device back from `start` to `end`: throttling, and a clock below its fastest.

    Of the samples inside; where a stretch is shorter than the period, of the nearest one.
    """
    times = np.array(series.times, np.int64)
    if not len(times):
        return ()
    first, last = np.searchsorted(times, [start, end])
    if first == last:
        first = int(np.argmin(np.abs(times - (start + end) // 2)))
        last = first + 1
    words = [word for text in series.limits[first:last] if text for word in text.split("; ")]
    found = list(dict.fromkeys(words))
    most = max(series.clocks, default=0.0)
    known = [clock for clock in series.clocks[first:last] if clock > 0]
    if known and (mean := sum(known) / len(known)) < _SLOW_CLOCK * most:
        found.append(f"clock {mean:,.0f} of {most:,.0f} MHz")
    return tuple(found)


class Sampler(Closing):
    """Reads the sources every `period` seconds in a thread, and once more at the end."""

    def __init__(
        self, sources: Sequence[Source], period: float = 0.05,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self.period = period
        self.series = [Series(s.name, s.is_counter, s.wraps_at) for s in sources]
        self._sources = list(sources)
        self._clock = clock
        self._stop = threading.Event()
        self.sample()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop and take the last samples."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self.sample()

    def sample(self) -> None:
        """Read every source once."""
        for source, series in zip(self._sources, self.series, strict=True):
            try:
                before = self._clock()
                reading = source.read()
                after = self._clock()
            except OSError:
                series.failed += 1
                continue
            series.times.append((before + after) // 2)
            series.values.append(reading.value)
            series.limits.append("; ".join(reading.flags))
            series.clocks.append(reading.clock)
            if reading.busy is not None:
                series.busy.append(reading.busy)
            for flag in reading.flags:
                series.flags[flag] = series.flags.get(flag, 0) + 1

    def _run(self) -> None:
        while not self._stop.wait(self.period):
            self.sample()
