"""Whether the machine is fit to be measured on: what others keep busy, and how steady its clock is.

Both are read where they can be and unknown (None) elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PROBED = bytes(16 << 10)
_LOADED = 0.15
_UNSTEADY = 1.15


@dataclass(frozen=True)
class Conditions:
    """What a measurement was taken under.

    others      processors that others kept busy, as a number of processors; None where unknown
    processors  how many there are
    unsteady    how much longer the slowest quarter of clock probes took than the fastest one;
                None where fewer than two were taken
    """

    others: float | None
    processors: int
    unsteady: float | None = None

    @property
    def loaded(self) -> bool:
        """Whether others take so much that timings cannot be quiet."""
        return self.others is not None and self.others > _LOADED * self.processors

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong, in words; nothing where all is well."""
        found = []
        if self.loaded:
            found.append(
                f"other programs keep {self.others:.1f} of {self.processors} processors busy"
            )
        if self.unsteady is not None and self.unsteady > _UNSTEADY:
            found.append(
                f"the clock is unsteady: the same work took up to {self.unsteady:.2f} times as long"
            )
        return tuple(found)


def conditions(
    seconds: float = 0.06, stat: Callable[[], str] = _STAT.read_text, clock: Sequence[float] = ()
) -> Conditions:
    """Look on for a moment, doing nothing: whatever is busy then is others' work.

    clock  probes taken while measuring (`clock_probe`)
    """
    count = os.cpu_count() or 1
    first = _busy(stat)
    started = time.perf_counter()
    time.sleep(seconds)
    second = _busy(stat)
    spent = time.perf_counter() - started
    others = None
    if first is not None and second is not None:
        # A tick more or less is no load.
        others = max(0.0, (second - first - 1) / _TICKS / spent)
    return Conditions(others, count, unsteadiness(clock))


def unsteadiness(clock: Sequence[float]) -> float | None:
    """The upper quartile of the probes over the fastest."""
    if len(clock) < 2:
        return None
    ordered = sorted(clock)
    return ordered[(3 * len(ordered)) // 4] / ordered[0]


def clock_probe() -> float:
    """Seconds of a fixed computation in the first cache: the best of three."""
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        hashlib.sha256(_PROBED).digest()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _busy(stat: Callable[[], str]) -> int | None:
    """Ticks that processors spent on something, since the machine started."""
    try:
        words = stat().split("\n", 1)[0].split()
        user, nice, system, _idle, _wait, *rest = (int(word) for word in words[1:])
    except (OSError, ValueError):
        return None
    return user + nice + system + sum(rest[:3])  # interrupts, and what a hypervisor took


class Watch:
    """What others keep busy while this process works: look when it begins, then ask."""

    def __init__(self, stat: Callable[[], str] = _STAT.read_text) -> None:
        self._stat = stat
        self._busy = _busy(stat)
        self._own = time.process_time()
        self._started = time.perf_counter()

    def conditions(self, clock: Sequence[float] = ()) -> Conditions:
        """From the beginning until now; time of the process's own threads is its own."""
        others, busy = None, _busy(self._stat)
        spent = time.perf_counter() - self._started
        if busy is not None and self._busy is not None and spent > 0:
            # A tick more or less is no load.
            total = max(0.0, (busy - self._busy - 1) / _TICKS)
            others = max(0.0, total - (time.process_time() - self._own)) / spent
        return Conditions(others, os.cpu_count() or 1, unsteadiness(clock))
