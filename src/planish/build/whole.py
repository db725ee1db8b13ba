"""`--whole-program`: a recorded program's units as one module, tuned and linked again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import CompileError, LockError, PlanishError, UsageError
from planish.build.blobs import Blobs
from planish.build.linking import program_size, relink
from planish.build.symbols import pulled, visible
from planish.build.units import Link, Recorded, Recording
from planish.llvm.recipe import Recipe
from planish.measure.sizes import allocated_bytes
from planish.store import lockfile
from planish.store.lockfile import LockEntry
from planish.tune.result import Result, lock_name
from planish.tune.session import Options, Session
from planish.tune.source import Task
from planish.tune.whole import LTO, build_whole, merge_units, optimise_whole, whole_task


@dataclass(frozen=True)
class Program:
    """A program's module, ready to be tuned.

    merged  digests of the objects that it stands for
    """

    link: Link
    task: Task
    merged: tuple[str, ...]
    units: tuple[Recorded, ...]


@dataclass(frozen=True)
class WholeResult:
    """What became of a program; all sizes are allocated bytes of the linked file.

    plain     the build's own
    lto       the same bitcode through the pipeline of link-time optimisation, same linker
    best      the tuned one; 0 where it is not kept
    """

    program: str
    plain: int
    lto: int
    best: int
    result: Result
    sections: dict[str, int]
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.program}: left as it is: {self.problem}"
        return (
            f"{self.program}: {self.best:,} bytes linked; link-time optimisation {self.lto:,} "
            f"({self.best / self.lto - 1:+.1%}), the build's own {self.plain:,} "
            f"({self.best / self.plain - 1:+.1%})"
        )


def prepare(session: Session, record: Path, recording: Recording, link: Link) -> Program:
    """Link the program's units to one module; raises UsageError where that cannot be done."""
    blobs = Blobs(record)
    by_object = {unit.made: unit for unit in recording.units if unit.bitcode}
    taken = pulled(link, blobs)
    merged = [name for name in taken if name in by_object]
    if not merged:
        raise UsageError(
            f"{link.output} is linked from no unit that was recorded as bitcode",
            hint="record the whole build: clean it first",
        )
    keep = visible(link, blobs, merged, taken)
    parts = [blobs.get(by_object[name].bitcode) for name in merged]
    module = merge_units(session, parts, [taken[name].wanted for name in merged], keep)
    units = tuple(by_object[name] for name in merged)
    flags = [flag for unit in units for flag in unit.flags]
    return Program(link, whole_task(session, link.path, module, flags), tuple(merged), units)


def tune_whole(
    session: Session,
    record: Path,
    program: Program,
    options: Options,
    lock: Path,
    output: Path,
) -> WholeResult:
    """Search, link, and keep what is smaller, linked, than the build's own and than LTO."""
    link, blobs = program.link, Blobs(record)
    name = lock_name(link.path, lock.parent)
    entries = [e for e in lockfile.load(lock).entries if (e.source, e.goal) == (name, "size")]
    result = optimise_whole(session, program.task, options, entries)
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        plain = _linked(link, blobs, {}, None, Path(folder) / "plain")
        # The same linker and front end; `bench/builds.py` compares with the linker's own.
        lto, baseline = plain, b""
        try:
            baseline = build_whole(session, program.task, Recipe(LTO))
            lto = link_whole(program, blobs, baseline, Path(folder) / "lto")
        except PlanishError:
            lto = plain  # it does not build or link; the tuned one still may
        tuned = Path(folder) / "tuned"
        try:
            # As a replay builds it, which the baseline's own artefact need not be.
            code = build_whole(session, program.task, result.recipe)
            best = link_whole(program, blobs, code, tuned)
        except CompileError as error:
            return _left(link, plain, lto, result, f"it does not link: {_last(error)}")
        if baseline and lto < best:  # objects that are smaller need not link to a smaller program
            tuned, best = Path(folder) / "lto", lto
            result = replace(result, recipe=Recipe(LTO), best=allocated_bytes(baseline))
        if best >= plain:
            words = f"{best:,} bytes linked, the build's own {plain:,}, with LTO {lto:,}"
            return _left(link, plain, lto, result, words)
        sections = program_size(tuned)[1]
        output.write_bytes(tuned.read_bytes())
        output.chmod(0o755)
    entry = replace(result.entry(lock.parent), source=name)
    lockfile.update(lock, [entry])
    return WholeResult(link.output, plain, lto, best, result, sections)


def replay_whole(session: Session, record: Path, program: Program, lock: Path, output: Path) -> int:
    """Build the program by its entry, with no search; its allocated bytes.

    Raises LockError where there is no entry, or one for another version of the program.
    """
    name = lock_name(program.link.path, lock.parent)
    entry = lockfile.load(lock).find(name, "size", program.task.facts.triple)
    again = "run: planish tune --whole-program"
    if entry is None:
        raise LockError(f"{lock} has no entry for {name}", hint=again)
    reason = _stale(entry, program, session)
    if reason:
        raise LockError(f"the entry for {name} is stale: {reason}", hint=again)
    code = build_whole(session, program.task, Recipe.parse(entry.recipe))
    size = link_whole(program, Blobs(record), code, output)
    output.chmod(0o755)
    return size


def link_whole(program: Program, blobs: Blobs, code: bytes, output: Path) -> int:
    """Link with the program's object in the place of its units'; allocated bytes."""
    gone: dict[str, bytes | None] = dict.fromkeys(program.merged)
    return _linked(program.link, blobs, gone, code, output)


def _linked(
    link: Link, blobs: Blobs, replaced: dict[str, bytes | None], first: bytes | None, output: Path
) -> int:
    relink(link, blobs, replaced, output, first=first)
    return program_size(output)[0]


def _stale(entry: LockEntry, program: Program, session: Session) -> str:
    if entry.hash != program.task.hash:
        return "a unit or its flags have changed"
    if entry.compiler != session.compiler:
        return f"made with {entry.compiler}, this is {session.compiler}"
    return ""


def _left(link: Link, plain: int, lto: int, result: Result, problem: str) -> WholeResult:
    return WholeResult(link.output, plain, lto, 0, result, {}, problem)


def _last(error: CompileError) -> str:
    lines: Sequence[str] = (error.diagnostics or str(error)).strip().splitlines()
    return next((line for line in lines if "error" in line or "undefined" in line), str(error))
