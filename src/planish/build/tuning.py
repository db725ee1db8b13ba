"""Tuning the units of a recorded build into one lockfile, in rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import PlanishError
from planish.build.allocation import DEPTHS, Allocation, Expectation, Spent, observed
from planish.build.units import Recorded
from planish.store import lockfile
from planish.tune.passes import optimise
from planish.tune.result import Result, lock_name
from planish.tune.safety import blame
from planish.tune.session import Options, Session
from planish.tune.source import Request

# More units than this that break a test, and the recipes are not worth saving.
_MOST_CULPRITS = 8


@dataclass(frozen=True)
class Outcome:
    """What became of a unit: a kept result, or why there is none.

    own     bytes of the object that the build itself made; 0 where they are not known
    builds  what the last search spent
    failed  whether it cannot be tuned at all
    """

    unit: Recorded
    result: Result | None
    problem: str = ""
    own: int = 0
    builds: int = 0
    failed: bool = False

    @property
    def gain(self) -> int:
        """What is taken off the build's own object (or the baseline), in the goal's unit."""
        return (self.own or self.result.baseline) - self.result.best if self.result else 0

    def __str__(self) -> str:
        if self.result is None:
            return f"{self.unit.source}: left as it is: {self.problem}"
        best, own = self.result.best, self.own
        beside = f", the build's own {own:,} ({best / own - 1:+.1%})" if own else ""
        return f"{self.unit.source}: {best:,} {self.result.unit}{beside}"


@dataclass(frozen=True)
class Tuned:
    """A tuned build.

    outcomes  of all units, in the order of their sources
    builds    builds spent, and the bytes gained after each round: (builds, bytes)
    left      bytes that one more round of each unit is expected to gain
    """

    outcomes: tuple[Outcome, ...]
    builds: int
    curve: tuple[tuple[int, int], ...]
    left: float
    interrupted: bool = False


def tune_units(
    session: Session,
    recorded: Sequence[Recorded],
    options: Options,
    lock: Path,
    *,
    watch: Callable[[Outcome], None],
    expect: Expectation = observed,
) -> Tuned:
    """Search the units in rounds (`allocation.py`); every result is in the lockfile at once.

    The budget's builds are for each unit on average; its seconds are for all units together. The
    build's own object is what a result has to beat, whatever compiler made it. A unit that the
    front end does not compile (a flag only gcc knows) is told and left as it is.
    """
    outcomes, chosen = _choose(recorded, lock.parent)
    for outcome in outcomes.values():
        watch(outcome)
    started = time.monotonic()
    sizes = {
        name: Spent(unit.code or unit.own or _size(unit.path)) for name, unit in chosen.items()
    }
    each = options.budget.builds or DEPTHS[-1]
    shares = Allocation(each * len(chosen), sizes, expect)
    gained: dict[str, int] = {}
    curve = [(0, 0)]
    interrupted = False
    while not interrupted and not _late(started, options):
        step = shares.take()
        if step is None:
            break
        name, depth, builds = step
        budget = replace(options.budget, builds=depth)
        outcome = tune_one(session, chosen[name], replace(options, budget=budget), lock)
        outcomes[name] = outcome
        watch(outcome)
        # What the depth costs, not what the store left of it: a tuning that was stopped and goes
        # on ends where one at a stretch would have.
        gain = outcome.gain
        shares.note(name, max(gain - gained.get(name, 0), 0), builds)
        if outcome.failed:
            shares.close(name)
        gained[name] = gain
        curve.append((shares.spent, sum(gained.values())))
        interrupted = outcome.result is not None and outcome.result.interrupted
    order = sorted(outcomes)
    return Tuned(
        tuple(outcomes[name] for name in order), shares.spent, tuple(curve), shares.left(),
        interrupted,
    )  # fmt: skip


def _choose(
    recorded: Sequence[Recorded], folder: Path
) -> tuple[dict[str, Outcome], dict[str, Recorded]]:
    """What stays as it is, and the units to tune, by their names in the lockfile."""
    outcomes: dict[str, Outcome] = {}
    chosen: dict[str, Recorded] = {}
    for unit in sorted(recorded, key=lambda u: (u.path, -u.own, u.output)):
        name = lock_name(unit.path, folder)
        if unit.problem:
            outcomes[f"{name} {unit.output}"] = Outcome(unit, None, unit.problem, failed=True)
        elif name in chosen:
            other = "the same source is compiled with other flags, too; one of them is tuned"
            if unit.flags != chosen[name].flags:
                outcomes[f"{name} {unit.output}"] = Outcome(unit, None, other, failed=True)
        else:
            chosen[name] = unit
    return outcomes, chosen


def _late(started: float, options: Options) -> bool:
    seconds = options.budget.seconds
    return seconds is not None and time.monotonic() - started >= seconds


def tune_one(session: Session, unit: Recorded, options: Options, lock: Path) -> Outcome:
    """Search one unit, and keep in the lockfile what beats the build's own object."""
    name = lock_name(unit.path, lock.parent)
    entries = [
        e for e in lockfile.load(lock).entries if e.source == name and e.goal == options.goal
    ]
    try:
        with inside(Path(unit.folder)):
            result = optimise(
                session, unit.path, Request(unit.flags, named=unit.source), options, entries
            )
    except PlanishError as error:
        return Outcome(unit, None, str(error), failed=True)
    own = unit.own if options.goal == "size" else 0
    builds = result.ledger.builds
    if result.best >= (own or result.baseline):
        why = f"{result.best:,} {result.unit}, the build's own {own or result.baseline:,}"
        return Outcome(unit, None, why, own, builds)
    lockfile.update(lock, [result.entry(lock.parent)])
    return Outcome(unit, result, "", own, builds)


def keep_what_passes(lock: Path, names: Sequence[str], test: Callable[[], bool]) -> list[str]:
    """Drop the entries of sources for which a test fails; returns those sources.

    test  rebuilds by the lockfile and runs the project's own tests
    Raises PlanishError, with the lockfile as it was, when it fails without any of them, or for too
    many.
    """
    if test():
        return []
    held = lockfile.load(lock)

    def write(dropped: Sequence[str]) -> None:
        replace(held, entries=tuple(e for e in held.entries if e.source not in dropped)).save(lock)

    def passes(marks: Sequence[bool]) -> bool:
        write([name for name, mark in zip(names, marks, strict=True) if not mark])
        return test()

    found: list[int] | None = None
    try:
        found, _ = blame(len(names), passes, _MOST_CULPRITS)
    finally:
        write([names[at] for at in found or []])
    if found is None:
        raise PlanishError(
            "the test fails without any recipe, or for more units than can be singled out",
            hint="run it on the plain build first",
        )
    return [names[at] for at in found]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Relative paths among a unit's flags are meant from where its compiler was called."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
