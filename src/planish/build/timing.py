"""Run time as a goal, or as a bound: recorded programs linked with other objects and run in turn.

The user's command runs the program that the variable PROGRAM names. What is timed is wall time,
with a warm-up, both programs in turn and in an order drawn anew each round, at least seven rounds.
A difference inside the 95 % interval is none.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from planish.base.config import with_environment
from planish.base.errors import PlanishError, UsageError
from planish.build.blobs import Blobs
from planish.build.linking import relink
from planish.build.units import Link, Recorded, Recording
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built
from planish.measure.timer import Timed, compare
from planish.proc.pool import Call
from planish.store import lockfile
from planish.tune.result import lock_name
from planish.tune.session import Options, Session
from planish.tune.source import Request, Task, architecture, load

_SECONDS = 600
_FAST = ("@no-minsize", "@no-optsize")
# Pipelines, then what is added to the best of them, one after another.
_PIPELINES = (("default<O2>",), ("default<O3>",), ("default<O2>", "default<O2>"))
_ADDED = (
    "@tune-cpu=haswell", "-disable-lsr", "-enable-ipra", "-pre-RA-sched=list-burr",
    "-disable-machine-licm", "-pre-RA-sched=source", "-disable-cgp",
)  # fmt: skip


@dataclass(frozen=True)
class Raced:
    """What a search for run time came to.

    timed   the kept program over the build's own; None where none is faster beyond the noise
    tried   each candidate's words and its ratio
    """

    program: str
    timed: Timed | None
    recipe: Recipe
    tried: tuple[tuple[str, Timed], ...]
    problem: str = ""

    def __str__(self) -> str:
        if self.timed is None:
            return f"{self.program}: left as it is: {self.problem}"
        low, high = self.timed.low, self.timed.high
        return (
            f"{self.program}: {self.timed.ratio:.3f} of the time of the build's own "
            f"(95 %: {low:.3f} to {high:.3f}), by {self.recipe}"
        )


@dataclass
class _Leader:
    """The best candidate so far."""

    recipe: Recipe = field(default_factory=Recipe)
    ratio: float = math.inf


def time_programs(
    programs: Mapping[str, Path], command: str, seconds: float, seed: int = 0
) -> dict[str, Timed]:
    """Each program's time, in turn; the first is what the others are compared with.

    Raises UsageError where the command fails with the first.
    """
    names = list(programs)
    runs = {name: _runner(command, programs[name]) for name in names}
    return {row.name: row for row in compare(runs, seconds=seconds, seed=seed).rows}


def race(
    session: Session,
    record: Path,
    recording: Recording,
    link: Link,
    command: str,
    options: Options,
    lock: Path,
    *,
    seconds: float = 4.0,
    watch: Callable[[str], None] = lambda words: None,
) -> Raced:
    """Search one recipe for all units of a program by its measured run time.

    The winner has to win again in a fresh comparison, beyond the noise. Then every unit of the
    program has an entry with it in the lockfile.
    """
    blobs = Blobs(record)
    wanted = link.digests
    units = [u for u in recording.units if u.made in wanted and u.bitcode and not u.problem]
    tasks = {}
    for unit in units:
        try:
            tasks[unit.made] = _task(session, unit)
        except PlanishError as error:  # a unit of data only, or one that has changed
            watch(f"{unit.source} stays as it is: {error}")
    units = [unit for unit in units if unit.made in tasks]
    if not units:
        raise UsageError(
            f"{link.output} is linked from no unit that can be tuned", hint="record it again"
        )
    with tempfile.TemporaryDirectory(prefix="planish-") as place:
        folder = Path(place)
        own = folder / "own"
        relink(link, blobs, {}, own)
        tried: list[tuple[str, Timed]] = []
        leader = _Leader()
        for recipe in _candidates(session, tasks, leader):
            path = folder / f"candidate{len(tried)}"
            try:
                relink(link, blobs, _objects(session, tasks, recipe), path)
                timed = time_programs({"own": own, "it": path}, command, seconds, options.seed)
            except PlanishError as error:
                if not tried:
                    raise
                watch(f"{recipe}: {error}")
                continue
            tried.append((str(recipe), timed["it"]))
            watch(f"{timed['it'].ratio:.3f} [{timed['it'].low:.3f}, {timed['it'].high:.3f}] "
                  f"{str(recipe).replace(chr(10), '; ')}")  # fmt: skip
            if timed["it"].ratio < leader.ratio:
                leader.recipe, leader.ratio = recipe, timed["it"].ratio
        best = leader.recipe
        path = folder / "winner"
        objects = _objects(session, tasks, best)
        relink(link, blobs, objects, path)
        again = time_programs({"own": own, "it": path}, command, 2 * seconds, options.seed + 1)
    if not again["it"].faster:
        low, high = again["it"].low, again["it"].high
        problem = f"the best candidate is inside the noise ({low:.3f} to {high:.3f})"
        return Raced(link.output, None, best, tuple(tried), problem)
    _write(session, lock, units, tasks, best, objects, again["it"])
    return Raced(link.output, again["it"], best, tuple(tried))


def _candidates(session: Session, tasks: Mapping[str, Task], leader: _Leader) -> Iterator[Recipe]:
    """Recipes to try; those later on build on the best so far."""
    triple = next(iter(tasks.values())).facts.triple
    words = session.vocabulary(architecture(triple))
    known = {*words.options, *words.attributes}
    for pipeline in _PIPELINES:
        yield Recipe((*_FAST, *pipeline))
    for word in _ADDED:
        base = leader.recipe
        if word not in known:
            continue
        if word.startswith("@"):
            yield replace(base, passes=(word, *base.passes))
        elif word.partition("=")[0] not in {o.partition("=")[0] for o in base.options}:
            yield replace(base, options=tuple(sorted((*base.options, word))))


def _task(session: Session, unit: Recorded) -> Task:
    from planish.build.tuning import inside

    with inside(Path(unit.folder)):
        return load(
            unit.path, Request(unit.flags, named=unit.source), session.toolchain, session.pool
        )


def _objects(
    session: Session, tasks: Mapping[str, Task], recipe: Recipe
) -> dict[str, bytes | None]:
    calls = [
        Call(recipe.options, Build(t.final, recipe, emit=True, keep=("obj",)), (t.final.blob,))
        for t in tasks.values()
    ]
    made: dict[str, bytes | None] = {}
    for name, reply in zip(tasks, session.pool.run(calls), strict=True):
        if reply.failure is not None:
            raise UsageError(f"a candidate does not build: {reply.reason}")
        built: Built = reply.value
        made[name] = built.artefacts["obj"]
    return made


def _write(
    session: Session,
    lock: Path,
    units: list[Recorded],
    tasks: Mapping[str, Task],
    recipe: Recipe,
    objects: Mapping[str, bytes | None],
    timed: Timed,
) -> None:
    """Entries that any replay reads. Their sizes are the objects', which a replay can check; the
    time stands beside them."""
    from planish.measure.sizes import allocated_bytes

    entries = []
    for unit in units:
        task = tasks[unit.made]
        size = allocated_bytes(objects[unit.made] or b"")
        entries.append(
            lockfile.LockEntry(
                source=lock_name(unit.path, lock.parent),
                hash=task.hash,
                goal="size",
                target=task.facts.triple,
                flags=unit.flags,
                recipe=str(recipe),
                baseline=unit.own or size,
                result=size,
                unit="bytes",
                compiler=session.compiler,
                verdict="unknown",
                extra={"time": f"{timed.ratio:.3f} [{timed.low:.3f}, {timed.high:.3f}]"},
            )
        )
    lockfile.update(lock, entries)


def _runner(command: str, program: Path) -> Callable[[], None]:
    environment = with_environment(PROGRAM=str(program))

    def run() -> None:
        try:
            done = subprocess.run(
                command, shell=True, env=environment, capture_output=True, timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"the run command takes more than {_SECONDS} s") from error
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise UsageError(
                f"the run command fails (exit code {done.returncode}): {(words or [''])[-1]}",
                hint="it runs the program that $PROGRAM names: --run '$PROGRAM -9 -c big > out'",
            )

    return run
