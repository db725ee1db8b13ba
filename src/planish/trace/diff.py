"""Two traces of one job, before and after: what takes more time, what less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planish.trace.idle import Cause
from planish.trace.names import short
from planish.trace.trace import Trace


@dataclass(frozen=True)
class Change:
    """One line: nanoseconds and counts before and after; `unit` is ns where they are times."""

    what: str
    before: float
    after: float
    count_before: int = 0
    count_after: int = 0

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def ratio(self) -> float:
        """After over before; infinity for what is new."""
        if self.before:
            return self.after / self.before
        return float("inf") if self.after else 1.0


@dataclass(frozen=True)
class Diff:
    """totals: span and its parts; causes: idle time; kernels: by name, the largest change first."""

    before: str
    after: str
    totals: tuple[Change, ...]
    causes: tuple[Change, ...]
    kernels: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        parts = {"totals": self.totals, "causes": self.causes, "kernels": self.kernels}
        rows = {
            name: [
                {
                    "what": c.what, "before": c.before, "after": c.after,
                    "count_before": c.count_before, "count_after": c.count_after,
                }
                for c in changes
            ]
            for name, changes in parts.items()
        }  # fmt: skip
        return {"before": self.before, "after": self.after, **rows}


def diff(before: Trace, after: Trace, *, exact: bool = False) -> Diff:
    """Compare; kernels are matched by name without their arguments, or exactly."""
    kernels = _merge(_kernels(before, exact), _kernels(after, exact))
    causes = [
        Change(cause.words, _idle(before, cause), _idle(after, cause))
        for cause in Cause
    ]  # fmt: skip
    return Diff(
        before.table.source,
        after.table.source,
        _totals(before, after),
        tuple(sorted((c for c in causes if c.before or c.after), key=lambda c: -abs(c.change))),
        tuple(sorted(kernels, key=lambda c: (-abs(c.change), c.what))),
    )


def _totals(before: Trace, after: Trace) -> tuple[Change, ...]:
    rows = [Change("span", before.span[1] - before.span[0], after.span[1] - after.span[0])]
    for part in ("busy", "idle", "compute", "communication", "hidden", "copy"):
        sums = [sum(getattr(row, part) for row in t.breakdown()) for t in (before, after)]
        rows.append(Change(part, sums[0], sums[1]))
    counts = [sum(row.events for row in t.breakdown()) for t in (before, after)]
    steps = [len(t.steps) for t in (before, after)]
    rows[1] = Change("busy", rows[1].before, rows[1].after, counts[0], counts[1])
    if all(steps):
        middle = [sum(s.duration for s in t.steps) / len(t.steps) for t in (before, after)]
        rows.append(Change("mean step", middle[0], middle[1], steps[0], steps[1]))
    return tuple(rows)


def _idle(trace: Trace, cause: Cause) -> int:
    return sum(trace.idle(device).by_cause().get(cause, 0) for device in trace.devices)


def _kernels(trace: Trace, exact: bool) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    rows = [(row.name, row.total, row.count) for row in trace.kernels()]
    rows += [(row.name, row.total, row.count) for row in trace.copies]
    for name, total, count in rows:
        key = name if exact else short(name)
        have = found.get(key, (0, 0))
        found[key] = have[0] + total, have[1] + count
    return found


def _merge(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[Change]:
    made = []
    for name in before.keys() | after.keys():
        old, new = before.get(name, (0, 0)), after.get(name, (0, 0))
        made.append(Change(name, old[0], new[0], old[1], new[1]))
    return made
