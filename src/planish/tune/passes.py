"""Optimise one source: search pass recipes, check the winner, never return anything worse."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planish.base.errors import ToolchainError
from planish.base.progress import Step
from planish.base.records import Ledger, Outcome
from planish.llvm.recipe import Recipe
from planish.llvm.requests import UNITS
from planish.search.loop import run
from planish.search.protocol import Best, Evaluate, Plan, Policy
from planish.store.lockfile import LockEntry
from planish.store.store import Key
from planish.tune.coreset import Coreset, load_coreset
from planish.tune.explain import explain
from planish.tune.finish import before_of, finish
from planish.tune.pass_evaluator import PassEvaluator
from planish.tune.pass_space import PassSpace, to_plan, to_recipe
from planish.tune.policies import make_policy
from planish.tune.result import Finished, Result, Share, to_result
from planish.tune.session import Options, Session
from planish.tune.source import (
    Baseline,
    Request,
    Task,
    architecture,
    default_pipeline,
    load,
)


@dataclass
class Search:
    """What a search has found out so far; kept outside the loop, so that Ctrl-C loses nothing."""

    evaluator: PassEvaluator
    best: Best
    baseline: float
    failures: Counter[str] = field(default_factory=Counter)
    curve: list[float] = field(default_factory=list)
    interrupted: bool = False


def optimise(
    session: Session,
    path: Path,
    request: Request,
    options: Options,
    entries: Sequence[LockEntry] = (),
) -> Result:
    """Search a recipe for one source and build it.

    entries  the lockfile's earlier recipes for the source; the one for this target is tried
             first, so that a new search never ends behind an old one
    Raises UsageError, CompileError or ToolchainError when the baseline cannot be built.
    """
    task = load(path, request, session.toolchain, session.pool)
    return optimise_task(session, task, options, entries)


def optimise_task(
    session: Session,
    task: Task,
    options: Options,
    entries: Sequence[LockEntry] = (),
    starts: Sequence[Plan] = (),
) -> Result:
    """Search a recipe for a task.

    starts  pipelines beside the level's own; the search goes out from the best of them
    """
    started = time.monotonic()
    before = before_of(session, task, options)
    search = _prepare(session, task, options, starts)
    _search(session, task, options, search, entries)
    recipe = to_recipe(search.best.plan)
    shares: tuple[Share, ...] = ()
    if options.explain and not search.interrupted:
        recipe, shares = explain(recipe, search.evaluator)
    done = finish(session, task, before, recipe, options)
    ledger = _ledger(session, options, before, search, done, time.monotonic() - started)
    return to_result(
        session, task, before, done, options, ledger, shares, interrupted=search.interrupted
    )


def make_space(
    session: Session, task: Task, coreset: Coreset, level: str, start: Plan | None = None
) -> PassSpace:
    """The vocabulary of this LLVM and target, without what was expelled.

    start  the plan that a search goes out from; the level's own pipeline where none is given
    """
    words = session.vocabulary(architecture(task.facts.triple))
    expelled = set(coreset.expelled)
    if session.store is not None:
        expelled.update(session.store.expelled(session.compiler))
    return PassSpace(
        start or Plan((default_pipeline(level, session.pool),)),
        [word for word in (*words.module, *words.attributes) if word not in expelled],
        [word for word in words.options if word not in expelled],
    )


def make_key(session: Session, task: Task, goal: str) -> Key:
    """What outcomes of the task are stored under."""
    return Key(task=task.hash, target=task.target, goal=goal, compiler=session.compiler)


def _prepare(session: Session, task: Task, options: Options, starts: Sequence[Plan] = ()) -> Search:
    key = make_key(session, task, options.goal)
    evaluator = PassEvaluator(session.pool, task.search, key, session.store, options.goal)
    start = Plan((default_pipeline(task.request.level, session.pool),))
    [outcome] = evaluator([start])
    if not outcome.ok:
        raise ToolchainError(
            f"{task.source}: the baseline does not build: {outcome.failure}: {outcome.reason}",
            hint="is the module valid for this LLVM?",
        )
    evaluator.counts.builds = evaluator.counts.cached = 0
    best = Best(start, outcome)
    for plan, other in zip(starts, evaluator(starts), strict=True):
        best.see(plan, other)
    return Search(evaluator, best, outcome.value, curve=[outcome.value])


def _search(
    session: Session, task: Task, options: Options, search: Search, entries: Sequence[LockEntry]
) -> None:
    coreset = load_coreset(architecture(task.facts.triple), options.goal)
    start = search.best.plan
    space = make_space(session, task, coreset, task.request.level, start)
    kept = [e.recipe for e in entries if e.recipe and e.target == task.facts.triple]
    seeds = [to_plan(Recipe.parse(text)) for text in kept]
    outcome = search.best.outcome
    assert outcome is not None
    evaluate: Evaluate = search.evaluator
    given: Policy | None = None
    if options.policy == "llm":
        from planish.tune.llm import checked, llm_policy

        given = llm_policy(session, task, space, options, outcome.value)
        evaluate = checked(space, evaluate)
    if options.policy == "learned":
        from planish.tune.learned import learned_policy

        given = learned_policy(session, task, space, options)
    policy = make_policy(
        options.policy, space, coreset, options.budget,
        seed=options.seed, functions=options.functions, seeds=seeds, given=given,
    )  # fmt: skip

    def watch(plan: Plan, outcome: Outcome, best: Best) -> None:
        if outcome.failure is not None:
            search.failures[outcome.failure.value] += 1
        search.curve.append(best.value)
        session.progress.step(
            Step(
                task=str(task.source),
                phase=policy.phase,
                done=len(search.curve) - 1,
                total=options.budget.builds,
                best=best.value,
                baseline=search.baseline,
                unit=UNITS[options.goal],
            )
        )

    try:
        run(
            space, policy, evaluate, options.budget,
            baseline=outcome, watch=watch, best=search.best,
        )  # fmt: skip
    except KeyboardInterrupt:
        search.interrupted = True


def _ledger(
    session: Session,
    options: Options,
    before: Baseline,
    search: Search,
    done: Finished,
    seconds: float,
) -> Ledger:
    counts = search.evaluator.counts
    fallbacks = [*done.fallbacks, *session.pool.notes]
    if search.interrupted:
        fallbacks.insert(0, "interrupted: the best recipe so far was kept")
    return Ledger(
        builds=counts.builds,
        duplicates=counts.duplicates,
        check_builds=done.builds,
        cached=counts.cached,
        seconds=seconds,
        failures=dict(search.failures),
        baseline=before.words,
        policy=options.policy,
        seed=options.seed,
        fallbacks=tuple(fallbacks),
        checks=done.checks,
        curve=tuple(search.curve),
    )
