"""Timing that can be trusted: candidates in turn, medians, intervals, and whether they differ."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import UsageError

_FEWEST = 7
_RESAMPLES = 400


@dataclass(frozen=True)
class Timed:
    """One candidate: seconds of single calls, their median, and its ratio to the first candidate.

    low, high  the 95 % bootstrap interval of the ratio of medians (this one over the first)
    """

    name: str
    samples: tuple[float, ...]
    median: float
    ratio: float
    low: float
    high: float

    @property
    def faster(self) -> bool:
        """Whether it is faster than the first, beyond the noise."""
        return self.high < 1.0

    @property
    def slower(self) -> bool:
        """Whether it is slower than the first, beyond the noise."""
        return self.low > 1.0


@dataclass(frozen=True)
class Comparison:
    """All candidates, the first one being what the others are compared with."""

    rows: tuple[Timed, ...]

    def __getitem__(self, name: str) -> Timed:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = []
        for row in self.rows:
            verdict = "faster" if row.faster else "slower" if row.slower else "no difference"
            words = "" if row is self.rows[0] else f"  {verdict}"
            lines.append(
                f"{row.name:{width}}  {_seconds(row.median):>10}  {row.ratio:6.3f} "
                f"[{row.low:.3f}, {row.high:.3f}]{words}"
            )
        return "\n".join(lines)


def compare(
    functions: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 1.0,
    seed: int = 0,
) -> Comparison:
    """Time functions in turn, in an order drawn anew each round; at least seven rounds.

    seconds  about how long, over all functions
    Raises UsageError for fewer than one function.
    """
    if not functions:
        raise UsageError("nothing to compare")
    names = list(functions)
    order = names[:]
    draw = random.Random(seed)
    for name in names:
        functions[name]()
    samples: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    while len(samples[names[0]]) < _FEWEST or time.perf_counter() < end:
        draw.shuffle(order)
        for name in order:
            started = time.perf_counter()
            functions[name]()
            samples[name].append(time.perf_counter() - started)
    first = samples[names[0]]
    return Comparison(tuple(_timed(n, samples[n], first, draw) for n in names))


def _timed(name: str, own: Sequence[float], first: Sequence[float], draw: random.Random) -> Timed:
    middle = statistics.median(own)
    ratio = middle / statistics.median(first)
    low, high = ratio_interval(own, first, draw)
    return Timed(name, tuple(own), middle, ratio, low, high)


def ratio_interval(
    own: Sequence[float], first: Sequence[float], draw: random.Random
) -> tuple[float, float]:
    """95 % bootstrap interval of the ratio of medians, rounds drawn together."""
    rounds = range(len(own))
    if own is first:
        return 1.0, 1.0
    found = []
    for _ in range(_RESAMPLES):
        chosen = draw.choices(rounds, k=len(own))
        mine = statistics.median([own[at] for at in chosen])
        found.append(mine / statistics.median([first[at] for at in chosen]))
    found.sort()
    return found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES)]


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
