"""`advise_path`: advice for whatever lies at a path."""

from __future__ import annotations

from pathlib import Path

from planish.advise.advice import Advice
from planish.advise.rules import advise_ranks, advise_trace
from planish.advise.stalls import advise_samples
from planish.trace.hpctoolkit import find_parts, read_hpctoolkit
from planish.trace.ranks import read_ranks, trace_files
from planish.trace.trace import Trace


def advise_path(path: Path, *, salvage: bool = False) -> list[Advice]:
    """Rules for one trace, for a folder of ranks (those of the slowest rank as well), or samples.

    Raises UsageError and TraceError as the readers do.
    """
    if find_parts(path):
        return advise_samples(read_hpctoolkit(path))
    if not path.is_dir():
        return advise_trace(Trace.read(path, salvage=salvage))
    trace_files(path)
    ranks = read_ranks(path, salvage=salvage)
    slowest = max(ranks.rows, key=lambda row: row.compute)
    return [
        *advise_ranks(ranks),
        *advise_trace(Trace.read(slowest.file, salvage=salvage)),
    ]
