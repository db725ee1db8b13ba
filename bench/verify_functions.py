"""How far functions of real programs are verified: original against -O2, -Oz and shipped recipes.

    python bench/verify_functions.py CORPUS --functions 500 --pipelines O2 Oz coreset

CORPUS is a folder that `planish corpus build` made. Prints the shares of the verdicts, the median
time, and the reasons for unknown and unsupported. Unsupported functions count as not proved; one
of unknown shape (not readable at all) counts as having no loops.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import statistics
from pathlib import Path
from typing import Any

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
    parser.add_argument("--pipelines", nargs="+", default=["O2", "Oz", "coreset"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--bound", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("verify-work"), help="Rows, and refuted.")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    files = sorted((given.corpus / "modules").glob("*.bc"))
    random.Random(_SEED).shuffle(files)
    limits = Limits(bound=given.bound, seconds=given.seconds)
    for name in given.pipelines:
        _print(name, _verify(files, name, given, limits))


def _verify(
    files: list[Path], name: str, given: argparse.Namespace, limits: Limits
) -> list[dict[str, Any]]:
    """One row for each function; finished modules are kept, so that a stopped run goes on."""
    log = given.work / f"{name}.jsonl"
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {row["module"] for row in found}
    recipes = _recipes(name)
    with (
        Pool(HANDLER, str(find_library()[0]), jobs=1, seconds=60) as pool,
        Verifier(jobs=given.jobs, seconds=given.seconds) as verifier,
        log.open("a") as out,
    ):
        for at, path in enumerate(files):
            if len(found) >= given.functions:
                break
            if path.name in done:
                continue
            before = path.read_bytes()
            pool.keep(path.name, before)
            recipe = recipes[at % len(recipes)]
            build = Build(Job(path.name, for_size=False), recipe, emit=False, keep=("bc",))
            [reply] = pool.run([Call(recipe.options, build, (path.name,))])
            if reply.failure is not None:
                continue
            after = reply.value.artefacts["bc"]
            names = verifier.common(before, after)
            names = random.Random(path.name).sample(names, min(_MOST_PER_MODULE, len(names)))
            if not names:
                continue
            report = verifier.verify(before, after, limits=limits, functions=names)
            rows = [_row(path.name, one) for one in report.functions]
            found += rows
            out.write("".join(json.dumps(row) + "\n" for row in rows))
            out.flush()
            if report.refuted:
                (given.work / f"{name}-{path.name}").write_bytes(after)
    return found


def _row(module: str, one: FunctionVerdict) -> dict[str, Any]:
    return {
        "module": module, "function": one.function, "grade": one.grade.value, "loops": one.loops,
        "unsupported": one.unsupported, "reason": one.reason, "input": one.input,
        "seconds": round(one.seconds, 3),
    }  # fmt: skip


def _recipes(name: str) -> list[Recipe]:
    if name != "coreset":
        return [Recipe((f"default<{name}>",))]
    return [to_recipe(plan) for plan in load_coreset("X86", "size").plans]


def _print(name: str, found: list[dict[str, Any]]) -> None:
    print(f"\n{name}: {len(found)} functions of {len({row['module'] for row in found})} modules")
    supported = [row for row in found if not row["unsupported"]]
    for label, some in (
        ("all", found),
        ("without loops", [row for row in found if not row["loops"]]),
        ("without loops, unsupported left out", [row for row in supported if not row["loops"]]),
        ("with loops", [row for row in found if row["loops"]]),
    ):
        if not some:
            continue
        counts = collections.Counter(row["grade"] for row in some)
        shares = ", ".join(f"{g.value} {counts[g.value] / len(some):.1%}" for g in Grade
                           if counts[g.value])  # fmt: skip
        median = statistics.median(row["seconds"] for row in some)
        print(f"  {label} ({len(some)}): {shares}; median {median:.2f} s")
    reasons = collections.Counter(
        row["reason"].split(";")[0][:70] for row in found if row["grade"] == Grade.UNKNOWN.value
    )
    for reason, count in reasons.most_common(20):
        print(f"  {count:5} {reason}")
    for row in found:
        if row["grade"] == Grade.REFUTED.value:
            print(f"  refuted: {row['module']} {row['function']}: {row['input'][:200]}")


if __name__ == "__main__":
    main()
