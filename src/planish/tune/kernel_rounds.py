"""Rounds of a timing in turn: which of them count, and when there are enough."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from planish.tune.kernel_requests import Measure

FEWEST = 3
_MOST = 20_000
_LOST = 0.02  # share of a round that a process may have been without its processor
_READING = 3e-6  # seconds that reading the clocks takes
_PATIENCE = 10.0  # times the given seconds that are waited for undisturbed rounds
_FAR = 3.0  # times slower than what is enough: slow beyond doubt


def once(call: Callable[[], object], count: int) -> tuple[float, bool]:
    """Seconds of one of `count` calls, and whether the process had its processor all the time."""
    busy = time.thread_time()
    started = time.perf_counter()
    for _ in range(count):
        call()
    spent = time.perf_counter() - started
    busy = time.thread_time() - busy
    return spent / count, spent - busy < _LOST * spent + _READING


class Rounds:
    """Times of the baseline (0) and the candidate (1), round by round."""

    def __init__(self, request: Measure) -> None:
        self._request = request
        self._end = time.perf_counter() + request.seconds
        self._last = time.perf_counter() + _PATIENCE * request.seconds
        self._now: dict[int, tuple[float, bool]] = {}
        self._clean: list[list[float]] = [[], []]
        self._every: list[list[float]] = [[], []]

    @property
    def taken(self) -> int:
        """Whole rounds."""
        return len(self._every[0])

    @property
    def times(self) -> list[list[float]]:
        """Those of rounds that nothing disturbed; of all rounds where such are too few."""
        if self._hopeless or len(self._clean[0]) >= FEWEST:
            return self._clean
        return self._every

    def note(self, which: int, seconds: float, clean: bool) -> None:
        """One of the two calls of a round."""
        self._now[which] = seconds, clean
        if len(self._now) < 2:
            return
        undisturbed = all(clean for _, clean in self._now.values())
        for at, (spent, _) in self._now.items():
            self._every[at].append(spent)
            if undisturbed:
                self._clean[at].append(spent)
        self._now = {}

    @property
    def ended(self) -> bool:
        """Between rounds: whether the time is up, or more rounds would change nothing."""
        if self._now or not self.taken:
            return False
        if self._hopeless:
            return True
        now, count = time.perf_counter(), len(self._clean[0])
        if count < FEWEST:
            return self.taken >= FEWEST and now >= self._last
        request = self._request
        late = now >= self._end or count >= _MOST
        return late or decided(self._clean[1], self._clean[0], request.enough, request.precise)

    @property
    def _hopeless(self) -> bool:
        base, own = self._clean
        return bool(own) and min(own) > _FAR * self._request.enough * max(base)


def decided(own: Sequence[float], other: Sequence[float], enough: float, precise: float) -> bool:
    """Whether more rounds would change nothing: surely above `enough`, or known precisely.

    The standard error is that of the median of log ratios, from their absolute deviations.
    """
    rounds = len(own)
    if rounds < 5 or rounds % 5:
        return False
    logs = [math.log(a / b) for a, b in zip(own, other, strict=True)]
    middle = statistics.median(logs)
    spread = statistics.median(abs(x - middle) for x in logs)
    error = 1.858 * spread / math.sqrt(rounds)  # 1.4826 (normal) times 1.2533 (of a median)
    return middle - 3 * error > math.log(enough) or (rounds >= 10 and error < precise)
