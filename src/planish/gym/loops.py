"""Loop nests as a problem: tensor programs, LoopTune's cursor actions, its state of the nest.

Source: LoopTune (2309.01825): for each loop the cursor, its size, its tail, what kind it is, and a
histogram of the strides with which it walks memory.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import PlanishError, UsageError
from planish.base.records import Outcome
from planish.codegen.units import has_dot4
from planish.gym.env import PlanEnv
from planish.gym.problem import Seen, Start
from planish.measure.machine import processor
from planish.proc.pool import Pool
from planish.search.protocol import Plan
from planish.tensor.program import Program, Stage
from planish.tensor.schedule import Schedule
from planish.tune.cursor_space import ACTIONS, CursorSpace, Loop, State, tail, trips
from planish.tune.default_schedule import default_nest
from planish.tune.kernel_evaluator import Floor, KernelEvaluator
from planish.tune.kernel_training import shape_identity, training_examples
from planish.tune.roofline import least_seconds, peak_flops, relative_rate
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import Target
from planish.tune.workers import kernel_pool

MOST_LOOPS = 12
_BINS = 16
_OF_LOOP = (
    "cursor", "log size", "log tail", "reduces", "unrolled", "vectorised",
    *(f"strides of 2^{at}" for at in range(_BINS)),
)  # fmt: skip
_SECONDS_PER_CALL = 20.0


class LoopProblem:
    """Tensor programs by name, each begun as the plain nest.

    programs  name to program; a program of more than MOST_LOOPS loops shows its first ones
    The value of a plan is seconds of a call, measured in turn with the rules' schedule, which is
    the baseline. `limit` of a start is the time that the roofline allows.
    """

    highest = 32.0
    actions = ACTIONS
    tolerance = 0.5  # timings differ from one run to the next

    def __init__(self, programs: dict[str, Program]) -> None:
        if not programs:
            raise UsageError("no program to tune", hint="give at least one")
        self._vector = processor().vector
        if self._vector < 32:
            raise PlanishError("kernels are tuned on x86 machines with AVX2 or AVX-512 only")
        self.benchmarks = tuple(programs)
        self.features = tuple(f"loop {at}: {n}" for at in range(MOST_LOOPS) for n in _OF_LOOP)
        self._programs = programs
        self._target = Target.of(processor(), self._vector)
        self._spaces: dict[str, CursorSpace] = {}
        self._rules: dict[str, dict[str, StageRules]] = {}
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
        evaluator, _ = self._evaluator(benchmark)
        [outcome] = evaluator([plan])
        state = self._space(benchmark).state(plan.actions)
        if state is None:
            return Seen(outcome, np.zeros(len(self.features)))
        return Seen(outcome, self._features(benchmark, state))

    def legal(self, plan: Plan) -> bool:
        return self._space(self._current).legal(plan.actions)

    def recipe(self, plan: Plan) -> str:
        return str(self._space(self._current).schedule(plan.actions) or "")

    def replay(self, benchmark: str, recipe: str) -> tuple[str, Outcome]:
        program = self._programs[benchmark]
        with kernel_pool(_SECONDS_PER_CALL) as pool:
            evaluator = self._make(pool, benchmark)
            evaluator.baseline()
            return shape_identity(program), evaluator.measure_text(str(Schedule.parse(recipe)))

    def close(self) -> None:
        self._pool.close()

    def _space(self, benchmark: str) -> CursorSpace:
        if benchmark not in self._spaces:
            self._spaces[benchmark] = CursorSpace(self._programs[benchmark])
        return self._spaces[benchmark]

    def _evaluator(self, benchmark: str) -> tuple[KernelEvaluator, Outcome]:
        if benchmark not in self._evaluators:
            self._pool.seconds = _SECONDS_PER_CALL
            made = self._make(self._pool, benchmark)
            self._evaluators[benchmark] = made, made.baseline()
        return self._evaluators[benchmark]

    def _make(self, pool: Pool, benchmark: str) -> KernelEvaluator:
        program = self._programs[benchmark]
        rules, _ = default_nest(program, self._target)
        floor = Floor(program, self._vector, has_dot4(self._vector))
        return KernelEvaluator(pool, self._space(benchmark), self._vector, rules=rules, floor=floor)

    def _features(self, benchmark: str, state: State) -> NDArray[np.float64]:
        found = np.zeros((MOST_LOOPS, len(_OF_LOOP)))
        number = 0
        program = self._programs[benchmark]
        for name, loops in state.stages:
            rules = self._stage_rules(benchmark, program.stage(name))
            for at in range(len(loops)):
                if number < MOST_LOOPS:
                    found[number] = _loop_row(rules, loops, at, number == state.cursor)
                number += 1
        return found.ravel()

    def _stage_rules(self, benchmark: str, stage: Stage) -> StageRules:
        known = self._rules.setdefault(benchmark, {})
        if stage.name not in known:
            known[stage.name] = StageRules(stage, self._target, {})
        return known[stage.name]


def _loop_row(
    rules: StageRules, loops: Sequence[Loop], at: int, cursor: bool
) -> NDArray[np.float64]:
    """One loop as the agent sees it; strides are in elements, in bins of powers of two."""
    loop, stage = loops[at], rules.stage
    row = np.zeros(len(_OF_LOOP))
    row[:6] = (
        cursor, math.log2(trips(loops, at, stage)), math.log2(1 + tail(loops, at, stage)),
        loop.axis in stage.bound, loop.kind == "unroll", loop.kind == "vector",
    )  # fmt: skip
    for access in (*stage.reads, stage.out):
        stride = abs(rules.stride(access, loop.axis)) * loop.step
        row[6 + min(_BINS - 1, stride.bit_length())] += 1  # bin 0: it does not move
    return row


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
