"""How a budget of builds is shared among the units of a program.

In rounds, each four times as deep as the one before: the next round goes to the unit that promises
most bytes for a build, until the budget is spent or nothing promises anything. A search starts
from what the store holds, so that a deeper round pays only for what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

# Builds of a search after each round.
DEPTHS = (8, 32, 96)
# Before anything was seen: the share of its bytes that a first round takes off a unit, and how
# much a round gains of what the one before gained (`bench/gain.py`: 6.0 % at 8 builds, 8.8 at 32,
# 10.5 at 100).
_FIRST_SHARE = 0.06
_NEXT_SHARE = 0.4
# Units that the prior counts for, beside what is observed.
_WEIGHT = 4.0


@dataclass(frozen=True)
class Spent:
    """What a unit has cost and gained so far.

    size   bytes of the build's own object that may become fewer: a table of a megabyte does not
    gains  bytes gained by each round
    """

    size: int
    gains: tuple[int, ...] = ()
    closed: bool = False

    @property
    def rounds(self) -> int:
        return len(self.gains)

    @property
    def done(self) -> bool:
        """Whether there is no deeper round, or nothing was left to gain."""
        return self.closed or self.rounds == len(DEPTHS)


# Says how many bytes a unit's next round will gain: (name, what it has cost, all units) -> bytes.
# A model of programs takes the place of `observed`.
Expectation = Callable[[str, Spent, Mapping[str, Spent]], float]


@dataclass
class Allocation:
    """The state of sharing; `take` names the next unit, `note` what came of it."""

    budget: int
    units: dict[str, Spent]
    expect: Expectation
    spent: int = 0

    def take(self) -> tuple[str, int, int] | None:
        """The unit to go on with, the depth of its search, and what that adds to the spent builds.

        None when it is time to stop.
        """
        rated = [(self._rate(name), name) for name, unit in self.units.items() if not unit.done]
        rated = [pair for pair in rated if pair[0] > 0.0]
        left = self.budget - self.spent
        if not rated or left <= 0:
            return None
        # Of equals the first name, so that the order never depends on chance.
        _, name = max(rated, key=lambda pair: (pair[0], [-ord(c) for c in pair[1]]))
        before = DEPTHS[self.units[name].rounds - 1] if self.units[name].rounds else 0
        builds = min(DEPTHS[self.units[name].rounds] - before, left)
        return name, before + builds, builds

    def note(self, name: str, gain: int, builds: int) -> None:
        """A round's bytes gained and builds spent."""
        unit = self.units[name]
        # Two rounds without a byte: a third has never been seen to pay.
        closed = gain == 0 and unit.rounds > 0 and unit.gains[-1] == 0
        self.units[name] = replace(unit, gains=(*unit.gains, gain), closed=closed)
        self.spent += builds

    def close(self, name: str) -> None:
        """Leave a unit alone from now on."""
        self.units[name] = replace(self.units[name], closed=True)

    def left(self) -> float:
        """Bytes that one more round of every unit is expected to gain."""
        open_units = ((name, unit) for name, unit in self.units.items() if not unit.done)
        return sum(self.expect(name, unit, self.units) for name, unit in open_units)

    def _rate(self, name: str) -> float:
        unit = self.units[name]
        before = DEPTHS[unit.rounds - 1] if unit.rounds else 0
        return self.expect(name, unit, self.units) / (DEPTHS[unit.rounds] - before)


def observed(name: str, unit: Spent, units: Mapping[str, Spent]) -> float:
    """By what the other units gained in the same round, shrunk to what programs gain in general."""
    if not unit.rounds:
        seen = [u.gains[0] / u.size for u in units.values() if u.rounds and u.size]
        return unit.size * _mean(seen, _FIRST_SHARE)
    at = unit.rounds
    seen = [
        u.gains[at] / u.gains[at - 1]
        for u in units.values()
        if u.rounds > at and u.gains[at - 1] > 0
    ]
    # A round that gained nothing leaves a little hope, so that the budget can go on.
    last = max(float(unit.gains[-1]), 0.1 * unit.size * _FIRST_SHARE)
    return last * _mean(seen, _NEXT_SHARE)


def _mean(seen: Sequence[float], prior: float) -> float:
    return (sum(seen) + _WEIGHT * prior) / (len(seen) + _WEIGHT)
