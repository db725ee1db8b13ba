"""A trace in one screen: plain data for `--json`, the terminal and the page."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planish.trace.critical import summarise
from planish.trace.timeline import Breakdown

if TYPE_CHECKING:
    from planish.trace.trace import Trace

VERSION = 1


def summary(trace: Trace, top: int) -> dict[str, Any]:
    """All times in nanoseconds, bandwidths in bytes a second; `version` changes with the layout."""
    start, end = trace.span
    launched = trace.launches
    return {
        "version": VERSION,
        "file": trace.table.source,
        "format": trace.table.format,
        "rank": trace.table.rank,
        "span": end - start,
        "events": len(trace.events),
        "devices": [_device(trace, row, top) for row in trace.breakdown()],
        "kernels": [
            {**asdict(row), "work": row.work.name.lower(), "variation": row.variation,
             "occupancy": None if math.isnan(row.occupancy) else row.occupancy}
            for row in trace.kernels()[:top]
        ],
        "host": [] if trace.devices else [asdict(row) for row in trace.hot(top)],
        "kernel_names": len(trace.kernels()),
        "copies": [{**asdict(row), "bandwidth": row.bandwidth} for row in trace.copies],
        "launches": None if launched is None else asdict(launched),
        "steps": [asdict(row) for row in trace.steps],
        "critical_path": [
            {"what": what, "time": time}
            for what, time in summarise(trace.table, trace.critical_path(), trace.state)[:top]
        ],
        "notes": [{"what": note.what, "count": note.count} for note in trace.notes],
    }  # fmt: skip


def _device(trace: Trace, row: Breakdown, top: int) -> dict[str, Any]:
    idle = trace.idle(row.device)
    known = {device.index: device.name for device in trace.table.devices}
    return {
        **_breakdown(row),
        "name": known.get(row.device, ""),
        "idle_by_cause": {cause.words: time for cause, time in idle.by_cause().items()},
        "blame": [
            {"path": list(charged.path), "own": charged.own, "total": charged.total}
            for charged in trace.blame(row.device, top)
        ],
        "streams": [_stream(trace, s) for s in trace.streams if s.device == row.device],
    }


def _stream(trace: Trace, row: Breakdown) -> dict[str, Any]:
    """A stream with its idle time by cause: what it waited for on the device, too."""
    causes = trace.idle(row.device, row.stream).by_cause()
    return {**_breakdown(row), "idle_by_cause": {c.words: time for c, time in causes.items()}}


def _breakdown(row: Breakdown) -> dict[str, Any]:
    return {**asdict(row), "utilisation": row.utilisation, "overlap": row.overlap}
