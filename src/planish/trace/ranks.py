"""A folder with one trace for each rank: stragglers, skew, and what differs between ranks."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import PlanishError, UsageError
from planish.trace.isolated import Limits
from planish.trace.trace import Trace

_SUFFIXES = (".json", ".json.gz", ".zip", ".sqlite")
_RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
_STRAGGLES = 0.05  # this much more compute than the median


@dataclass(frozen=True)
class RankRow:
    """One rank. Times in nanoseconds, summed over its devices (nearly always one)."""

    rank: int
    file: str
    span: int
    busy: int
    idle: int
    compute: int
    communication: int
    hidden: int
    copy: int
    step: float
    straggler: bool


@dataclass(frozen=True)
class Ranks:
    """All ranks by number.

    skew     largest over median compute, minus 1: how much longer all wait for the slowest
    failed   files that could not be read, with the reason
    """

    rows: tuple[RankRow, ...]
    skew: float
    failed: tuple[tuple[str, str], ...]


def trace_files(folder: Path) -> list[Path]:
    """The traces of a folder, by name; raises UsageError where there is none."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name.endswith(_SUFFIXES))
    if not files:
        raise UsageError(
            f"no traces in {folder}", hint="expected files ending in " + ", ".join(_SUFFIXES)
        )
    return files


def read_ranks(
    folder: Path, *, salvage: bool = False, say: Callable[[str], None] | None = None,
    limits: Limits | None = None,
) -> Ranks:  # fmt: skip
    """Read one file after the other; only a row of each is kept, so memory is that of one file.

    A rank comes from the file's contents, else from `rankN` in its name, else from its place.
    """
    rows: list[RankRow] = []
    failed: list[tuple[str, str]] = []
    taken: set[int] = set()
    for place, path in enumerate(trace_files(folder)):
        if say:
            say(path.name)
        try:
            trace = Trace.read(path, salvage=salvage, limits=limits)
        except PlanishError as error:
            failed.append((str(path), str(error)))
            continue
        rank = _rank(trace, path, place)
        if rank in taken:
            failed.append((str(path), f"rank {rank} was already read from another file"))
            continue
        taken.add(rank)
        rows.append(_row(rank, path, trace))
    if not rows:
        raise UsageError(f"none of the traces in {folder} can be read: {failed[0][1]}")
    return _judged(sorted(rows, key=lambda row: row.rank), failed)


def _rank(trace: Trace, path: Path, place: int) -> int:
    if trace.table.rank is not None:
        return trace.table.rank
    found = _RANK.search(path.name)
    return int(found[1]) if found else place


def _row(rank: int, path: Path, trace: Trace) -> RankRow:
    parts = trace.breakdown()
    steps = [step.duration for step in trace.steps]
    start, end = trace.span
    return RankRow(
        rank=rank,
        file=str(path),
        span=end - start,
        busy=sum(p.busy for p in parts),
        idle=sum(p.idle for p in parts),
        compute=sum(p.compute for p in parts),
        communication=sum(p.communication for p in parts),
        hidden=sum(p.hidden for p in parts),
        copy=sum(p.copy for p in parts),
        step=statistics.median(steps) if steps else 0.0,
        straggler=False,
    )


def _judged(rows: list[RankRow], failed: list[tuple[str, str]]) -> Ranks:
    """A straggler computes longer than the others, which then wait for it in communication."""
    middle = statistics.median(row.compute for row in rows)
    limit = middle * (1 + _STRAGGLES)
    judged = tuple(
        replace(row, straggler=len(rows) > 1 and middle > 0 and row.compute > limit) for row in rows
    )
    most = max(row.compute for row in rows)
    return Ranks(judged, most / middle - 1 if middle else 0.0, tuple(failed))
