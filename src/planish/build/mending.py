"""Where the project's tests fail on the tuned build: which unit, which part of its recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import PlanishError
from planish.build.tuning import Outcome, inside, keep_what_passes, tune_one
from planish.build.units import Recorded
from planish.llvm.recipe import Recipe
from planish.store import lockfile
from planish.store.lockfile import LockEntry
from planish.tune.finish import build_once
from planish.tune.result import lock_name
from planish.tune.safety import culprits
from planish.tune.session import Options, Session
from planish.tune.source import Request, load

# After so many searches anew a unit is left as it is.
_TRIES = 3


@dataclass(frozen=True)
class Mended:
    """A unit whose recipe broke the test.

    expelled  elements that are to blame, which no unit gets any more; none where no single one is
    outcome   what the unit has now; None where it is left as it is
    """

    source: str
    expelled: tuple[str, ...]
    outcome: Outcome | None

    def __str__(self) -> str:
        blame = ", ".join(self.expelled) or "no single element"
        after = "tuned again without" if self.outcome else "left as it is"
        return f"the test fails with {self.source}: {blame} is to blame; {after}"


def mend(
    session: Session, units: list[Recorded], options: Options, lock: Path, test: Callable[[], bool]
) -> list[Mended]:
    """Test the build that the lockfile describes; expel what breaks it, and tune those units again.

    test  rebuilds by the lockfile and runs the project's own tests
    Raises PlanishError where it fails without any recipe, or for too many units.
    """
    by_name = {lock_name(unit.path, lock.parent): unit for unit in units}
    mended: list[Mended] = []
    for _ in range(_TRIES):
        held = lockfile.load(lock)
        names = [e.source for e in held.entries if e.source in by_name and e.goal == options.goal]
        bad = keep_what_passes(lock, names, test)
        if not bad:
            return mended
        entries = {e.source: e for e in held.entries if e.goal == options.goal}
        for name in bad:
            expelled = _blame(session, by_name[name], entries[name], options, lock, test)
            outcome = None
            if expelled:
                outcome = tune_one(session, by_name[name], options, lock)
            if outcome is None or outcome.result is None:
                _drop(lock, name, options.goal)
                outcome = None
            mended.append(Mended(name, tuple(expelled), outcome))
    # What was tuned again after the last round has not been tested.
    keep_what_passes(lock, [m.source for m in mended if m.outcome is not None], test)
    return mended


def _blame(
    session: Session,
    unit: Recorded,
    entry: LockEntry,
    options: Options,
    lock: Path,
    test: Callable[[], bool],
) -> list[str]:
    """The elements of the recipe that break the test; they are expelled in the store."""
    request = Request(unit.flags, named=unit.source)
    with inside(Path(unit.folder)):
        task = load(unit.path, request, session.toolchain, session.pool)

    def passes(part: Recipe) -> bool:
        try:
            built = build_once(session, task, part, options)
        except PlanishError:
            return False
        # With the size that it has, or the replay would refuse it and prove nothing.
        tried = replace(entry, recipe=str(part), result=built.value(options.goal))
        lockfile.update(lock, [tried])
        return test()

    try:
        found, _ = culprits(Recipe.parse(entry.recipe), passes)
    finally:
        _drop(lock, entry.source, options.goal)
    if session.store is not None:
        for element in found:
            session.store.expel(session.compiler, element, f"the tests fail on {entry.source}")
    return found


def _drop(lock: Path, name: str, goal: str) -> None:
    held = lockfile.load(lock)
    left = tuple(e for e in held.entries if (e.source, e.goal) != (name, goal))
    replace(held, entries=left).save(lock)
