"""Idle time of devices and streams: each nanosecond of it with its cause.

A gap is followed by the event that ends it. The host call that launched this event splits the
gap (HolisticTraceAnalysis tells host wait and kernel wait apart in the same way, by gap):

- before the call began, nothing had been submitted: what the launching thread did then is the
  cause (it waited for the device, it launched something else, it was busy elsewhere, or it did
  nothing that was traced);
- while the call ran, the host was launching;
- after the call had returned, the event was queued: the device did other work meanwhile (another
  stream's compute, communication or copy), or nothing, which is the latency of a launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from planish.trace.contexts import Host, Segments
from planish.trace.events import Flags, Ints, Kind, Narrow, Table, index_type
from planish.trace.intervals import Intervals, distinct, gaps, inside
from planish.trace.timeline import busy_intervals
from planish.trace.work import DeviceWork, Work, launching, synchronising

_PART = 50_000  # gaps looked at together: bounds the memory


class Cause(IntEnum):
    """Why a device or stream was idle."""

    UNKNOWN = 0
    LAUNCHING = 1
    HOST_BUSY = 2
    SYNCHRONISATION = 3
    NO_WORK = 4
    LAUNCH_LATENCY = 5
    OTHER_STREAM = 6
    COMMUNICATION = 7
    COPY = 8

    @property
    def words(self) -> str:
        """For people."""
        return _WORDS[self]


_WORDS = {
    Cause.UNKNOWN: "unknown",
    Cause.LAUNCHING: "host busy launching",
    Cause.HOST_BUSY: "host busy elsewhere",
    Cause.SYNCHRONISATION: "synchronisation",
    Cause.NO_WORK: "no work submitted",
    Cause.LAUNCH_LATENCY: "launch latency",
    Cause.OTHER_STREAM: "waiting for another stream",
    Cause.COMMUNICATION: "waiting for communication",
    Cause.COPY: "waiting for a copy",
}


@dataclass(frozen=True)
class Idle:
    """Pieces of idle time, disjoint within a device (or stream), by start.

    gap    number of the gap that a piece is of
    cause  a `Cause`
    next   row of the event that ended the gap
    call   row of the host call that is named: the launch, or the synchronising call; or -1
    """

    device: int
    stream: int | None
    start: Ints
    end: Ints
    gap: Narrow
    cause: npt.NDArray[np.uint8]
    next: Narrow
    call: Narrow

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """All idle time in nanoseconds."""
        return int((self.end - self.start).sum())

    def by_cause(self) -> dict[Cause, int]:
        """Nanoseconds by cause, the largest first; causes without any are left out."""
        sums = np.zeros(len(Cause), np.int64)
        np.add.at(sums, self.cause, self.end - self.start)
        found = {cause: int(sums[cause]) for cause in Cause if sums[cause]}
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class HostState:
    """What idle analysis asks of the host.

    segments  of each thread, by thread
    cause     for each host event its cause when it is the leaf
    call      for each host event the row of the call to name, or -1
    """

    host: Host
    segments: dict[int, Segments]
    cause: npt.NDArray[np.uint8]
    call: Narrow

    @classmethod
    def of(cls, table: Table, host: Host, segments: list[Segments]) -> HostState:
        """Classify the host's events and index the segments."""
        return cls(host, {s.thread: s for s in segments}, *_leaf_causes(table, host))


def device_idle(table: Table, work: DeviceWork, device: int, state: HostState) -> Idle:
    """Idle time between the first and the last event of the device."""
    return _idle(table, work.of_device(device), work, device, None, state)


def stream_idle(table: Table, work: DeviceWork, device: int, stream: int, state: HostState) -> Idle:
    """Idle time between the first and the last event of one stream."""
    mine = work.where((work.device == device) & (work.stream == stream))
    return _idle(table, mine, work, device, stream, state)


def _idle(
    table: Table, mine: DeviceWork, all_work: DeviceWork, device: int, stream: int | None,
    state: HostState,
) -> Idle:  # fmt: skip
    holes = gaps(busy_intervals(mine), int(mine.start.min()), int(mine.end.max()))
    beside = None
    if stream is not None:
        beside = _beside(all_work.where((all_work.device == device) & (all_work.stream != stream)))
    # gaps follow each other, and so do the parts: no part is sorted into another
    columns: list[list[npt.NDArray[Any]]] = [[] for _ in range(6)]
    for at in range(0, max(1, len(holes)), _PART):
        numbers = range(at, min(at + _PART, len(holes)))
        for column, values in zip(
            columns, _part(table, state, mine, holes, numbers, beside), strict=True
        ):
            column.append(values)
    # one column after the other, so that not all of them are held twice
    return Idle(device, stream, *(np.concatenate(columns.pop(0)) for _ in range(6)))


def _part(
    table: Table, state: HostState, mine: DeviceWork, holes: Intervals, numbers: range,
    beside: _Beside | None,
) -> tuple[npt.NDArray[Any], ...]:  # fmt: skip
    """The six columns of `Idle` for some gaps."""
    left = holes.start[numbers.start : numbers.stop]
    right = holes.end[numbers.start : numbers.stop]
    gap: Narrow = np.arange(numbers.start, numbers.stop, dtype=index_type(len(holes)))
    # the event that ended a gap: of several that start together the first row
    follower = np.searchsorted(mine.start, right, side="left")
    called = mine.launch[follower]
    events = table.events
    begun = events.start[called]
    begin = np.where(called >= 0, begun, right)
    returned = np.where(called >= 0, begun + events.duration[called], right)
    pieces = [
        _before(table, state, left, np.minimum(right, begin), called, gap),
        _piece(
            np.maximum(left, begin), np.minimum(right, returned), gap,
            np.full(len(gap), Cause.LAUNCHING, np.uint8), called,
        ),
        _queued(np.maximum(left, returned), right, gap, called, beside),
    ]  # fmt: skip
    start, end, owner, cause, call = (
        np.concatenate(column) for column in zip(*pieces, strict=True)
    )
    order = np.argsort(start, kind="stable")
    owner = owner[order]
    ended_by = mine.row[follower[owner - numbers.start]]
    return start[order], end[order], owner, cause[order], ended_by, call[order]


_Piece = tuple[Ints, Ints, Narrow, npt.NDArray[np.uint8], Narrow]


def _piece(start: Ints, end: Ints, gap: Narrow, cause: Narrow, call: Narrow) -> _Piece:
    keep = end > start
    return start[keep], end[keep], gap[keep], cause[keep].astype(np.uint8), call[keep]


@dataclass(frozen=True)
class _Beside:
    """When the device's other streams were busy, by the cause that this is, the first that fits."""

    busy: tuple[tuple[Cause, Intervals], ...]
    edges: Ints


def _beside(others: DeviceWork) -> _Beside | None:
    if not len(others):
        return None
    busy = tuple(
        (cause, busy_intervals(others.where(others.work == work)))
        for cause, work in (
            (Cause.COMMUNICATION, Work.COMMUNICATION), (Cause.OTHER_STREAM, Work.COMPUTE),
            (Cause.COPY, Work.COPY),
        )
    )  # fmt: skip
    edges = distinct(np.concatenate([np.concatenate((i.start, i.end)) for _, i in busy]))
    return _Beside(busy, edges)


def _queued(start: Ints, end: Ints, gap: Ints, call: Ints, beside: _Beside | None) -> _Piece:
    """Submitted and not begun: by what ran on the device's other streams, if anything."""
    keep = (end > start) & (call >= 0)
    start, end, gap, call = start[keep], end[keep], gap[keep], call[keep]
    if beside is None:
        return _piece(start, end, gap, np.full(len(gap), Cause.LAUNCH_LATENCY, np.uint8), call)
    start, end, owner = split(start, end, beside.edges)
    cause = np.full(len(start), Cause.LAUNCH_LATENCY, np.uint8)
    for kind, busy in beside.busy:
        open_ = cause == Cause.LAUNCH_LATENCY
        cause[open_ & inside(busy, start)] = kind
    return _piece(start, end, gap[owner], cause, call[owner])


def _before(
    table: Table, state: HostState, start: Ints, end: Ints, call: Ints, gap: Ints
) -> _Piece:
    """Nothing submitted yet: by what the launching thread did."""
    keep = end > start
    start, end, call, gap = start[keep], end[keep], call[keep], gap[keep]
    thread = np.where(call >= 0, table.events.thread[call], -1)
    parts = [_no_call(table, state, start, end, call, gap, thread < 0)]
    for number in distinct(thread[thread >= 0]).tolist():
        mine = np.flatnonzero(thread == number)
        parts.append(_ran(state, state.segments[number], start[mine], end[mine], gap[mine]))
    first, second, third, fourth, fifth = (np.concatenate(c) for c in zip(*parts, strict=True))
    return first, second, third, fourth, fifth


def _ran(state: HostState, seg: Segments, start: Ints, end: Ints, gap: Ints) -> _Piece:
    """What the thread ran in pieces of time that lie one behind the other."""
    seg = seg.within(int(start[0]), int(end[-1]))
    begin, finish, owner = split(start, end, seg.edges)
    leaf = leaf_at(seg, begin)
    ran = leaf >= 0
    cause = np.where(ran, state.cause[leaf], Cause.NO_WORK)
    named = np.where(ran, state.call[leaf], -1)
    return _piece(begin, finish, gap[owner], cause, named)


def _no_call(
    table: Table, state: HostState, start: Ints, end: Ints, call: Ints, gap: Ints, mask: Flags
) -> _Piece:
    """The launch is not in the trace: the cause cannot be told."""
    return _piece(
        start[mask],
        end[mask],
        gap[mask],
        np.full(int(mask.sum()), Cause.UNKNOWN, np.uint8),
        call[mask],
    )


def _leaf_causes(table: Table, host: Host) -> tuple[npt.NDArray[np.uint8], Narrow]:
    """For each host event: its cause when it is the leaf, and the row of the call to name."""
    names = table.events.name[host.row]
    runtime = table.events.kind[host.row] == Kind.RUNTIME
    cause = np.full(len(host.row), Cause.HOST_BUSY, np.uint8)
    cause[runtime & launching(table)[names]] = Cause.LAUNCHING
    cause[runtime & synchronising(table)[names]] = Cause.SYNCHRONISATION
    call = np.where(runtime, host.row, -1)
    return cause, call


def leaf_at(seg: Segments, times: Ints) -> Ints:
    """What the thread ran at each time (an index into Host), or -1."""
    place = np.searchsorted(seg.start, times, side="right") - 1
    found = np.full(len(times), -1, np.int64)
    has = place >= 0
    has[has] = times[has] < seg.end[place[has]]
    found[has] = seg.leaf[place[has]]
    return found


def split(start: Ints, end: Ints, edges: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut each of the disjoint, ascending intervals at the edges (sorted, distinct) inside it.

    Returns starts, ends and, for each piece, the number of the interval that it is of.
    """
    first = np.searchsorted(edges, start, side="right")
    last = np.searchsorted(edges, end, side="left")
    count = np.maximum(last - first, 0)
    owner = np.repeat(np.arange(len(start)), count + 1)
    begin = np.repeat(start, count + 1)
    finish = np.repeat(end, count + 1)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(count + 1) - (count + 1), count + 1)
    cut = first[owner] + number
    has_left, has_right = number > 0, number < count[owner]
    begin[has_left] = edges[cut[has_left] - 1]
    finish[has_right] = edges[cut[has_right]]
    return begin, finish, owner
