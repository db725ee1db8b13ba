"""Tensor kernels against NumPy (OpenBLAS) and PyTorch: one table, interleaved, medians of ratios.

Every case is checked against NumPy's result first. A ratio above 1 says that Planish is faster.
PyTorch is measured where it is installed. Set --threads for all of them together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


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

    torch = _torch(given.threads)
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
        runs: list[Callable[[], object]] = [
            lambda k=kernel, a=case.arrays: k(*a), lambda c=case: c.numpy(*c.arrays)
        ]  # fmt: skip
        if torch is not None and case.torch is not None:
            tensors = [torch.from_numpy(a) for a in case.arrays]
            runs.append(lambda c=case, t=tensors: c.torch(torch, *t))
        times = _interleaved(runs, given.seconds)
        line = kernel.roofline(*case.arrays)
        row = [case.group, case.name, _time(times[0]), f"{line.gflops:.1f}", f"{line.share:.0%}"]
        for peer, name in ((1, "numpy"), (2, "torch")):
            if peer >= len(times):
                row.append("-")
                continue
            pairs = [b / a for a, b in zip(times[0], times[peer], strict=True)]
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
        "compiled",
    )
    common.show(f"{given.threads} thread(s)", columns, rows)
    _summary(ratios)


def _summary(ratios: dict[tuple[str, str], list[float]]) -> None:
    for peer in ("numpy", "torch"):
        groups = {g: r for (p, g), r in ratios.items() if p == peer}
        if not groups:
            continue
        every = [r for group in groups.values() for r in group]
        print(f"{peer}: geomean {statistics.geometric_mean(every):.2f} over {len(every)} cases")
        for group, values in groups.items():
            mean, least = statistics.geometric_mean(values), min(values)
            print(f"  {group:12} {mean:6.2f}  (least {least:.2f})")


def _interleaved(runs: Sequence[Callable[[], object]], seconds: float) -> list[list[float]]:
    """Times of all runs, taken in turn."""
    for run in runs:
        run()
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while len(times[0]) < 7 or (time.perf_counter() < end and len(times[0]) < 2000):
        for run, taken in zip(runs, times, strict=True):
            started = time.perf_counter()
            run()
            taken.append(time.perf_counter() - started)
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
