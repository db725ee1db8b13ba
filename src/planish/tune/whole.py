"""A whole program as one task: its units' bitcode linked to one module and tuned as such.

The search goes out from the better of two pipelines: the level's own, and that of link-time
optimisation; function recipes and the code generator's options come on top as for any module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from planish.base.errors import UsageError
from planish.base.hashing import digest
from planish.llvm import frontend
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built, Inspect, Job, Merge
from planish.proc.pool import Call
from planish.search.protocol import Plan
from planish.store.lockfile import LockEntry
from planish.tune.passes import optimise_task
from planish.tune.result import Result
from planish.tune.session import Options, Session
from planish.tune.source import Request, Task, default_pipeline, make_task

LTO = ("lto-pre-link<Oz>", "lto<Oz>")


def merge_units(
    session: Session,
    parts: Sequence[bytes],
    needs: Sequence[frozenset[str]],
    keep: frozenset[str],
) -> bytes:
    """The program's module as bitcode (`llvm/merging.py`); raises UsageError where LLVM fails."""
    names = tuple(digest(part) for part in parts)
    for name, part in zip(names, parts, strict=True):
        session.pool.keep(name, part)
    [reply] = session.pool.run([Call((), Merge(names, tuple(needs), keep), names)])
    for name in names:
        session.pool.forget(name)
    if reply.failure is not None:
        raise UsageError(
            f"the units do not link to one module: {reply.reason}",
            hint="were they compiled for one target?",
        )
    data: bytes = reply.value
    return data


def whole_task(session: Session, name: Path, module: bytes, flags: Sequence[str]) -> Task:
    """The task of a program's module.

    name   what the program is called
    flags  those of its units that concern code generation
    """
    blob = digest(module)
    session.pool.keep(blob, module)
    [reply] = session.pool.run([Call((), Inspect(Job(blob)), (blob,))])
    if reply.failure is not None:
        raise UsageError(f"cannot use {name}'s module: {reply.reason}", hint="record it again")
    request = Request()
    task = make_task(
        name.with_suffix(".bc"), request, reply.value, blob, session.toolchain, session.pool
    )
    # As for a source: a frame pointer that nobody asked for may go.
    frames = frontend.asks_for_frames(flags)
    jobs = {kind: replace(getattr(task, kind), frames=frames) for kind in ("search", "final")}
    return replace(task, source=name, **jobs)


def optimise_whole(
    session: Session, task: Task, options: Options, entries: Sequence[LockEntry] = ()
) -> Result:
    """Search a recipe for the program's module; see `passes.optimise`."""
    return optimise_task(session, task, options, entries, [Plan(LTO)])


def build_whole(session: Session, task: Task, recipe: Recipe) -> bytes:
    """The program's object by a recipe, the empty one being the level's own pipeline.

    Raises UsageError when it does not build.
    """
    if recipe == Recipe():
        recipe = Recipe((default_pipeline(task.request.level, session.pool),))
    build = Build(task.final, recipe, emit=True, keep=("obj",))
    [reply] = session.pool.run([Call(recipe.options, build, (task.final.blob,))])
    if reply.failure is not None:
        raise UsageError(
            f"{task.source}: the recipe does not build: {reply.reason}",
            hint="run: planish tune --whole-program",
        )
    built: Built = reply.value
    return built.artefacts["obj"]
