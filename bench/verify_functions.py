"""How far functions of real programs are verified: original against -O2, -Oz and shipped recipes.

    python bench/verify_functions.py CORPUS --functions 500 [--pipelines O2 Oz coreset]

CORPUS is a folder that `planish corpus build` made. Prints the shares of the verdicts, the median
time, and the reasons for unknown and unsupported.
"""

from __future__ import annotations

import argparse
import collections
import random
import statistics
from pathlib import Path

from planish.base.records import Grade
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_library
from planish.proc.pool import Call, Pool
from planish.tune.coreset import load_coreset
from planish.tune.pass_space import to_recipe
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Limits, Verifier

_SEED = 9
_MOST_PER_MODULE = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--functions", type=int, default=500)
    parser.add_argument("--pipelines", nargs="+", default=["O2", "Oz"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--bound", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--refuted", type=Path, help="Write refuted pairs into this folder.")
    given = parser.parse_args()
    files = sorted((given.corpus / "modules").glob("*.bc"))
    random.Random(_SEED).shuffle(files)
    limits = Limits(bound=given.bound, seconds=given.seconds)
    for name in given.pipelines:
        found = _verify(files, name, given, limits)
        _print(name, found)


def _verify(
    files: list[Path], name: str, given: argparse.Namespace, limits: Limits
) -> list[FunctionVerdict]:
    found: list[FunctionVerdict] = []
    recipes = _recipes(name)
    with (
        Pool(HANDLER, str(find_library()[0]), jobs=1, seconds=60) as pool,
        Verifier(jobs=given.jobs, seconds=given.seconds) as verifier,
    ):
        for at, path in enumerate(files):
            if len(found) >= given.functions:
                break
            before = path.read_bytes()
            pool.keep(path.name, before)
            recipe = recipes[at % len(recipes)]
            build = Build(Job(path.name, for_size=False), recipe, emit=False, keep=("bc",))
            [reply] = pool.run([Call(recipe.options, build, (path.name,))])
            if reply.failure is not None:
                continue
            after = reply.value.artefacts["bc"]
            names = verifier.common(before, after)[:_MOST_PER_MODULE]
            if not names:
                continue
            report = verifier.verify(before, after, limits=limits, functions=names)
            found += report.functions
            if given.refuted and report.refuted:
                given.refuted.mkdir(parents=True, exist_ok=True)
                (given.refuted / f"{name}-{path.name}").write_bytes(after)
                for one in report.refuted:
                    print(f"refuted: {name} {path.name} {one.function}: {one.input[:200]}")
    return found


def _recipes(name: str) -> list[Recipe]:
    if name != "coreset":
        return [Recipe((f"default<{name}>",))]
    return [to_recipe(plan) for plan in load_coreset("X86", "size").plans]


def _print(name: str, found: list[FunctionVerdict]) -> None:
    print(f"\n{name}: {len(found)} functions")
    for label, some in (
        ("all", found),
        ("without loops", [one for one in found if not one.loops and not one.unsupported]),
        ("with loops", [one for one in found if one.loops]),
    ):
        if not some:
            continue
        counts = collections.Counter(one.grade for one in some)
        shares = ", ".join(f"{g.value} {counts[g] / len(some):.1%}" for g in Grade if counts[g])
        median = statistics.median(one.seconds for one in some)
        print(f"  {label} ({len(some)}): {shares}; median {median:.2f} s")
    reasons = collections.Counter(
        one.reason.split(";")[0][:70] for one in found if one.grade is Grade.UNKNOWN
    )
    for reason, count in reasons.most_common(15):
        print(f"  {count:5} {reason}")


if __name__ == "__main__":
    main()
