"""Replay a lockfile's entries: no search, no model, the same bytes.

Where a source has changed, its entry is stale: baseline and recipe are both built, and the better
one is kept. `locked` refuses stale and missing entries instead. Front end and builds of many
sources run side by side, since a replay is what a build system waits for.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planish.base.errors import LockError, PlanishError, UsageError
from planish.base.hashing import digest
from planish.base.records import Grade, Ledger, Verdict
from planish.llvm import frontend
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built, Facts
from planish.proc.pool import Call, Reply
from planish.store.lockfile import LockEntry, Lockfile
from planish.tune.built_store import run_or_load
from planish.tune.result import Finished, Result, lock_name, to_result
from planish.tune.session import Options, Session
from planish.tune.source import (
    Baseline,
    Request,
    Task,
    architecture,
    make_jobs,
    make_task,
    read_source,
)


@dataclass(frozen=True)
class _Waiting:
    """A source on its way: its entry, the entry's recipe, and the key of its bitcode."""

    path: Path
    entry: LockEntry
    recipe: Recipe
    blob: str


def replay(
    session: Session,
    paths: Sequence[Path],
    request: Request,
    options: Options,
    lock: Lockfile,
    folder: Path,
    *,
    locked: bool = False,
    kept: bool = True,
) -> Iterator[Result | PlanishError]:
    """For each source, in order: its result, or why there is none.

    kept  what was built before on this machine may be taken, and is kept
    A LockError stands for a source without an entry, or (`locked`) with a stale one.
    """
    started = time.monotonic()
    waiting: list[_Waiting | PlanishError] = []
    with _reads(session, paths, request) as reads:
        for path, read in zip(paths, reads, strict=True):
            try:
                entry = _entry(path, request, options, lock, folder)
                recipe = Recipe.parse(entry.recipe)
                data = read()
            except PlanishError as error:
                waiting.append(error)
                continue
            blob = digest(data)
            session.pool.keep(blob, data)
            waiting.append(_Waiting(path, entry, recipe, blob))
    ready = [item for item in waiting if isinstance(item, _Waiting)]
    calls = [_call(session, item, request, options, locked) for item in ready]
    if kept:
        replies = iter(run_or_load(session, calls))
    else:
        replies = iter((reply, False) for reply in session.pool.run(calls))
    for item in waiting:
        if isinstance(item, PlanishError):
            yield item
            continue
        try:
            yield _result(session, item, *next(replies), request, options, locked, started)
        except PlanishError as error:
            yield error
        session.pool.forget(item.blob)


@contextlib.contextmanager
def _reads(
    session: Session, paths: Sequence[Path], request: Request
) -> Iterator[list[Callable[[], bytes]]]:
    """What gives each source's bitcode; of several sources, many front ends run at once."""
    read = functools.partial(read_source, request=request, toolchain=session.toolchain)
    if len(paths) == 1:
        yield [functools.partial(read, paths[0])]
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(session.pool.jobs) as threads:
        yield [threads.submit(read, path).result for path in paths]


def stale_reason(entry: LockEntry, facts: Facts, request: Request, session: Session) -> str:
    """Why the entry was made for something else; empty when it fits."""
    if entry.hash != facts.identity:
        return "the source or its flags have changed"
    if entry.compiler != session.compiler:
        return f"made with {entry.compiler}, this is {session.compiler}"
    frames = [frontend.asks_for_frames(flags) for flags in (entry.flags, request.flags)]
    if "@frame-pointer=none" in entry.recipe and frames[0] != frames[1]:
        return "the flags on frame pointers have changed"
    if entry.level != request.level:
        return f"made against -{entry.level}, not -{request.level}"
    if entry.cpu != request.cpu:
        return f"made for the processor '{entry.cpu}', not '{request.cpu}'"
    return ""


def _entry(
    path: Path, request: Request, options: Options, lock: Lockfile, folder: Path
) -> LockEntry:
    """The source's entry for the target that is asked for."""
    name = lock_name(path, folder)
    found = lock.of(name, options.goal)
    asked = request.triple or frontend.triple_of(request.flags)
    if asked:
        arch = asked.partition("-")[0]
        found = [e for e in found if e.target.partition("-")[0] == arch]
    if not found:
        target = f", target {asked}" if asked else ""
        raise LockError(
            f"the lockfile has no entry for {path}, goal {options.goal}{target}",
            hint=f"run: planish opt {path}",
        )
    native = [e for e in found if not asked and e.target.startswith(platform.machine())]
    return (native or found)[0]


def _call(
    session: Session, item: _Waiting, request: Request, options: Options, locked: bool
) -> Call:
    """The build of an entry; `locked` refuses a stale one, which need not be built then."""
    is_ir = item.path.suffix in frontend.IR_SUFFIXES
    _, job = make_jobs(
        item.blob, item.entry.target, request, is_ir, session.toolchain, session.pool
    )
    build = Build(
        job, item.recipe, emit=options.needs_code, keep=options.keeps, inspect=True,
        expected=item.entry.hash if locked else "",
    )  # fmt: skip
    return Call(item.recipe.options, build, (item.blob,))


def _result(
    session: Session,
    item: _Waiting,
    reply: Reply,
    found: bool,
    request: Request,
    options: Options,
    locked: bool,
    started: float,
) -> Result:
    if reply.failure is not None:
        _check_words(session, item)
        raise UsageError(
            f"{item.path}: the lockfile's recipe does not build: {reply.reason}",
            hint=f"run: planish opt {item.path}",
        )
    built: Built = reply.value
    assert built.facts is not None
    entry = item.entry
    task = make_task(item.path, request, built.facts, item.blob, session.toolchain, session.pool)
    reason = stale_reason(entry, task.facts, request, session)
    if reason and locked:
        raise LockError(
            f"the entry for {item.path} is stale: {reason}", hint=f"run: planish opt {item.path}"
        )
    if reason or not entry.recipe:
        from planish.tune.finish import before_of, finish

        before = before_of(session, task, options)
        done = finish(session, task, before, item.recipe, options)
    else:
        before, done = _same(task, item, built, options, found)
    ledger = Ledger(
        seconds=time.monotonic() - started,
        baseline=before.words,
        policy="replay",
        fallbacks=(f"stale: {reason}", *done.fallbacks) if reason else done.fallbacks,
        checks=done.checks,
    )
    return to_result(session, task, before, done, options, ledger, stale=bool(reason))


def _check_words(session: Session, item: _Waiting) -> None:
    """Raise UsageError, with near matches, for a pass or option that this LLVM does not know."""
    from planish.llvm import vocabulary

    words = session.vocabulary(architecture(item.entry.target))
    for pipeline in (item.recipe.pipeline, *(suffix for _, suffix in item.recipe.functions)):
        vocabulary.check_passes(words, pipeline)
    vocabulary.check_options(words, item.recipe.options)


def _same(
    task: Task, item: _Waiting, built: Built, options: Options, found: bool
) -> tuple[Baseline, Finished]:
    """The entry as it stands: the baseline's numbers are the lockfile's, nothing is measured."""
    entry = item.entry
    value = built.value(options.goal)
    if value != entry.result:
        raise LockError(
            f"{task.source} replays to {value:,} {entry.unit}, the lockfile says {entry.result:,}",
            hint="the lockfile was edited, or the compiler differs; search again",
        )
    verdict = Verdict(Grade.UNKNOWN)
    for grade in Grade:
        if entry.verdict.startswith(grade.value):
            verdict = Verdict(grade, entry.verdict.removeprefix(grade.value).strip())
    before = Baseline(entry.baseline, entry.baseline, {}, b"", f"{entry.compiler}, locked")
    checks = ["module verifier", "the lockfile's size"]
    if found:
        checks.append("taken from an earlier build of the same bitcode")
    return before, Finished(
        item.recipe,
        built.artefacts[options.emit],
        value,
        dict(built.sections),
        verdict,
        (),
        tuple(checks),
    )
