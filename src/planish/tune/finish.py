"""From the best recipe to the artefact that is handed out: built, checked, or the baseline."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from planish.base.errors import UsageError
from planish.base.records import Grade, Verdict
from planish.llvm.module import BASELINE
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built
from planish.proc.pool import Call
from planish.tune.result import Finished
from planish.tune.session import Options, Session
from planish.tune.source import Baseline, Task, baseline, default_pipeline

if TYPE_CHECKING:
    from planish.tune.verified import Verified


_UNSTEADY = "the best recipe does not build to the same bytes twice"
_PROCESSES = 6  # that are asked before bytes count as the same everywhere


def finish(
    session: Session, task: Task, before: Baseline, recipe: Recipe, options: Options
) -> Finished:
    """Build the recipe anew, twice, in two processes, and keep it if it holds what it promised.

    Kept is what is smaller than the baseline, builds to the same bytes both times and passes the
    user's check. Elements without which it would do so are left out; everything else is the
    baseline, with the reason in `fallbacks`.
    """
    if options.check is not None and not options.check(before.artefact):
        raise UsageError(
            "the test fails on the baseline, too", hint="it cannot judge the optimised program"
        )
    from planish.tune.safety import culprits, without

    fallbacks: list[str] = []
    builds = 0
    while recipe != Recipe():
        built, problem = _build_twice(session, task, recipe, options)
        builds += 2
        if built is None and problem == _UNSTEADY:
            steady = functools.partial(_steady, session, task, options=options)
            found, tried = culprits(recipe, steady)
            builds += tried * _PROCESSES
            fallbacks += [f"{_UNSTEADY}: {element} left out" for element in found] or [_UNSTEADY]
            if not found:
                break
            recipe = without(recipe, found)
            continue
        if built is None:
            fallbacks.append(problem)
            break
        value = built.value(options.goal)
        if value >= before.value(options.goal):
            fallbacks.append("nothing beat the baseline")
            break
        tests = options.check is None or options.check(built.artefacts["obj"])
        verified = _verified(session, task, built, recipe, options) if tests else None
        if tests and (verified is None or not verified.problem):
            return _kept(recipe, built, options, fallbacks, builds, verified)
        if verified is not None and not verified.refuted:
            fallbacks.append(verified.problem)
            if len(verified.unknown) == len(verified.report.functions):
                break
            recipe = sheltering(recipe, verified.unknown)
            continue
        what = "the test fails" if verified is None else verified.problem
        names = verified.refuted if verified is not None else []
        holds = functools.partial(_holds, session, task, options=options, refuted=names)
        found, tried = culprits(recipe, holds)
        builds += tried
        for element in found:
            reason = f"{what} with {element} on {task.source.name}"
            fallbacks.append(f"{what}: {element} expelled")
            if session.store is not None:
                session.store.expel(session.compiler, element, reason)
        if not found:
            fallbacks.append(f"{what}, and no single element is to blame")
            break
        recipe = without(recipe, found)
    return _baseline(session, task, before, options, fallbacks, builds)


def before_of(session: Session, task: Task, options: Options) -> Baseline:
    """The baseline, as far as the options need it."""
    return baseline(
        task, options.goal, session.toolchain, session.pool, code="obj" in options.keeps
    )


def build_once(session: Session, task: Task, recipe: Recipe, options: Options) -> Built:
    """The recipe's artefacts as a replay makes them; raises UsageError when it does not build."""
    built, problem = _build(session, task, recipe, options)
    if built is None:
        raise UsageError(f"{task.source}: {problem}", hint="search again without --replay")
    return built


def _build(
    session: Session, task: Task, recipe: Recipe, options: Options
) -> tuple[Built | None, str]:
    build = Build(task.final, recipe, emit=options.needs_code, keep=options.keeps)
    call = Call(recipe.options, build, (task.final.blob,))
    [reply] = session.pool.run([call])
    if reply.failure is not None:
        return None, f"the best recipe does not build again: {reply.failure}: {reply.reason}"
    return reply.value, ""


def _steady(session: Session, task: Task, recipe: Recipe, *, options: Options) -> bool:
    """Whether every new process builds the same bytes, as far as a few can tell."""
    made = []
    for _ in range(_PROCESSES):
        session.pool.close()
        built, _ = _build(session, task, recipe, options)
        made.append(built.artefacts if built is not None else None)
        if made[-1] != made[0]:
            return False
    return True


def _build_twice(
    session: Session, task: Task, recipe: Recipe, options: Options
) -> tuple[Built | None, str]:
    first, problem = _build(session, task, recipe, options)
    if first is None:
        return None, problem
    session.pool.close()  # the second build runs in a process that has built nothing before
    second, problem = _build(session, task, recipe, options)
    if second is None:
        return None, problem
    if first.artefacts != second.artefacts:
        return None, _UNSTEADY
    return first, ""


def _holds(
    session: Session, task: Task, recipe: Recipe, *, options: Options, refuted: list[str]
) -> bool:
    """Whether a part of the recipe keeps the user's test, or the functions that were refuted."""
    built, _ = _build(session, task, recipe, options)
    if built is None:
        return False
    verified = _verified(session, task, built, recipe, options, refuted) if refuted else None
    if verified is not None:
        return not any(name in refuted for name in verified.refuted)
    return options.check is None or options.check(built.artefacts["obj"])


def _verified(
    session: Session,
    task: Task,
    built: Built,
    recipe: Recipe,
    options: Options,
    functions: list[str] | None = None,
) -> Verified | None:
    """What verification says, where it was asked for: it is imported for that alone."""
    if not options.verify:
        return None
    from planish.tune.verified import verify_build

    sheltered = [name for name, suffix in recipe.functions if suffix == BASELINE]
    return verify_build(
        session, task, built, sheltered, functions or (), tested=options.check is not None
    )


def sheltering(recipe: Recipe, names: Iterable[str]) -> Recipe:
    """The recipe that leaves these functions to the default simplifications."""
    return recipe.with_functions({**dict(recipe.functions), **dict.fromkeys(names, BASELINE)})


def _kept(
    recipe: Recipe,
    built: Built,
    options: Options,
    fallbacks: list[str],
    builds: int,
    verified: Verified | None = None,
) -> Finished:
    checks = ["module verifier", "replayed to the same bytes"]
    verdict = Verdict(Grade.UNKNOWN)
    if options.check is not None:
        checks.append("the given test passes")
        verdict = Verdict(Grade.TESTED, "by the given test")
    if verified is not None:
        checks += verified.words
        verdict = verified.verdict
    return Finished(
        recipe, built.artefacts[options.emit], built.value(options.goal), dict(built.sections),
        verdict, tuple(fallbacks), tuple(checks), builds,
    )  # fmt: skip


def _baseline(
    session: Session,
    task: Task,
    before: Baseline,
    options: Options,
    fallbacks: list[str],
    builds: int,
) -> Finished:
    artefact = before.artefact
    if options.emit != "obj":
        level = Recipe((default_pipeline(task.request.level, session.pool),))
        artefact = build_once(session, task, level, options).artefacts[options.emit]
    verdict = Verdict(Grade.PROVED, "it is the baseline itself")
    return Finished(
        Recipe(), artefact, before.value(options.goal), before.sections, verdict,
        tuple(fallbacks), ("the baseline itself",), builds,
    )  # fmt: skip
