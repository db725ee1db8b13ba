"""The table of GPU kernels: every program checked by the interpreter, and compiled for targets.

    python bench/gpu_table.py [--targets all|none|cuda:sm_90,..] [--only WORD] [--jobs 2]

Checked: Triton's interpreter with every access guarded and outputs full of NaN, against the NumPy
reference. Compiled: cubin or hsaco, ahead of time. Lowering is timed (the
process' own time, median of 5), Triton apart.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from gpu_programs import cases

from planish.base.errors import PlanishError
from planish.gpu.hardware import TARGETS
from planish.tune.gpu_kernels import gpu_kernel, workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="all")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    targets = {"all": TARGETS, "none": ()}.get(given.targets, tuple(given.targets.split(",")))
    chosen = [c for c in cases() if given.only in c.name]
    wrong, lowering, compiling, compiled = 0, [], [], 0
    print(f"{'program':34} {'forms':28} {'check':9} {'error':>6} {'lower ms':>8}  compiled for")
    with workers("interpret") as checker, workers("compile", given.jobs) as compiler:
        for case in chosen:
            times = []
            for _ in range(5):
                started = time.process_time()
                kernel = gpu_kernel(case.outputs, configs=case.configs, precision=case.precision)
                times.append(time.process_time() - started)
            checked = kernel.check(pool=checker)
            done = []
            for target in targets:
                try:
                    other = gpu_kernel(
                        case.outputs, target=target, configs=case.configs, precision=case.precision
                    )
                    started = time.perf_counter()
                    built = other.compiled(compiler)
                    compiling.append((time.perf_counter() - started) / len(built))
                    done.append(target.split(":")[1])
                except PlanishError as error:
                    print(f"   {target}: {error}")
            good = checked.verdict.grade.value == "tested"
            compiled += len(done)
            wrong += not good or len(done) != len(targets)
            lowering.append(statistics.median(times))
            forms = ", ".join(k.form for k in kernel.kernels)
            print(
                f"{case.name:34} {forms:28} {checked.verdict.grade.value:9} {checked.worst:6.2f} "
                f"{lowering[-1] * 1e3:8.2f}  {' '.join(done)}", flush=True,
            )  # fmt: skip
            if not good:
                print(f"   {checked.verdict.detail}")
    print(f"\n{len(chosen)} programs, {wrong} with a fault; error 1.00 is the tolerance")
    print(
        f"lowering and source: median {statistics.median(lowering) * 1e3:.2f} ms, "
        f"most {max(lowering) * 1e3:.2f} ms"
    )
    if compiling:
        print(
            f"Triton's own compilation: median {statistics.median(compiling):.2f} s a kernel "
            f"and target, {compiled} programs and targets"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
