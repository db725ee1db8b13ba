"""The table that `bench/builds.py` prints."""

from __future__ import annotations

import statistics
from typing import Any

import common
from build_projects import Project


def show(rows: list[tuple[Project, dict[str, Any]]]) -> None:
    """A line for each project that is done, and the means."""
    columns = ("project", "built by", "units", "-Oz", "tuned", "gain", "-Oz LTO", "one module",
               "gain over LTO", "record", "tune", "replayed first", "again", "tests")  # fmt: skip
    lines = []
    for project, row in rows:
        first, again = (_ratio([(times[0], times[at]) for times in row["rounds"]]) for at in (1, 2))
        lines.append((
            f"{project.name} {row['version']}", project.system,
            f"{row['kept_units']} of {row['units']}", f"{row['plain']:,}", f"{row['tuned']:,}",
            f"{1 - row['tuned'] / row['plain']:.1%}", f"{row['lto']:,}", f"{_best(row):,}",
            f"{1 - _best(row) / row['lto']:.1%}",
            f"{row['record_seconds'] / row['plain_seconds']:.1f}x", f"{row['tune_seconds']:.0f} s",
            first, again, f"units {row['tests']}, whole {row['whole_tests']}",
        ))  # fmt: skip
    common.show("Linked programs, allocated bytes, and wall time over the plain build", columns,
                lines)  # fmt: skip
    if rows:
        units = [1 - row["tuned"] / row["plain"] for _, row in rows]
        whole = [1 - _best(row) / row["lto"] for _, row in rows]
        print(f"mean gain unit by unit {statistics.fmean(units):.1%} ({min(units):.1%} to "
              f"{max(units):.1%}), as one module over LTO {statistics.fmean(whole):.1%} "
              f"({min(whole):.1%} to {max(whole):.1%})")  # fmt: skip


def _ratio(pairs: list[tuple[float, float]]) -> str:
    """Median and quartiles of how many times as long ours takes."""
    low, middle, high = statistics.quantiles([mine / plain for plain, mine in pairs], n=4)
    return f"{middle:.2f}x [{low:.2f}, {high:.2f}]"


def _best(row: dict[str, Any]) -> int:
    """Where nothing was kept, the user stays with LTO."""
    return int(row["whole"] or row["lto"])
