"""Tensor kernels against NumPy (OpenBLAS), PyTorch and JAX: one table, medians of ratios.

Every case is checked against NumPy's result first. A ratio above 1 says that Planish is faster.
All take turns, in a random order each time, so that nobody always finds the caches of the same
one. PyTorch and JAX are measured where they are installed; JAX gets the NumPy formulation, traced
with jax.numpy and compiled, and its time includes its call. Set --threads for all of them together.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

_PEERS = ("numpy", "torch", "jax")


def main() -> None:
    given = _arguments()
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # they slow the peer down
        os.environ.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(given.threads)
    import common
    import numpy as np
    import tensor_cases

    import planish as pl

    torch, jax = _torch(given.threads), _jax(given.threads)
    rows, ratios = [], {}
    for case in tensor_cases.cases():
        if given.only and not any(w in f"{case.group} {case.name}" for w in given.only):
            continue
        kernel = pl.compile(case.tensor, threads=given.threads, store=False)
        wanted = case.numpy(*case.arrays)
        for _ in range(2):
            found = kernel(*case.arrays)
        if not np.allclose(found, wanted, rtol=2e-3, atol=2e-3):
            sys.exit(f"{case.group} {case.name}: wrong result")
        runs: dict[str, Callable[[], object]] = {
            "planish": lambda k=kernel, a=case.arrays: k(*a),
            "numpy": lambda c=case: c.numpy(*c.arrays),
        }
        if torch is not None and case.torch is not None:
            tensors = [torch.from_numpy(a) for a in case.arrays]
            runs["torch"] = lambda c=case, t=tensors: c.torch(torch, *t)
        traced = _traced(jax, case, wanted) if jax is not None else None
        if traced is not None:
            runs["jax"] = traced
        times = _interleaved(runs, given.seconds)
        line = kernel.roofline(*case.arrays)
        own = times["planish"]
        row = [case.group, case.name, _time(own), f"{line.gflops:.1f}", f"{line.share:.0%}"]
        for name in _PEERS:
            if name not in times:
                row.append("-")
                continue
            pairs = [b / a for a, b in zip(own, times[name], strict=True)]
            low, middle, high = statistics.quantiles(pairs, n=4)
            ratios.setdefault((name, case.group), []).append(middle)
            row.append(f"{middle:.2f} [{low:.2f}, {high:.2f}]")
        row.append(f"{kernel.ledger.seconds * 1e3:.1f} ms {kernel.ledger.path}")
        rows.append(row)
        print(" | ".join(row), flush=True)
    columns = (
        "group",
        "case",
        "planish",
        "GFLOP/s",
        "roof",
        "numpy/planish",
        "torch/planish",
        "jax/planish",
        "compiled",
    )
    common.show(f"{given.threads} thread(s)", columns, rows)
    _summary(ratios)


def _summary(ratios: dict[tuple[str, str], list[float]]) -> None:
    for peer in _PEERS:
        groups = {g: r for (p, g), r in ratios.items() if p == peer}
        if not groups:
            continue
        every = [r for group in groups.values() for r in group]
        print(f"{peer}: geomean {statistics.geometric_mean(every):.2f} over {len(every)} cases")
        for group, values in groups.items():
            mean, least = statistics.geometric_mean(values), min(values)
            print(f"  {group:12} {mean:6.2f}  (least {least:.2f})")


def _interleaved(runs: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Times of all runs, taken in turn."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    order, draw = list(runs), random.Random(0)
    end = time.perf_counter() + seconds
    while len(times["planish"]) < 7 or (time.perf_counter() < end and len(times["planish"]) < 2000):
        draw.shuffle(order)
        for name in order:
            started = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - started)
    return times


def _time(times: Sequence[float]) -> str:
    middle = statistics.median(times)
    return f"{middle * 1e6:.1f} us" if middle < 1e-3 else f"{middle * 1e3:.2f} ms"


def _torch(threads: int) -> Any:
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: measured against NumPy only")
        return None
    torch.set_num_threads(threads)
    return torch


def _jax(threads: int) -> Any:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    try:
        import jax
    except ImportError:
        print("JAX is not installed: not measured")
        return None
    # It makes as many threads as it sees processors when its client begins, whatever flags say.
    all_processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_processors)[:threads])
    jax.devices()
    os.sched_setaffinity(0, all_processors)
    return jax


def _traced(jax: Any, case: Any, wanted: Any) -> Callable[[], object] | None:
    """The case in JAX; None where its NumPy formulation cannot be traced (views by strides)."""
    import numpy as np

    found = case.numpy
    names = {**found.__globals__, "np": jax.numpy}
    moved = types.FunctionType(
        found.__code__, names, found.__name__, found.__defaults__, found.__closure__
    )
    compiled = jax.jit(moved)
    arrays = [jax.numpy.asarray(a) for a in case.arrays]
    try:
        result = np.asarray(compiled(*arrays))
    except (AttributeError, TypeError, jax.errors.JAXTypeError):
        return None
    if not np.allclose(result, wanted, rtol=2e-3, atol=2e-3):
        sys.exit(f"{case.group} {case.name}: JAX differs")
    return lambda: compiled(*arrays).block_until_ready()


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--seconds", type=float, default=0.4, help="for each case (default: 0.4)")
    made.add_argument("--only", nargs="+", default=[], help="cases whose name holds one of these")
    return made.parse_args()


if __name__ == "__main__":
    main()
