"""A kernel tuned for one second beside what others make of it: Inductor and MetaSchedule.

For each shape of `kernel_cases.py`: the rules' schedule, the one that `planish tune-kernel` keeps
after --seconds, NumPy, PyTorch as it is, PyTorch's Inductor (torch.compile, with --autotune its
most thorough mode; needs a C++ compiler) and, with --trials, TVM's MetaSchedule (`tvm_program.py`).
One thread each. All are measured in turn and their results compared; the tables say how many times
as fast ours is, and how long each took to come to its kernel.

Every shape is a line of --results; a run that was stopped goes on there, and --minutes ends one
early. Needs: pip install torch; for --trials also apache-tvm xgboost scipy tornado psutil.

    python bench/tune_peers.py --results p.jsonl --minutes 9      # until it is done
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common
import kernel_cases
import numpy as np

import planish as pl
from planish.base.config import pin_numpy
from planish.measure.timer import compare
from planish.tensor.program import lower

Row = dict[str, Any]
Run = Callable[[], object]


def main() -> None:
    given = _arguments()
    pin_numpy(1)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    rows: list[Row] = [json.loads(line) for line in lines]
    done = {row["shape"] for row in rows}
    end = time.monotonic() + 60 * given.minutes
    with given.results.open("a") as file:
        for case in list(kernel_cases.cases())[: given.shapes]:
            shape = f"{case.group} {case.name}"
            if given.report or shape in done or (given.only and given.only not in shape):
                continue
            if time.monotonic() > end:
                print("stopped early; run again to go on")
                return
            rows.append({"shape": shape, "group": case.group, **_measure(case, given)})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            print(shape, {n: round(r, 2) for n, r in rows[-1]["ratios"].items()}, flush=True)
    _report(rows)


def _measure(case: Any, given: argparse.Namespace) -> Row:
    """Times over ours of each, and the seconds that each took before it could run."""
    wanted = case.numpy(*case.arrays)
    tuned = pl.tune_kernel(case.tensor, budget=f"{given.seconds}s", store=False, seed=given.seed)
    ours = pl.compile(case.tensor, schedule=str(tuned.schedule), store=False, threads=1)
    rules = pl.compile(case.tensor, store=False, threads=1)
    runs: dict[str, Run] = {
        "ours": lambda: ours(*case.arrays),
        "rules": lambda: rules(*case.arrays),
        "numpy": lambda: case.numpy(*case.arrays),
    }
    spent = {"ours": tuned.ledger.seconds}
    for name, made in _peers(case, given).items():
        started = time.monotonic()
        runs[name], result = made()
        spent[name] = time.monotonic() - started
        if not np.allclose(result(), wanted, rtol=2e-3, atol=2e-3):
            sys.exit(f"{case.group} {case.name}: {name} differs")
    found = compare(runs, seconds=given.measure)
    return {
        "ratios": {name: found[name].ratio for name in runs if name != "ours"},
        "intervals": {n: (found[n].low, found[n].high) for n in runs if n != "ours"},
        "spent": spent, "seconds": found["ours"].median,
    }  # fmt: skip


def _peers(
    case: Any, given: argparse.Namespace
) -> Mapping[str, Callable[[], tuple[Run, Callable[[], Any]]]]:
    """Each peer's name: what makes its kernel, and gives a way to run it and to see its result."""
    import torch

    torch.set_num_threads(1)
    tensors = [torch.from_numpy(array) for array in case.arrays]

    def eager() -> tuple[Run, Callable[[], Any]]:
        def run() -> Any:
            return case.torch(torch, *tensors)

        return run, lambda: run().numpy()

    def inductor() -> tuple[Run, Callable[[], Any]]:
        torch._dynamo.reset()
        mode = "max-autotune" if given.autotune else "default"
        compiled = torch.compile(lambda *those: case.torch(torch, *those), mode=mode)
        with torch.no_grad():
            compiled(*tensors)

        def run() -> Any:
            with torch.no_grad():
                return compiled(*tensors)

        return run, lambda: run().numpy()

    def searched() -> tuple[Run, Callable[[], Any]]:
        import tvm
        import tvm_program

        program = lower([case.tensor])
        arrays = list({id(array): array for array in case.arrays}.values())
        run, out = tvm_program.meta_schedule(tvm, program, arrays, given.trials, given.seed)

        def result() -> Any:
            run()
            return out()

        return run, result

    return {"torch": eager, "inductor": inductor} | (
        {"metaschedule": searched} if given.trials else {}
    )


def _report(rows: list[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row["ratios"]))
    table = []
    for name in names:
        those = [row for row in rows if name in row["ratios"]]
        ratios = [row["ratios"][name] for row in those]
        spent = [row["spent"][name] for row in those if name in row["spent"]]
        table.append((
            name, len(those), f"{statistics.geometric_mean(ratios):.2f}",
            f"{min(ratios):.2f}", f"{max(ratios):.2f}",
            f"{sum(row['intervals'][name][0] > 1 for row in those) / len(those):.0%}",
            f"{statistics.median(spent):.1f} s" if spent else "",
        ))  # fmt: skip
    columns = ("over", "shapes", "geomean", "least", "most", "surely faster", "took (median)")
    mine = statistics.median(row["spent"]["ours"] for row in rows)
    common.show(f"ours, tuned in {mine:.1f} s (median), over others", columns, table)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    table = []
    for group in groups:
        those = [row for row in rows if row["group"] == group]
        means = [
            f"{statistics.geometric_mean(r['ratios'][n] for r in those if n in r['ratios']):.2f}"
            for n in names if any(n in r["ratios"] for r in those)
        ]  # fmt: skip
        table.append((group, len(those), *means))
    common.show("by group", ("group", "shapes", *names), table)


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--results", type=Path, required=True, help="a line for each shape")
    made.add_argument("--seconds", type=float, default=1.0, help="of our search")
    made.add_argument("--measure", type=float, default=1.0, help="seconds of the comparison")
    made.add_argument("--trials", type=int, default=0, help="of MetaSchedule; 0 for none")
    made.add_argument("--autotune", action="store_true", help="Inductor's max-autotune")
    made.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    made.add_argument("--shapes", type=int, help="only so many")
    made.add_argument("--only", help="shapes with these words in their name")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--report", action="store_true", help="only print the tables")
    return made.parse_args()


if __name__ == "__main__":
    main()
