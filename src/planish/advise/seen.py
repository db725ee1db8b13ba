"""What rules over traces show for evidence: pieces of idle time, events, streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planish.advise.advice import Evidence
from planish.trace.idle import Cause, Idle
from planish.trace.intervals import distinct
from planish.trace.names import short
from planish.trace.trace import Trace
from planish.trace.work import DeviceWork

SHORT_GAP = 20_000  # ns: what lies between launches that follow each other
SHOWN = 3  # pieces of evidence of one advice


def lanes(work: DeviceWork) -> Iterator[tuple[tuple[int, int], DeviceWork]]:
    """Each stream: device, number, its events."""
    for device in distinct(work.device).tolist():
        part = work.of_device(device)
        for stream in distinct(part.stream).tolist():
            yield (device, stream), part.where(part.stream == stream)


def part_of(idle: Idle, mask: np.ndarray) -> Idle:
    """The pieces where `mask` is true."""
    return Idle(
        idle.device, idle.stream, idle.start[mask], idle.end[mask], idle.gap[mask],
        idle.cause[mask], idle.next[mask], idle.call[mask],
    )  # fmt: skip


def pieces(trace: Trace, idle: Idle, mask: np.ndarray) -> tuple[Evidence, ...]:
    """The longest pieces."""
    rows = np.flatnonzero(mask)
    length = (idle.end - idle.start)[rows]
    begin = trace.span[0]
    names = trace.events.name
    return tuple(
        Evidence(
            int(idle.start[i]) - begin, int(idle.end[i]) - begin,
            f"{Cause(int(idle.cause[i])).words}, before"
            f" {short(trace.strings[names[idle.next[i]]])[:80]}",
        )
        for i in rows[np.argsort(-length, kind="stable")[:SHOWN]].tolist()
    )  # fmt: skip


def seen_at(trace: Trace, row: int) -> Evidence:
    """An event: when, and its name."""
    start = int(trace.events.start[row]) - trace.span[0]
    name = short(trace.strings[trace.events.name[row]])[:80]
    return Evidence(start, start + int(trace.events.duration[row]), name)


def slowest(trace: Trace, name: str) -> tuple[Evidence, ...]:
    """The longest launches of a kernel."""
    events = trace.events
    rows = trace.work.row[events.name[trace.work.row] == list(trace.strings).index(name)]
    order = np.argsort(-events.duration[rows], kind="stable")[:SHOWN]
    return tuple(seen_at(trace, int(row)) for row in rows[order])


def whole(trace: Trace) -> int:
    """The longest span of a device: what savings are compared with."""
    return max(row.span for row in trace.breakdown())


def ms(nanoseconds: float) -> str:
    """Nanoseconds as text."""
    return f"{nanoseconds / 1e6:,.2f} ms"
