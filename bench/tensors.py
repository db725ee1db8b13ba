"""Tensor kernels against NumPy (OpenBLAS), PyTorch, JAX and TVM: one table, medians of ratios.

Every case is checked against NumPy's result first. A ratio above 1 says that Planish is faster.
All take turns, in a random order each time, so that nobody always finds the caches of the same
one. Peers are measured where they are installed. Set --threads for all of them together.

With --results FILE every case is written down when it is done, and a further run with the same
threads, versions and compiler goes on where the last one ended. While a case is timed, what other
programs take of the machine is watched: such cases are marked `busy`, and measured again by the
next run. --wait gives the machine some time to become quiet before each case.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def main() -> None:
    given = _arguments()
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # they slow the peer down
        os.environ.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(given.threads)
    import tensor_cases
    import tensor_peers

    present = tensor_peers.versions(given.without)
    peers = tensor_peers.Peers(present, given.threads)
    same = {"threads": given.threads, "seconds": given.seconds, "peers": present, "code": _code()}
    done = _kept(given.results, same)
    for case in tensor_cases.cases():
        name = f"{case.group} {case.name}"
        if given.only and not any(word in name for word in given.only):
            continue
        before = done.get(name)
        if before is not None and not before["busy"]:
            continue
        _wait_for_quiet(given.wait)
        row = {**same, "group": case.group, "case": case.name, **_measured(case, peers, given)}
        if before is None or row["others"] < before["others"]:
            done[name] = row
            _keep(given.results, row)
        print(_line(row), flush=True)
    ordered = [f"{case.group} {case.name}" for case in tensor_cases.cases()]
    _report([done[name] for name in ordered if name in done], given.threads)


def _measured(case: Any, peers: Any, given: argparse.Namespace) -> Row:
    """One case: checked, then timed in turn with its peers."""
    import numpy as np

    import planish as pl
    from planish.measure.quiet import Watch

    kernel = pl.compile(case.tensor, threads=given.threads, store=False)
    wanted = case.numpy(*case.arrays)
    for _ in range(2):
        found = kernel(*case.arrays)
    if not np.allclose(found, wanted, rtol=2e-3, atol=2e-3):
        sys.exit(f"{case.group} {case.name}: wrong result")
    runs = {"planish": lambda: kernel(*case.arrays), **peers.runs(case, wanted)}
    for run in runs.values():
        run()
    watch = Watch()
    times = _interleaved(runs, given.seconds)
    conditions = watch.conditions()
    line = kernel.roofline(*case.arrays)
    own = times["planish"]
    ratios = {}
    for name in list(times)[1:]:
        pairs = [b / a for a, b in zip(own, times[name], strict=True)]
        ratios[name] = statistics.quantiles(pairs, n=4)
    return {
        "seconds_median": statistics.median(own), "gflops": line.gflops, "share": line.share,
        "ratios": ratios, "compile_seconds": kernel.ledger.seconds, "path": kernel.ledger.path,
        "others": conditions.others or 0.0, "busy": conditions.loaded,
    }  # fmt: skip


def _interleaved(runs: dict[str, Any], seconds: float) -> dict[str, list[float]]:
    """Times of all runs, taken in turn."""
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


def _wait_for_quiet(seconds: float) -> None:
    """Until others leave the machine alone, at most so long."""
    from planish.measure.quiet import conditions

    end = time.perf_counter() + seconds
    while time.perf_counter() < end and conditions(0.3).loaded:
        time.sleep(1.0)


# Results that outlive the run.


def _code() -> str:
    """A hash of the compiler that is measured: rows of another one do not count."""
    import planish

    root = Path(planish.__file__).parent
    found = hashlib.sha256()
    for folder in ("tensor", "codegen", "tune"):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _kept(path: Path | None, same: Row) -> dict[str, Row]:
    """Rows of earlier runs of the same kind, the last of each case."""
    found: dict[str, Row] = {}
    if path is None or not path.exists():
        return found
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(text)
        except json.JSONDecodeError:
            print(f"{path}:{number}: cut off, measured again")
            continue
        if {key: row.get(key) for key in same} == same:
            found[f"{row['group']} {row['case']}"] = row
    return found


def _keep(path: Path | None, row: Row) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


# What is printed.


def _report(rows: list[Row], threads: int) -> None:
    import common
    import tensor_peers

    names = [n for n in tensor_peers.NAMES if any(n in row["ratios"] for row in rows)]
    columns = ("group", "case", "planish", "GFLOP/s", "roof", *(f"{n}/planish" for n in names),
               "compiled", "")  # fmt: skip
    cells = [_cells(row, names) for row in rows]
    common.show(f"{threads} thread(s)", columns, cells)
    for name in names:
        _summary(name, [row for row in rows if name in row["ratios"]])
    busy = [row for row in rows if row["busy"]]
    if busy:
        most = max(row["others"] for row in busy)
        print(
            f"busy: in {len(busy)} of {len(rows)} cases other programs took up to {most:.1f} "
            "processors; run again on a quiet machine, with the same --results"
        )


def _summary(peer: str, rows: list[Row]) -> None:
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row["ratios"][peer][1])
    every = [ratio for group in groups.values() for ratio in group]
    print(f"{peer}: geomean {statistics.geometric_mean(every):.2f} over {len(every)} cases")
    for group, values in groups.items():
        mean, least = statistics.geometric_mean(values), min(values)
        print(f"  {group:12} {mean:6.2f}  (least {least:.2f})")


def _cells(row: Row, names: list[str]) -> list[str]:
    found = [row["group"], row["case"], _time(row["seconds_median"]), f"{row['gflops']:.1f}",
             f"{row['share']:.0%}"]  # fmt: skip
    for name in names:
        if name in row["ratios"]:
            low, middle, high = row["ratios"][name]
            found.append(f"{middle:.2f} [{low:.2f}, {high:.2f}]")
        else:
            found.append("-")
    found.append(f"{row['compile_seconds'] * 1e3:.1f} ms {row['path']}")
    return [*found, "busy" if row["busy"] else ""]


def _line(row: Row) -> str:
    return " | ".join(_cells(row, list(row["ratios"])))


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--seconds", type=float, default=0.4, help="for each case (default: 0.4)")
    made.add_argument("--only", nargs="+", default=[], help="cases whose name holds one of these")
    made.add_argument("--results", type=Path, help="write rows here, and go on from them")
    made.add_argument("--wait", type=float, default=0.0, metavar="SECONDS",
                      help="wait at most so long for a quiet machine before each case")  # fmt: skip
    made.add_argument("--without", nargs="+", default=[], metavar="PEER",
                      help="leave out torch, jax or tvm")  # fmt: skip
    return made.parse_args()


if __name__ == "__main__":
    main()
