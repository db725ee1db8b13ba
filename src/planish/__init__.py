"""Planish: makes programs smaller and faster by learning how to drive compilers.

The face: what a user imports. Everything heavy is imported where it is used.
"""

from __future__ import annotations

import importlib
import os

# `typing` itself takes as long to import as the rest of `planish cc`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from planish.advise.explained import ExplainedTrace
    from planish.base.errors import PlanishError
    from planish.base.progress import Progress
    from planish.base.records import Budget, Ledger, Measurement, Outcome, Verdict
    from planish.tune.einsum import einsum
    from planish.tune.gpu_kernels import gpu_kernel
    from planish.tune.gpu_tune import tune_gpu_kernel
    from planish.tune.loops import tune_kernel
    from planish.tune.result import Result
    from planish.tune.tensors import compile_program as compile
    from planish.verify.verify import Report

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Ledger",
    "Measurement",
    "Outcome",
    "PlanishError",
    "Verdict",
    "compile",
    "einsum",
    "gpu_kernel",
    "optimize",
    "read_trace",
    "tune_gpu_kernel",
    "tune_kernel",
    "verify",
]

# Found here, imported when first used: `planish cc` starts a thousand times in a build.
_LAZY = {
    "PlanishError": "planish.base.errors",
    **dict.fromkeys(
        ("Budget", "Ledger", "Measurement", "Outcome", "Verdict"), "planish.base.records"
    ),
    **dict.fromkeys(("axes", "cast"), "planish.tensor.expr"),
    **dict.fromkeys(
        (
            "absolute", "all_", "any_", "define", "equal", "erf", "exp", "gelu", "log", "max",
            "maximum", "min", "minimum", "pad", "prod", "reduce", "relu", "rsqrt", "sigmoid",
            "sqrt", "sum", "tanh", "tensor", "where",
        ),
        "planish.tensor.functions",
    ),
    **dict.fromkeys(("argmax", "argmin", "position"), "planish.tensor.positions"),
    "Schedule": "planish.tensor.schedule",
    "compile": "planish.tune.tensors",
    "einsum": "planish.tune.einsum",
    "gpu_kernel": "planish.tune.gpu_kernels",
    "tune_gpu_kernel": "planish.tune.gpu_tune",
    "tune_kernel": "planish.tune.loops",
}  # fmt: skip
_RENAMED = {"compile": "compile_program"}
# Rooms that are used by their name: `planish.measure.compare`.
_ROOMS = ("measure",)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"planish.{name}")  # which sets the name here, too
    if name not in _LAZY:
        raise AttributeError(f"module 'planish' has no attribute '{name}'")
    found = getattr(importlib.import_module(_LAZY[name]), _RENAMED.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, *_ROOMS})


def optimize(
    source: str | Path,
    *,
    goal: str = "size",
    budget: int | str | Budget = 32,
    flags: Sequence[str] = (),
    target: str = "",
    cpu: str = "",
    baseline: str = "Oz",
    policy: str = "coreset",
    seed: int = 0,
    jobs: int | None = None,
    workers: str = "",
    emit: str = "obj",
    functions: bool = True,
    explain: bool = False,
    check: Callable[[bytes], bool] | None = None,
    verify: bool = False,
    llm_model: str = "",
    llm_url: str = "",
    store: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Find a smaller build of one C, C++, .ll or .bc file; never one worse than the baseline.

    goal      `size` (allocated bytes of the object) or `instructions` (of LLVM IR)
    budget    builds, or text such as "10s" or "100,30s"
    flags     the compiler's flags, as for clang
    baseline  level that the result is compared with, at the same flags
    workers   a Ray cluster that builds, instead of this machine: ray, ray://HOST:PORT, HOST:PORT
    emit      what the result's artefact is: obj, bc, ll or asm
    explain   minimise the recipe and say what each element earns (costs further builds)
    check     called with an object's bytes; False refuses it, and the culprit is looked for
    verify    keep only what is proved or tested, function by function
    llm_*     for the policy `llm`: the model's name, and the URL of the server that runs it
    store     keep outcomes on disk, so that a repeated or killed search goes on where it was

    Returns a Result with `.baseline`, `.best`, `.recipe`, `.ledger` and `.save(path)`.
    Raises PlanishError (file missing, does not compile, unknown name, no toolchain).
    """
    from pathlib import Path

    from planish.base.records import Budget
    from planish.store.store import Store
    from planish.tune.passes import optimise
    from planish.tune.session import Options, Session
    from planish.tune.source import Request

    if isinstance(budget, int | str):
        budget = Budget.parse(str(budget))
    options = Options(
        goal=goal, budget=budget, policy=policy, seed=seed, functions=functions,
        emit=emit, explain=explain, check=check, verify=verify,
        llm_model=llm_model, llm_url=llm_url,
    )  # fmt: skip
    request = Request(tuple(flags), baseline, target, cpu)
    with Session(
        jobs=jobs or os.cpu_count() or 1,
        store=Store.open_default() if store else None,
        progress=progress,
        workers=workers,
    ) as session:
        return optimise(session, Path(source), request, options)


def read_trace(path: str | Path, *, salvage: bool = False) -> ExplainedTrace:
    """Read a profiler's file: Kineto, Chrome, Perfetto or rocprofv3 JSON, Nsight Systems SQLite.

    salvage   read what is whole of a damaged file; what was left out stands in `.notes`

    Returns a trace with `.events` (NumPy columns), `.idle()`, `.kernels()`, `.blame()`,
    `.critical_path()`, `.what_if()`, `.advise()` and `.to_pandas()`.
    Raises PlanishError (unreadable, damaged at byte so-and-so, no known format).
    """
    from planish.advise.explained import ExplainedTrace

    return ExplainedTrace.read(path, salvage=salvage)


def verify(
    before: str | Path,
    after: str | Path | None = None,
    *,
    passes: str = "",
    functions: Sequence[str] = (),
    bound: int = 4,
    seconds: float = 10.0,
    explain: bool = False,
    run: bool = True,
    flags: Sequence[str] = (),
    jobs: int | None = None,
    store: bool = True,
    save: str | Path | None = None,
) -> Report:
    """Say for each function of `after` how far it is checked to do what `before` does.

    before, after  .ll, .bc, C or C++ (compiled without optimisation)
    passes         instead of `after`: a pipeline of LLVM's, run on `before`; what it breaks is
                   reduced to the shortest list of passes (and, with `save`, to a small module)
    functions      names of the functions; all that both have when empty
    bound          rounds of each loop that are followed
    seconds        wall time of the solvers for each function
    explain        give the query back where a function is unknown
    run            confirm refutations and test by running the code
    flags          the compiler's flags
    save           folder for the modules of what is refuted, with a script that replays it

    Returns a Report with `.functions` (each with `.verdict` and `.reason`), `.refuted`, `.verdict`.
    Raises PlanishError (file missing, does not compile, no solver installed).
    """
    from pathlib import Path

    from planish.base.errors import UsageError
    from planish.llvm.frontend import clean_flags, read_module
    from planish.llvm.toolchain import find_toolchain
    from planish.store.store import Store
    from planish.verify import reproducer
    from planish.verify.verify import Limits, Verifier

    limits = Limits(bound, seconds, explain, run)
    if (after is None) == (not passes):
        raise UsageError("compare with what?", hint="give a second file or passes, not both")
    words = clean_flags(flags)
    first = read_module(Path(before), words, lambda: find_toolchain().need_front_end())
    if after is None:
        from planish.verify.passes import verify_passes

        folder = Path(save) if save is not None else None
        workers = jobs or os.cpu_count() or 1
        return verify_passes(first, passes, limits, functions, workers, folder)
    second = read_module(Path(after), words, lambda: find_toolchain().need_front_end())
    held = Store.open_default() if store else None
    try:
        with Verifier(jobs=jobs or os.cpu_count() or 1, seconds=seconds, store=held) as verifier:
            report = verifier.verify(first, second, limits=limits, functions=functions)
    finally:
        if held is not None:
            held.close()
    if save is not None and report.refuted:
        reproducer.save(Path(save), first, second, report.refuted[0])
    return report


# Once `planish.verify` is imported as a package, its calls go here.
_verify = verify
