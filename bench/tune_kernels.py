"""Kernel tuning at equal time, on shapes that nothing was learned from (bench/kernel_cases.py).

For each shape and policy one search, with no store. What it had found after 0.3 s, 1 s, .. is
taken as `planish tune-kernel` would take it: kept only where it beats the rules' schedule beyond
the noise, twice; at the end of the search, what it did take. Then it is measured once more, in
turn with the rules' schedule and NumPy; the plain (untuned) nest is measured against the rules'
once a shape. Ratios above 1 say how many times as fast the tuned kernel is. One thread each.

Every search is a line of --results; a run that was stopped goes on there, and --minutes ends one
early. Without searches left, or with --report, the tables are printed:

    python bench/tune_kernels.py --results r.jsonl --seconds 1 --minutes 9     # until it is done
    python bench/tune_kernels.py --results r.jsonl --seconds 10 --policies guided genetic
    python bench/tune_kernels.py --results r.jsonl --report
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import common

import planish as pl
from planish.base.config import pin_numpy
from planish.measure.timer import compare

_CHECKPOINTS = (0.3, 1.0, 10.0, 60.0)
_POLICIES = (
    "guided", "network", "nests", "cost-model", "genetic", "random", "beam-breadth", "greedy1",
    "greedy2", "beam-depth", "greedy",
)  # fmt: skip
# What LoopTune's paper calls classic searches.
_CLASSIC = ("random", "beam-breadth", "beam-depth", "greedy1", "greedy2")

Row = dict[str, Any]


def main() -> None:
    given = _arguments()
    pin_numpy(1)
    rows = list(_read(given.results))
    if not given.report and not _search_all(given, rows):
        print("stopped early; run again to go on")
        return
    _report(list(_read(given.results)))


def _search_all(given: argparse.Namespace, rows: list[Row]) -> bool:
    """Every search that is not on record; whether all were made."""
    import kernel_cases

    done = {(row["shape"], row["policy"], row["seconds"]) for row in rows}
    end = time.monotonic() + 60 * given.minutes
    with given.results.open("a") as file:
        for case in list(kernel_cases.cases())[: given.shapes]:
            shape = f"{case.group} {case.name}"
            if given.only and not any(words in shape for words in given.only):
                continue
            wanted = [("plain", 0.0), *((policy, given.seconds) for policy in given.policies)]
            for policy, seconds in wanted:
                if (shape, policy, seconds) in done:
                    continue
                if time.monotonic() > end:
                    return False
                row = _plain(case) if policy == "plain" else _search(case, policy, seconds, given)
                row |= {"shape": shape, "group": case.group, "policy": policy, "seconds": seconds}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(shape, policy, row.get("over rules", row.get("plain")), flush=True)
    return True


def _plain(case: Any) -> Row:
    """The plain nest and NumPy against the rules' schedule."""
    from planish.tensor.schedule import Schedule

    kernels = {"rules": pl.compile(case.tensor, store=False, threads=1)}
    kernels["plain"] = pl.compile(case.tensor, schedule=Schedule(), store=False, threads=1)
    found = compare(_calls(case, kernels), seconds=0.3)
    return {"plain": found["plain"].ratio, "numpy": found["numpy"].ratio}


def _search(case: Any, policy: str, seconds: float, given: argparse.Namespace) -> Row:
    found = pl.tune_kernel(
        case.tensor, budget=f"{seconds}s", policy=policy, store=False, seed=given.seed
    )
    times = [point for point in _CHECKPOINTS if point <= seconds]
    at = {point: _best_at(found.ledger.steps, point) for point in times}
    rules = pl.compile(case.tensor, store=False, threads=1)
    taken = str(found.schedule) if found.changes else ""
    texts = {*at.values(), taken} - {""}
    compiled = {
        text: pl.compile(case.tensor, schedule=text, store=False, threads=1) for text in texts
    }
    kept = {text for text in at.values() if text}
    for _ in range(2):
        if kept:
            first = compare(
                _calls(
                    case, {"rules": rules, **{t: compiled[t] for t in sorted(kept)}}, numpy=False
                ),
                seconds=0.3,
            )
            kept = {text for text in kept if first[text].faster}
    if seconds in at:
        at[seconds] = taken
    kept |= {taken} - {""}
    final = {"rules": rules, **{text: compiled[text] for text in kept}}
    second = compare(_calls(case, final), seconds=given.measure)
    over = {p: 1 / second[t].ratio if (t := at[p]) in kept else 1.0 for p in times}
    return {
        "over rules": over, "numpy": second["numpy"].ratio,
        "rules seconds": second["rules"].median, "measured": found.ledger.measured,
        "total": found.ledger.seconds, "failures": found.ledger.failures,
        "others": second.conditions.others if second.conditions else None,
        "schedules": {p: at[p] for p in times if at[p] in kept},
    }  # fmt: skip


def _best_at(steps: tuple[tuple[float, str], ...], seconds: float) -> str:
    """The best schedule known by then; empty for the rules' own."""
    return next((text for when, text in reversed(steps) if when <= seconds), "")


def _calls(
    case: Any, kernels: Mapping[str, Any], *, numpy: bool = True
) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {
        name: lambda k=kernel: k(*case.arrays) for name, kernel in kernels.items()
    }
    if numpy:
        found["numpy"] = lambda: case.numpy(*case.arrays)
    return found


def _read(path: Path) -> Iterator[Row]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


# The tables.


def _report(rows: list[Row]) -> None:
    plain = {row["shape"]: row for row in rows if row["policy"] == "plain"}
    over: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        for point, ratio in row.get("over rules", {}).items():
            over.setdefault((row["policy"], float(point)), {}).setdefault(row["shape"], ratio)
    shapes = set.intersection(*(set(found) for found in over.values())) & set(plain)
    if not shapes:
        print("no shape was searched by every policy yet")
        return
    points = sorted({point for _, point in over})
    policies = [p for p in _POLICIES if any(p == name for name, _ in over)]
    fastest = {s: max(found[s] for found in over.values()) for s in shapes}
    table = []
    for point in points:
        best = {s: max(over[p, point][s] for p in policies if (p, point) in over) for s in shapes}
        for policy in policies:
            if (policy, point) in over:
                table.append(
                    _line(policy, point, over[policy, point], best, fastest, plain, shapes)
                )
    columns = ("policy", "after", "over rules", "over plain", "over NumPy", "wins", "least",
               "within 3 %")  # fmt: skip
    common.show(f"{len(shapes)} shapes: geomeans", columns, table)
    print("wins: shapes where no policy was more than 1 % faster at that time; least: the lowest")
    print(
        "ratio over the rules on any shape; within 3 %: of the fastest found by any policy at any"
    )
    print("time, on how many shapes.")
    _in_looptunes_terms(over, plain, shapes)


def _line(
    policy: str, point: float, found: dict[str, float], best: dict[str, float],
    fastest: dict[str, float], plain: dict[str, Row], shapes: set[str],
) -> tuple[object, ...]:  # fmt: skip
    mean = statistics.geometric_mean
    wins = sum(1 for s in shapes if found[s] * 1.01 >= best[s])
    return (
        policy, f"{point:g} s", f"{mean(found[s] for s in shapes):.3f}",
        f"{mean(found[s] * plain[s]['plain'] for s in shapes):.1f}",
        f"{mean(found[s] * plain[s]['numpy'] for s in shapes):.2f}",
        f"{100 * wins / len(shapes):.0f} %", f"{min(found[s] for s in shapes):.3f}",
        f"{100 * sum(found[s] * 1.03 >= fastest[s] for s in shapes) / len(shapes):.0f} %",
    )  # fmt: skip


def _in_looptunes_terms(
    over: dict[tuple[str, float], dict[str, float]], plain: dict[str, Row], shapes: set[str]
) -> None:
    """As its paper puts it: over the untuned nest, and how often a classic search is ahead."""
    for policy, point in (("guided", 0.3), ("guided", 1.0)):
        found = over.get((policy, point))
        if found is None:
            continue
        last = max((p for name, p in over if name in _CLASSIC), default=0.0)
        rivals = [over[name, last] for name in _CLASSIC if (name, last) in over]
        if not rivals:
            continue
        behind = [s for s in shapes if max(r[s] for r in rivals) > found[s] * 1.01]
        mean = statistics.geometric_mean(found[s] * plain[s]["plain"] for s in shapes)
        print(
            f"LoopTune's terms: {policy} after {point:g} s is {mean:.1f} times as fast as the "
            f"untuned nest (LoopTune: 2.97 in 0.4 s), and behind the best classic search of "
            f"{last:g} s on {100 * len(behind) / len(shapes):.0f} % of shapes (LoopTune: 16 %)"
        )


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--results", type=Path, default=Path("tune-kernels.jsonl"))
    made.add_argument("--seconds", type=float, default=1.0, help="of each search (default: 1)")
    made.add_argument("--measure", type=float, default=0.5, help="seconds of each comparison")
    made.add_argument("--minutes", type=float, default=1e9, help="stop after so many")
    made.add_argument("--shapes", type=int, default=None, help="only the first so many")
    made.add_argument("--only", nargs="+", default=[], help="shapes whose name has one of these")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--report", action="store_true", help="only print the tables")
    made.add_argument("--policies", nargs="+", default=list(_POLICIES))
    return made.parse_args()


if __name__ == "__main__":
    main()
