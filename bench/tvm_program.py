"""Our tensor programs for TVM: the same statements as tensor expressions, searched by MetaSchedule.

MetaSchedule is TVM's search (2205.13603) with a cost model of gradient-boosted trees.
Needs: pip install apache-tvm xgboost scipy tornado psutil cloudpickle.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from planish.measure.machine import processor
from planish.tensor.expr import Access, Const, Expr, Index, Op
from planish.tensor.program import Program, Stage

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}  # fmt: skip


def prim_func(tvm: Any, program: Program) -> Any:
    """The program as one function of TVM; raises KeyError for an operation not known here."""
    te = tvm.te
    made = {
        t.name: te.placeholder(t.shape, str(np.dtype(t.type.numpy)), name=t.name)
        for t in program.inputs
    }
    inputs = list(made.values())
    for stage in program.stages:
        made[stage.out.tensor.name] = _compute(tvm, stage, made)
    return te.create_prim_func([*inputs, *(made[t.name] for t in program.outputs)])


def _compute(tvm: Any, stage: Stage, made: Mapping[str, Any]) -> Any:
    te, name = tvm.te, stage.out.tensor.name
    assert [str(index) for index in stage.out.indices] == list(stage.axes)
    shape = tuple(stage.extents[axis] for axis in stage.axes)
    if not stage.reduce:
        return te.compute(
            shape, lambda *at: _value(tvm, stage.body, _at(stage, at), made), name=name
        )
    bound = {axis: te.reduce_axis((0, stage.extents[axis]), axis) for axis in stage.bound}
    join = {"sum": te.sum, "max": te.max, "min": te.min}[stage.reduce]
    total = te.compute(
        shape,
        lambda *at: join(
            _value(tvm, stage.body, _at(stage, at) | bound, made), axis=list(bound.values())
        ),
        name=name if stage.post is None else f"{name}_total",
    )
    if stage.post is None:
        return total
    post = stage.post
    return te.compute(
        shape, lambda *at: _value(tvm, post, _at(stage, at), made, total(*at)), name=name
    )


def _at(stage: Stage, variables: Any) -> dict[str, Any]:
    return dict(zip(stage.axes, variables, strict=True))


def _value(
    tvm: Any, expr: Expr, axes: Mapping[str, Any], made: Mapping[str, Any], total: Any = None
) -> Any:
    def value(part: Expr) -> Any:
        return _value(tvm, part, axes, made, total)

    if isinstance(expr, Access):
        return made[expr.tensor.name](*(_index(index, axes) for index in expr.indices))
    if isinstance(expr, Const):
        return tvm.tirx.const(expr.value, str(np.dtype(expr.type.numpy)))
    if not isinstance(expr, Op):
        return total
    parts = [value(part) for part in expr.arguments]
    if expr.name in _ARITHMETIC:
        return _ARITHMETIC[expr.name](*parts)
    return {"exp": tvm.te.exp, "rsqrt": tvm.te.rsqrt}[expr.name](*parts)


def _index(index: Index, axes: Mapping[str, Any]) -> Any:
    found: Any = index.constant
    for axis, factor in index.terms:
        found = found + axes[axis] * factor
    return found


def meta_schedule(
    tvm: Any, program: Program, arrays: list[Any], trials: int, seed: int
) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
    """The program after so many trials, on one thread; what its last call wrote.

    Builds and measurements are made in this process: workers of MetaSchedule's own import TVM
    first, and with some releases never answer.
    """
    ms = tvm.s_tir.meta_schedule
    logging.disable(logging.WARNING)
    level = 4 if processor().vector == 64 else 3
    target = tvm.target.Target({"kind": "llvm", "mcpu": f"x86-64-v{level}", "num-cores": 1})
    module = tvm.IRModule({"main": prim_func(tvm, program)})
    with tempfile.TemporaryDirectory() as folder:
        builder, runner = _here(tvm, ms, Path(folder))
        database = ms.tune_tir(
            module, target, folder, max_trials_global=trials,
            num_trials_per_iter=min(16, trials), num_tuning_cores=1, seed=seed,
            builder=builder, runner=runner,
        )  # fmt: skip
        schedule = ms.tir_integration.compile_tir(database, module, target)
    found = tvm.compile(module if schedule is None else schedule.mod, target=target)["main"]
    [out] = program.outputs
    given = [tvm.runtime.tensor(x) for x in (*arrays, np.zeros(out.shape, out.type.numpy))]
    found(*given)
    return lambda: found(*given), lambda: given[-1].numpy()


def _here(tvm: Any, ms: Any, folder: Path) -> tuple[Any, Any]:
    """A builder and a runner of MetaSchedule that work in this process."""
    built: dict[str, Any] = {}
    random = np.random.default_rng(0)

    @tvm.ir.utils.derived_object
    class Builder(ms.builder.PyBuilder):  # type: ignore[misc, name-defined]
        def build(self, build_inputs: Any) -> list[Any]:
            results = []
            for each in build_inputs:
                place = folder / f"build-{len(built)}"  # MetaSchedule removes such a folder
                place.mkdir(exist_ok=True)
                name = str(place / "in-process")
                try:
                    built[name] = tvm.compile(each.mod, target=each.target)
                    results.append(ms.builder.BuilderResult(name, None))
                except Exception as error:  # any of the compiler's: this schedule does not build
                    results.append(ms.builder.BuilderResult(None, str(error)))
            return results

    @tvm.ir.utils.derived_object
    class Future(ms.runner.PyRunnerFuture):  # type: ignore[misc, name-defined]
        def __init__(self, seconds: list[float]) -> None:
            self._seconds = seconds

        def done(self) -> bool:
            return True

        def result(self) -> Any:
            return ms.runner.RunnerResult(self._seconds, None)

    @tvm.ir.utils.derived_object
    class Runner(ms.runner.PyRunner):  # type: ignore[misc, name-defined]
        def run(self, runner_inputs: Any) -> list[Any]:
            return [Future(self._timed(each)) for each in runner_inputs]

        def _timed(self, each: Any) -> list[float]:
            arguments = [
                tvm.runtime.tensor(random.random(tuple(info.shape)).astype(str(info.dtype)))
                for info in each.args_info
            ]
            timer = built[each.artifact_path].mod.time_evaluator(
                "main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=20
            )
            return [float(value) for value in timer(*arguments).results]

    return Builder(), Runner()
