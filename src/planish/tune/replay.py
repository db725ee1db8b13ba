"""Replay a lockfile's entry: no search, no model, the same bytes.

Where the source has changed, the entry is stale: baseline and recipe are both built, and the
better one is kept. `locked` refuses stale and missing entries instead.
"""

from __future__ import annotations

import time
from pathlib import Path

from planish.base.errors import LockError
from planish.base.records import Grade, Ledger, Verdict
from planish.llvm.recipe import Recipe
from planish.store.lockfile import LockEntry, Lockfile
from planish.tune.finish import Finished, build_once, finish, value_of
from planish.tune.passes import to_result
from planish.tune.result import Result, lock_name
from planish.tune.session import Options, Session
from planish.tune.source import Baseline, Request, Task, baseline, load


def replay(
    session: Session,
    path: Path,
    request: Request,
    options: Options,
    lock: Lockfile,
    folder: Path,
    *,
    locked: bool = False,
) -> Result:
    """Build the source by its lockfile's entry.

    Raises LockError when there is no entry, or (`locked`) when it is stale.
    """
    started = time.monotonic()
    task = load(path, request, session.toolchain, session.pool)
    entry = lock.find(lock_name(path, folder), options.goal, task.facts.triple)
    if entry is None:
        raise LockError(
            f"planish.lock has no entry for {path}, goal {options.goal}, "
            f"target {task.facts.triple}",
            hint=f"run: planish opt {path}",
        )
    reason = stale_reason(entry, task, session)
    if reason and locked:
        raise LockError(f"the entry for {path} is stale: {reason}", hint=f"run: planish opt {path}")
    if reason:
        before = baseline(task, session.toolchain, session.pool)
        done = finish(session, task, before, Recipe.parse(entry.recipe), options)
    else:
        before, done = _same(session, task, entry, options)
    ledger = Ledger(
        builds=0,
        seconds=time.monotonic() - started,
        baseline=before.words,
        policy="replay",
        fallbacks=(f"stale: {reason}", *done.fallbacks) if reason else done.fallbacks,
        checks=done.checks,
    )
    return to_result(session, task, before, done, options, ledger, stale=bool(reason))


def stale_reason(entry: LockEntry, task: Task, session: Session) -> str:
    """Why the entry was made for something else; empty when it fits."""
    if entry.hash != task.hash:
        return "the source has changed"
    if entry.compiler != session.compiler:
        return f"made with {entry.compiler}, this is {session.compiler}"
    if entry.level != task.request.level:
        return f"made against -{entry.level}, not -{task.request.level}"
    return ""


def _same(
    session: Session, task: Task, entry: LockEntry, options: Options
) -> tuple[Baseline, Finished]:
    """The entry as it stands: the baseline's numbers are the lockfile's, nothing is measured."""
    before = Baseline(entry.baseline, entry.baseline, {}, {}, b"", f"{entry.compiler}, locked")
    if not entry.recipe:
        before = baseline(task, session.toolchain, session.pool)
        done = finish(session, task, before, Recipe(), options)
        return before, done
    recipe = Recipe.parse(entry.recipe)
    built = build_once(session, task, recipe, options)
    value, sections = value_of(built, options)
    if value != entry.result:
        raise LockError(
            f"{task.source} replays to {value:,} {entry.unit}, the lockfile says {entry.result:,}",
            hint="the file was edited, or the compiler differs; search again",
        )
    verdict = Verdict(Grade.UNKNOWN)
    for grade in Grade:
        if entry.verdict.startswith(grade.value):
            verdict = Verdict(grade, entry.verdict.removeprefix(grade.value).strip())
    checks = ("module verifier", "the lockfile's size")
    return before, Finished(
        recipe, built.artefacts[options.emit], value, sections, verdict, (), checks
    )
