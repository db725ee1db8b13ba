"""Loop nests as a problem: tensor programs, LoopTune's cursor actions, its state of the nest."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from planish.base.errors import PlanishError, UsageError
from planish.base.records import Outcome
from planish.codegen.units import has_dot4
from planish.gym.env import PlanEnv
from planish.gym.problem import Seen, Start
from planish.measure.machine import processor
from planish.proc.pool import Pool
from planish.search.protocol import Plan
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.cursor_space import ACTIONS, CursorSpace
from planish.tune.cursor_view import FEATURES, HIGHEST, CursorView
from planish.tune.default_schedule import default_nest
from planish.tune.kernel_evaluator import Floor, KernelEvaluator
from planish.tune.kernel_training import shape_identity, training_examples
from planish.tune.roofline import least_seconds, peak_flops, relative_rate
from planish.tune.stage_shape import Target
from planish.tune.workers import kernel_pool

_SECONDS_PER_CALL = 20.0


class LoopProblem:
    """Tensor programs by name, each begun as the plain nest.

    programs  name to program
    The value of a plan is seconds of a call, measured in turn with the rules' schedule, which is
    the baseline. `limit` of a start is the time that the roofline allows.
    """

    highest = HIGHEST
    actions = ACTIONS
    tolerance = 0.5  # timings differ from one run to the next

    def __init__(self, programs: dict[str, Program]) -> None:
        if not programs:
            raise UsageError("no program to tune", hint="give at least one")
        self._vector = processor().vector
        if self._vector < 32:
            raise PlanishError("kernels are tuned on x86 machines with AVX2 or AVX-512 only")
        self.benchmarks = tuple(programs)
        self.features = FEATURES
        self._programs = programs
        self.target = Target.of(processor(), self._vector)
        self._spaces: dict[str, CursorSpace] = {}
        self._views: dict[str, CursorView] = {}
        self._current = self.benchmarks[0]
        self._evaluators: dict[str, tuple[KernelEvaluator, Outcome]] = {}
        self._pool = kernel_pool(_SECONDS_PER_CALL)

    def start(self, benchmark: str) -> Start:
        self._current = benchmark
        _, baseline = self._evaluator(benchmark)
        if not baseline.ok:
            raise UsageError(f"{benchmark} cannot be measured: {baseline.reason}")
        program = self._programs[benchmark]
        relative = relative_rate(program, has_dot4(self._vector))
        limit = least_seconds(program, peak_flops(self._vector), relative)
        seen = self.build(benchmark, Plan())
        if seen.outcome.failure is not None:
            raise UsageError(f"the plain nest of {benchmark} fails: {seen.outcome.reason}")
        return Start(shape_identity(program), Plan(), seen, baseline.value, limit)

    def build(self, benchmark: str, plan: Plan) -> Seen:
        [outcome] = self.measure(benchmark, [plan])
        state = self.space(benchmark).state(plan.actions)
        if state is None:
            return Seen(outcome, np.zeros(len(self.features)))
        return Seen(outcome, self.view(benchmark)(state))

    def measure(self, benchmark: str, plans: Sequence[Plan]) -> Sequence[Outcome]:
        """Outcomes of plans of a benchmark that was started, in their order."""
        evaluator, _ = self._evaluator(benchmark)
        return evaluator(plans)

    def legal(self, plan: Plan) -> bool:
        return self.space(self._current).legal(plan.actions)

    def recipe(self, plan: Plan) -> str:
        return str(self.space(self._current).schedule(plan.actions) or "")

    def replay(self, benchmark: str, recipe: str) -> tuple[str, Outcome]:
        program = self._programs[benchmark]
        with kernel_pool(_SECONDS_PER_CALL) as pool:
            evaluator = self._make(pool, benchmark)
            evaluator.baseline()
            return shape_identity(program), evaluator.measure_text(str(Schedule.parse(recipe)))

    def close(self) -> None:
        self._pool.close()

    def space(self, benchmark: str) -> CursorSpace:
        """The cursor's space of a benchmark."""
        if benchmark not in self._spaces:
            self._spaces[benchmark] = CursorSpace(self._programs[benchmark])
        return self._spaces[benchmark]

    def view(self, benchmark: str) -> CursorView:
        """What is seen of a benchmark's nests."""
        if benchmark not in self._views:
            self._views[benchmark] = CursorView(self._programs[benchmark], self.target)
        return self._views[benchmark]

    def _evaluator(self, benchmark: str) -> tuple[KernelEvaluator, Outcome]:
        if benchmark not in self._evaluators:
            self._pool.seconds = _SECONDS_PER_CALL
            made = self._make(self._pool, benchmark)
            self._evaluators[benchmark] = made, made.baseline()
        return self._evaluators[benchmark]

    def _make(self, pool: Pool, benchmark: str) -> KernelEvaluator:
        program = self._programs[benchmark]
        rules, _ = default_nest(program, self.target)
        floor = Floor(program, self._vector, has_dot4(self._vector))
        return KernelEvaluator(pool, self.space(benchmark), self._vector, rules=rules, floor=floor)


def make_loops(
    programs: dict[str, Program] | None = None, *, count: int = 40, seed: int = 0,
    held_out: Collection[str] = (), groups: Collection[str] = (), **how: Any,
) -> PlanEnv:  # fmt: skip
    """The environment `planish/Loops-v0`: see LoopProblem, and PlanEnv for the rest.

    programs  what to tune; so many training programs of the seed where none are given
    """
    if programs is None:
        examples = training_examples(count, seed, held_out, groups)
        programs = {f"{e.group} {at}": e.program for at, e in enumerate(examples)}
    problem = LoopProblem(programs)
    how = {"max_steps": 10, "reward": "rate", **how}
    with contextlib.ExitStack() as undo:
        undo.callback(problem.close)
        env = PlanEnv(problem, **how)
        undo.pop_all()
    return env
