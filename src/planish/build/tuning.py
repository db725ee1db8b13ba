"""Tuning the units of a recorded build, one after another, into one lockfile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import PlanishError
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

    own  bytes of the object that the build itself made; 0 where they are not known
    """

    unit: Recorded
    result: Result | None
    problem: str = ""
    own: int = 0

    def __str__(self) -> str:
        if self.result is None:
            return f"{self.unit.source}: left as it is: {self.problem}"
        best, own = self.result.best, self.own
        beside = f", the build's own {own:,} ({best / own - 1:+.1%})" if own else ""
        return f"{self.unit.source}: {best:,} {self.result.unit}{beside}"


def tune_units(
    session: Session,
    recorded: Sequence[Recorded],
    options: Options,
    lock: Path,
    *,
    watch: Callable[[Outcome], None],
) -> list[Outcome]:
    """Search each unit, the largest source first; every result is in the lockfile at once.

    The build's own object is what a result has to beat, whatever compiler made it. A unit that the
    front end does not compile (a flag only gcc knows) is told and left as it is.
    """
    outcomes = []
    for unit in sorted(recorded, key=lambda u: (-_size(u.path), u.path)):
        outcome = _tune(session, unit, options, lock)
        watch(outcome)
        outcomes.append(outcome)
        if outcome.result is not None and outcome.result.interrupted:
            break
    return outcomes


def _tune(session: Session, unit: Recorded, options: Options, lock: Path) -> Outcome:
    name = lock_name(unit.path, lock.parent)
    entries = [
        e for e in lockfile.load(lock).entries if e.source == name and e.goal == options.goal
    ]
    try:
        with _inside(Path(unit.folder)):
            result = optimise(session, unit.path, Request(unit.flags), options, entries)
    except PlanishError as error:
        return Outcome(unit, None, str(error))
    own = unit.own if options.goal == "size" else 0
    if own and result.best >= own:
        return Outcome(unit, None, f"{result.best:,} bytes, the build's own object {own:,}", own)
    lockfile.update(lock, [result.entry(lock.parent)])
    return Outcome(unit, result, "", own)


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
def _inside(folder: Path) -> Iterator[None]:
    """Relative paths among a unit's flags are meant from where its compiler was called."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
