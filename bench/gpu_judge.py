"""The static judge on pairs of kernels: every planted fault found, silence on the good ones.

    python bench/gpu_judge.py [--only WORD]

CUDA pairs need nvcc; without it they are left out, and that is said.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from gpu_pairs import PAIRS

from planish.proc.pool import Call, Pool
from planish.tune.gpu_inspect import Inspection, Launch, inspect, of_built, triton_build
from planish.tune.gpu_kernels import workers
from planish.tune.gpu_worker import Describe

HERE = Path(__file__).parent


def look(pool: Pool, what: tuple, target: str) -> Inspection:
    """One kernel's inspection."""
    if what[0] == "cuda":
        with tempfile.NamedTemporaryFile("w", suffix=".cu") as file:
            file.write(what[1])
            file.flush()
            return inspect(file.name, target=target)[0]
    function, signature, warps, stages = what
    path = HERE / "gpu_pairs.py"
    [described] = pool.run([Call((), Describe(str(path), function))])
    request = triton_build(
        path, function, described.value, target, Launch(signature, warps, stages)
    )
    [reply] = pool.run([Call((), request)])
    if reply.failure is not None:
        raise SystemExit(f"{function}: {reply.reason}")
    return of_built(reply.value, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    found, silent, count, absent = 0, 0, 0, 0
    print(f"{'planted fault':40} {'rule':26} {'bad kernel':34} good kernel")
    with workers("compile") as pool:
        for name, good, bad, rule, target in PAIRS:
            if given.only not in name:
                continue
            if good[0] == "cuda" and shutil.which("nvcc") is None:
                absent += 1
                continue
            count += 1
            rules = [[f.rule for f in look(pool, w, target).findings] for w in (bad, good)]
            hit, quiet = rule in rules[0], not rules[1]
            found, silent = found + hit, silent + quiet
            words = "found" if hit else "MISSED"
            more = sorted(set(rules[0]) - {rule})
            words += f" (also {', '.join(more)})" if more else ""
            said = "silent" if quiet else "SAYS " + ", ".join(sorted(set(rules[1])))
            print(f"{name:40} {rule:26} {words:34} {said}", flush=True)
    print(f"\n{count} pairs: {found} faults found, silent on {silent} of the good kernels")
    if absent:
        print(f"{absent} CUDA pairs left out: no nvcc here")
    return 0 if found == silent == count else 1


if __name__ == "__main__":
    sys.exit(main())
