"""Thousands of random tensor programs under random schedules: machine code against the reference.

Every program is run by the x86 generator (AVX2, and AVX-512 where the machine has it) under its
random schedule and under the default one; with --llvm through LLVM as well. Results must be equal
(values are small whole numbers; only the sign of a zero is free). Exits with 1 when one is not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import common

from planish.base.errors import UsageError
from planish.measure.machine import processor
from planish.tensor.reference import evaluate
from planish.tune.tensors import Kernel

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "tensor"))

from programs import make_case, same


def main() -> None:
    given = _arguments()
    ways: dict[str, dict[str, object]] = {"default": {}, "avx2": {"target": "avx2"}}
    if processor().vector == 64:
        ways["avx512"] = {"target": "avx512"}
    if given.llvm:
        ways["llvm"] = {"path": "llvm"}
    counts: Counter[tuple[str, str]] = Counter()
    wrong = []
    for seed in range(given.seed, given.seed + given.programs):
        try:
            case = make_case(seed)
        except UsageError:
            counts["generator", "no program"] += 1
            continue
        wanted = evaluate(case.program, case.arrays)
        for name, options in ways.items():
            schedule = None if name == "default" else case.schedule
            kernel = Kernel(case.program, schedule=schedule, store=False, **options)
            try:
                found = kernel(*case.arrays.values())
            except UsageError:
                counts[name, "schedule refused"] += 1
                continue
            results = found if isinstance(found, tuple) else (found,)
            pairs = zip(case.program.outputs, results, strict=True)
            if all(same(tensor.type, values, wanted[tensor.name]) for tensor, values in pairs):
                counts[name, f"equal, by {kernel.ledger.path}"] += 1
            else:
                counts[name, "WRONG"] += 1
                wrong.append(f"seed {seed} by {name}:\n{case.program}\n{case.schedule}")
    rows = [(way, what, count) for (way, what), count in sorted(counts.items())]
    common.show(f"{given.programs} programs", ("way", "outcome", "programs"), rows)
    if wrong:
        print("\n\n".join(wrong[:5]))
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--programs", type=int, default=2000)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--llvm", action="store_true", help="run each through LLVM, too")
    return made.parse_args()


if __name__ == "__main__":
    main()
