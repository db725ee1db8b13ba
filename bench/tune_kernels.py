"""Kernel tuning at equal time: every policy over the rules' schedule, the plain nest and NumPy.

For each shape and policy one search of so many seconds, with no store. The winner is measured
again, in turn with the rules' schedule, the plain (untuned) nest and NumPy. Ratios above 1 say how
many times faster the tuned kernel is. It is never below the rules' schedule: what does not win
beyond the noise is not kept.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import common

import planish as pl
from planish.base.config import pin_numpy
from planish.measure.timer import compare

_SHAPES = (
    "square 96x", "square 192x", "square 384x", "thin 1024x16x", "thin 64x4096", "thin 2048x8",
    "odd 100x", "odd 33x65", "odd 255x", "gemv 1024x", "batched 64 of", "reduction rows",
    "conv resnet 28x28 128>128 3x3 NHWC", "conv resnet 14x14 256>256 3x3 NCHW",
    "conv depthwise 56", "rows softmax 128", "rows layernorm 128", "min-plus 128",
)  # fmt: skip


def main() -> None:
    given = _arguments()
    pin_numpy(1)
    import tensor_cases

    from planish.tensor.schedule import Schedule

    rows, ratios = [], defaultdict(list)
    for case in tensor_cases.cases():
        if not any(f"{case.group} {case.name}".startswith(w) for w in _SHAPES):
            continue
        plain = pl.compile(case.tensor, schedule=Schedule(), store=False)
        rules = pl.compile(case.tensor, store=False)
        for policy in given.policies:
            found = pl.tune_kernel(
                case.tensor, budget=f"{given.seconds}s", policy=policy, store=False, seed=given.seed
            )
            tuned = pl.compile(case.tensor, schedule=str(found.schedule), store=False)
            quick = compare(_candidates(case, tuned, rules=rules), seconds=given.measure)
            # The plain nest takes a hundred times as long: it would leave the others few rounds.
            slow = compare(_candidates(case, tuned, plain=plain), seconds=0.1)
            one = [quick["rules"].ratio, slow["plain"].ratio, quick["numpy"].ratio]
            for name, ratio in zip(("rules", "plain", "numpy"), one, strict=True):
                ratios[policy, name].append(ratio)
            changes = ", ".join(c.partition(" ")[2] for c in found.changes) or "-"
            rows.append(
                (f"{case.group} {case.name}", policy, *(f"{r:.2f}" for r in one),
                 found.ledger.measured, changes)
            )  # fmt: skip
            print(" | ".join(map(str, rows[-1])), flush=True)
    columns = ("shape", "policy", "over rules", "over plain", "over numpy", "measured", "changed")
    common.show(f"after {given.seconds} s", columns, rows)
    for policy in given.policies:
        means = [
            f"{statistics.geometric_mean(ratios[policy, name]):.3f} over {name}"
            for name in ("rules", "plain", "numpy")
        ]
        print(f"{policy:10} geomean {', '.join(means)}")


def _candidates(case: Any, tuned: Any, **others: Any) -> dict[str, Callable[[], object]]:
    arrays = case.arrays
    named = {name: lambda k=kernel: k(*arrays) for name, kernel in others.items()}
    found: dict[str, Callable[[], object]] = {"tuned": lambda: tuned(*arrays), **named}
    if "plain" not in others:
        found["numpy"] = lambda: case.numpy(*arrays)
    return found


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--seconds", type=float, default=1.0, help="of each search (default: 1)")
    made.add_argument("--measure", type=float, default=0.5, help="seconds of each comparison")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--policies", nargs="+", default=["genetic", "greedy", "random"])
    return made.parse_args()


if __name__ == "__main__":
    main()
