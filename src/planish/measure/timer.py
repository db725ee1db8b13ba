"""Timing that can be trusted: candidates in turn, medians, intervals, and whether they differ.

Kernels of our own generator are timed in workers, with more checks (`tune/kernel_worker.py`);
this is for functions of any kind.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import UsageError
from planish.measure.quiet import Conditions, clock_probe, conditions, unsteadiness

_FEWEST = 7
_RESAMPLES = 400
_DRAWN = 500
_FLUSH = 64 << 20


@dataclass(frozen=True)
class Timed:
    """One candidate: seconds of single calls, their median, and its ratio to the first candidate.

    low, high  the 95 % bootstrap interval of the ratio of medians (this one over the first)
    rejected   why its times are not to be believed; empty where they are
    """

    name: str
    samples: tuple[float, ...]
    median: float
    ratio: float
    low: float
    high: float
    rejected: str = ""

    @property
    def faster(self) -> bool:
        """Whether it is faster than the first, beyond the noise, and to be believed."""
        return self.high < 1.0 and not self.rejected

    @property
    def slower(self) -> bool:
        """Whether it is slower than the first, beyond the noise."""
        return self.low > 1.0


@dataclass(frozen=True)
class Comparison:
    """All candidates, the first one being what the others are compared with.

    conditions  what the machine was like meanwhile
    """

    rows: tuple[Timed, ...]
    conditions: Conditions | None = None

    def __getitem__(self, name: str) -> Timed:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.rows)
        lines = []
        for row in self.rows:
            verdict = "faster" if row.faster else "slower" if row.slower else "no difference"
            verdict = f"rejected: {row.rejected}" if row.rejected else verdict
            words = "" if row is self.rows[0] else f"  {verdict}"
            lines.append(
                f"{row.name:{width}}  {_seconds(row.median):>10}  {row.ratio:6.3f} "
                f"[{row.low:.3f}, {row.high:.3f}]{words}"
            )
        warned = self.conditions.warnings if self.conditions is not None else ()
        return "\n".join([*lines, *(f"beware: {words}" for words in warned)])


def compare(
    functions: Mapping[str, Callable[[], object]],
    *,
    seconds: float = 1.0,
    seed: int = 0,
    within: float = 0.0,
    cold: bool = False,
    before: Callable[[], object] | None = None,
    check: Callable[[object], bool] | None = None,
    floor: float = 0.0,
) -> Comparison:
    """Time functions in turn, in an order drawn anew each round; at least seven rounds.

    seconds  about how long, over all functions
    within   end before that once every 95 % interval is so narrow: 0.01 for a width of 1 %
    cold     flush the caches before each call
    before   called, untimed, before each call: fresh inputs, poisoned outputs
    check    whether a function's result is right; asked of the first call, of a round drawn at
             random and of a last call: a function that fails is rejected, whatever it took
    floor    seconds that nothing can be below: what is below is rejected
    Raises UsageError for fewer than one function.
    """
    if not functions:
        raise UsageError("nothing to compare")
    draw = random.Random(seed)
    one = _Comparing(functions, before, check, cold)
    state = conditions()
    probes = [clock_probe()]
    one.untimed()
    checked = draw.randrange(_FEWEST)
    end = time.perf_counter() + seconds
    while one.rounds < _FEWEST or time.perf_counter() < end:
        one.round(draw, check=one.rounds == checked)
        if within and one.rounds >= 2 * _FEWEST and one.rounds % _FEWEST == 0:
            probes.append(clock_probe())
            if one.widest(draw) <= within:
                break
    one.untimed()
    probes.append(clock_probe())
    state = Conditions(state.others, state.processors, unsteadiness(probes))
    return Comparison(tuple(one.timed(name, floor, draw) for name in functions), state)


class _Comparing:
    """A comparison under way."""

    def __init__(
        self, functions: Mapping[str, Callable[[], object]],
        before: Callable[[], object] | None, check: Callable[[object], bool] | None, cold: bool,
    ) -> None:  # fmt: skip
        self._functions = functions
        self._before = before
        self._check = check
        self._flushed = bytearray(_FLUSH) if cold else bytearray()
        self._rejected: dict[str, str] = {}
        self._samples: dict[str, list[float]] = {name: [] for name in functions}
        self._first = next(iter(functions))
        self._order = list(functions)

    @property
    def rounds(self) -> int:
        return len(self._samples[self._first])

    def untimed(self) -> None:
        """Every function once, checked."""
        for name in self._functions:
            self._call(name, check=True)

    def round(self, draw: random.Random, *, check: bool) -> None:
        """Every function once, timed."""
        draw.shuffle(self._order)
        for name in self._order:
            self._samples[name].append(self._call(name, check=check))

    def widest(self, draw: random.Random) -> float:
        """The widest interval of a ratio so far."""
        first = self._samples[self._first]
        found = (ratio_interval(own, first, draw) for own in self._samples.values())
        return max(high - low for low, high in found)

    def timed(self, name: str, floor: float, draw: random.Random) -> Timed:
        own, first = self._samples[name], self._samples[self._first]
        rejected = self._rejected.get(name, "")
        if not rejected and min(own) < floor:
            rejected = f"{_seconds(min(own))} is below the {_seconds(floor)} that is possible"
        middle = statistics.median(own)
        low, high = ratio_interval(own, first, draw)
        ratio = middle / statistics.median(first)
        return Timed(name, tuple(own), middle, ratio, low, high, rejected)

    def _call(self, name: str, *, check: bool) -> float:
        if self._before is not None:
            self._before()
        if self._flushed:
            self._flushed[:] = bytes(1) * len(self._flushed)
        started = time.perf_counter()
        result = self._functions[name]()
        spent = time.perf_counter() - started
        if check and self._check is not None and not self._check(result):
            self._rejected[name] = "its result is wrong"
        return spent


def ratio_interval(
    own: Sequence[float], first: Sequence[float], draw: random.Random
) -> tuple[float, float]:
    """95 % bootstrap interval of the ratio of medians, rounds drawn together.

    Of many rounds some hundreds are taken, evenly: the interval is then wider than it need be.
    """
    if own is first:
        return 1.0, 1.0
    every = max(1, len(own) // _DRAWN)
    own, first = own[::every], first[::every]
    rounds = range(len(own))
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
