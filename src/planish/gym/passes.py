"""Pass ordering as a problem: modules, elements of a pass pipeline, instructions by opcode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planish.base.errors import UsageError, unknown
from planish.base.records import Failure, Measurement, Outcome
from planish.gym.env import PlanEnv
from planish.gym.problem import Seen, Start
from planish.llvm.frontend import SOURCE_SUFFIXES
from planish.llvm.recipe import Recipe
from planish.llvm.requests import UNITS, Build, Built
from planish.model.corpus import load_corpus
from planish.proc.pool import Call
from planish.search.protocol import Plan
from planish.tune.pass_space import PassSpace, to_plan, to_recipe
from planish.tune.session import Session
from planish.tune.source import Request, Task, architecture, default_pipeline, load
from planish.verify.opcodes import OPCODES

STARTS = ("module", "baseline")
_HIGHEST = 32.0
# Exception handling on Windows, and what later versions add.
_NUMBERS = {number: at for at, number in enumerate(OPCODES)}


class PassProblem:
    """Modules from files, folders of sources, and corpora.

    paths   a file (C, C++, .ll, .bc), a folder of such files, or a corpus (`planish corpus build`)
    goal    `instructions` (of LLVM IR) or `size` (allocated bytes of the object)
    start   an episode begins with the `module` as the front end gives it, or with the `baseline`
    split   of a corpus, only this split (`train`, `test`, ...)
    level   the baseline's optimisation level
    flags   the compiler's flags
    Features are log2(1 + n) for the n instructions of each opcode.
    """

    highest = _HIGHEST

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        goal: str = "instructions",
        start: str = "module",
        split: str = "",
        level: str = "Oz",
        flags: Sequence[str] = (),
    ) -> None:
        if goal not in UNITS:
            raise unknown("goal", goal, UNITS)
        if start not in STARTS:
            raise unknown("start", start, STARTS)
        self.benchmarks = _benchmarks([Path(path) for path in paths], split)
        self.features = (*OPCODES.values(), "other")
        self._goal = goal
        self._from_baseline = start == "baseline"
        self._request = Request(tuple(flags), level)
        self._session = Session()
        pool = self._session.pool
        self._architecture = architecture(pool.info.default_triple)
        words = self._session.vocabulary(self._architecture)
        baseline = Plan((default_pipeline(level, pool),))
        self._space = PassSpace(baseline, (*words.module, *words.attributes), ())
        self.actions = (*baseline.actions, *words.module, *words.attributes)
        self._tasks: dict[str, Task] = {}
        self._built: dict[str, dict[Plan, Seen]] = {}

    def start(self, benchmark: str) -> Start:
        task = self._task(benchmark)
        baseline = self.build(benchmark, self._space.start)
        first = self._space.start if self._from_baseline else Plan()
        seen = self.build(benchmark, first)
        for built in (baseline, seen):
            if built.outcome.failure is not None:
                raise UsageError(
                    f"{benchmark} does not build: {built.outcome.reason}",
                    hint="is the module valid for this LLVM?",
                )
        # A module of no size at all would make every share infinite.
        return Start(task.hash, first, seen, max(baseline.outcome.value, 1.0))

    def build(self, benchmark: str, plan: Plan) -> Seen:
        known = self._built.setdefault(benchmark, {})
        if plan not in known:
            known[plan] = self._build(self._session, self._task(benchmark), to_recipe(plan))
        return known[plan]

    def legal(self, plan: Plan) -> bool:
        return self._space.legal(plan.actions)

    def recipe(self, plan: Plan) -> str:
        return str(to_recipe(plan))

    def replay(self, benchmark: str, recipe: str) -> tuple[str, Outcome]:
        parsed = Recipe.parse(recipe)
        with Session() as session:
            task = load(Path(benchmark), self._request, session.toolchain, session.pool)
            if not self._space.legal(to_plan(parsed).actions):
                return task.hash, Outcome(recipe, failure=Failure.INVALID, reason="not legal")
            return task.hash, self._build(session, task, parsed).outcome

    def close(self) -> None:
        self._session.close()

    def _task(self, benchmark: str) -> Task:
        if benchmark not in self._tasks:
            session = self._session
            task = load(Path(benchmark), self._request, session.toolchain, session.pool)
            if architecture(task.facts.triple) != self._architecture:
                raise UsageError(
                    f"{benchmark} is for {task.facts.triple}, not for {self._architecture}",
                    hint="the actions are those of this machine's target",
                )
            self._tasks[benchmark] = task
        return self._tasks[benchmark]

    def _build(self, session: Session, task: Task, recipe: Recipe) -> Seen:
        build = Build(task.search, recipe, emit=self._goal == "size", opcodes=True)
        [reply] = session.pool.run([Call(recipe.options, build, (task.search.blob,))])
        features = np.zeros(len(self.features))
        if reply.failure is not None:
            return Seen(Outcome(str(recipe), failure=reply.failure, reason=reply.reason), features)
        built: Built = reply.value
        for opcode, count in built.opcodes.items():
            features[_NUMBERS.get(opcode, -1)] += count
        measured = Measurement(built.value(self._goal), UNITS[self._goal])
        outcome = Outcome(str(recipe), measured, identity=built.identity)
        return Seen(outcome, np.log2(1 + features))


def make_passes(
    benchmark: str | Path | Sequence[str | Path],
    *,
    goal: str = "instructions",
    start: str = "module",
    split: str = "",
    level: str = "Oz",
    flags: Sequence[str] = (),
    **how: Any,
) -> PlanEnv:
    """The environment `planish/Passes-v0`: see PassProblem, and PlanEnv for the rest."""
    paths = [benchmark] if isinstance(benchmark, str | Path) else list(benchmark)
    problem = PassProblem(paths, goal=goal, start=start, split=split, level=level, flags=flags)
    try:
        return PlanEnv(problem, **how)
    except BaseException:
        problem.close()
        raise


def _benchmarks(paths: Sequence[Path], split: str) -> tuple[str, ...]:
    """The files that the paths stand for; raises UsageError where there are none."""
    found: list[Path] = []
    for path in paths:
        if (path / "index.json").exists():
            modules = [m for m in load_corpus(path).modules if split in ("", m.split)]
            found += [path / "modules" / f"{module.sha}.bc" for module in modules]
        elif path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            found += [file for file in files if file.suffix in SOURCE_SUFFIXES]
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"there is no {path}", hint="a file, a folder, or a corpus")
    if not found:
        raise UsageError(
            f"no module in {', '.join(map(str, paths)) or 'nothing'}",
            hint="C, C++, .ll and .bc are sources; is the split named right?",
        )
    return tuple(str(path) for path in found)
