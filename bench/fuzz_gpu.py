"""Random tensor programs through the GPU lowering, checked by Triton's interpreter.

    python bench/fuzz_gpu.py [--seeds 0:200]

Programs are those of tests/tensor/programs.py: all types, affine accesses, semirings, two
statements. What the lowering refuses is counted with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "tensor"))

from programs import make_case

from planish.base.errors import UsageError
from planish.tune.gpu_kernels import GpuKernel, workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200")
    first, last = map(int, parser.parse_args().seeds.split(":"))
    forms: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong = []
    with workers("interpret") as pool:
        for seed in range(first, last):
            case = make_case(seed, steps=0)
            kernel = GpuKernel(case.program)
            try:
                forms.update(k.form for k in kernel.kernels)
            except UsageError as error:
                refused[error.message.split(" (")[0][:60]] += 1
                continue
            checked = kernel.check(case.arrays, pool)
            if checked.verdict.grade.value != "tested":
                wrong.append(seed)
                print(f"seed {seed}: {checked.verdict.detail[:200]}\n{case.program}", flush=True)
    print(
        f"{last - first} programs, {len(wrong)} wrong {wrong}; forms {dict(forms)};"
        f" refused {dict(refused)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
