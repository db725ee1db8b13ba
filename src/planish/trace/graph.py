"""The graph of a run: host calls and device events, with what each waits for.

Each starts when all that it waits for has ended:

- a device event waits for its stream's previous event and for the start of its launching call;
  where both are long past, for the event of another stream that ended just before it (a
  dependency by an event record, which profilers do not write);
- a host call waits for the thread's previous call; the first one of a stretch of activity, and
  the first one behind a backward pass, for the last call that any other thread made before it;
- a synchronising call returns after the last device event that ended while it ran; one for the
  whole device after the last event of each stream as well, which may come to be the later one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planish.trace.contexts import Host, delegating
from planish.trace.events import Flags, Ints, Kind, Narrow, Table, index_type, indices
from planish.trace.intervals import distinct, numbered
from planish.trace.work import DeviceWork, synchronising, whole_device

_NEAR = 10_000  # nanoseconds: an event that ended so shortly before is taken for what was awaited


@dataclass(frozen=True)
class Graph:
    """Host calls and device events by start. Every predecessor has a lower number.

    row      row in the table
    device   True for device events
    after    for each node up to two nodes whose END it waits for (-1: none)
    launch   the call whose START it waits for (-1: none)
    awaited  for synchronising calls the device event whose end they wait for (-1: none)
    joined   calls that wait for a whole device, and the last events of its streams before their
             end: pairs of nodes
    """

    row: Narrow
    start: Ints
    end: Ints
    device: Flags
    after: tuple[Narrow, Narrow]
    launch: Narrow
    awaited: Narrow
    joined: tuple[Narrow, Narrow]

    def __len__(self) -> int:
        return len(self.row)


def build_graph(table: Table, work: DeviceWork, host: Host) -> Graph:
    """Calls (the outermost of nested ones) and device events, with what they wait for."""
    calls = _outermost_calls(table, host)
    events = table.events
    rows = np.concatenate((host.row[calls], work.row))
    device = np.concatenate((np.zeros(len(calls), np.bool_), np.ones(len(work), np.bool_)))
    start = events.start[rows]
    # of equal starts the host call comes first: what it launches must come behind it
    order = np.lexsort((device, start))
    rows, device, start = rows[order], device[order], start[order]
    end = start + events.duration[rows]
    node_of: Narrow = np.full(len(events), -1, index_type(len(rows)))
    node_of[rows] = np.arange(len(rows), dtype=node_of.dtype)
    launch = np.full(len(rows), -1, node_of.dtype)
    linked = work.launch >= 0
    outer = _outer_call(table, host, calls)
    launch[node_of[work.row[linked]]] = node_of[outer[work.launch[linked]]]
    launch[launch >= np.arange(len(rows))] = -1  # clocks that do not agree
    first, second = _waits(table, work, host, rows, device, start, end, launch, node_of)
    awaited = _awaited(table, rows, device, start, end)
    joined = _joined(table, rows, device, start, end, awaited)
    return Graph(rows, start, end, device, (first, second), launch, awaited, joined)


def _outermost_calls(table: Table, host: Host) -> Ints:
    """Indices into `host` of runtime calls that lie in no other one."""
    runtime = table.events.kind[host.row] == Kind.RUNTIME
    parent_runs = np.zeros(len(runtime), np.bool_)
    has = host.parent >= 0
    parent_runs[has] = runtime[host.parent[has]]
    return np.flatnonzero(runtime & ~parent_runs)


def _outer_call(table: Table, host: Host, calls: Ints) -> Ints:
    """Row of a call to the row of the outermost call around it."""
    outer: Narrow = np.arange(len(table.events), dtype=index_type(len(table.events)))
    runtime = table.events.kind[host.row] == Kind.RUNTIME
    has = host.parent >= 0
    inner = np.flatnonzero(runtime & has)
    inner = inner[runtime[host.parent[inner]]]
    outer[host.row[inner]] = host.row[host.parent[inner]]
    for _ in range(8):  # driver in runtime in wrapper: never as deep as this
        outer = outer[outer]
    return outer


def _waits(
    table: Table, work: DeviceWork, host: Host, rows: Ints, device: Flags, start: Ints, end: Ints,
    launch: Ints, node_of: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    count = len(rows)
    first, second = np.full(count, -1, launch.dtype), np.full(count, -1, launch.dtype)
    lane = _lanes(table, rows, device)
    order = indices(np.argsort(lane, kind="stable"), count)
    same = lane[order][1:] == lane[order][:-1]
    first[order[1:][same]] = order[:-1][same]
    # events of one stream may overlap in profiles; what has not ended is not waited for
    running = (first >= 0) & (end[first] > start)
    first[running] = -1
    _cross_streams(start, end, device, first, launch, second)
    _cross_threads(table, host, rows, device, start, end, first, second)
    return first, second


def _lanes(table: Table, rows: Ints, device: Flags) -> Ints:
    """A number for each stream and each host thread."""
    events = table.events
    owner = np.where(device, events.device[rows], events.thread[rows]).astype(np.int64)
    streams, stream = numbered(np.where(device, events.stream[rows], 0))
    made: Ints = ((owner << 1) | device) * max(1, len(streams)) + stream
    return made


def _cross_streams(
    start: Ints, end: Ints, device: Flags, first: Ints, launch: Ints, second: Ints
) -> None:
    """Where stream and launch are long past, the device event that ended just before."""
    nodes = np.flatnonzero(device)
    bound = np.full(len(start), np.iinfo(np.int64).min)
    has = first >= 0
    bound[has] = end[first[has]]
    has = launch >= 0
    bound[has] = np.maximum(bound[has], start[launch[has]])
    late = nodes[start[nodes] - bound[nodes] > _NEAR]
    by_end = nodes[np.argsort(end[nodes], kind="stable")]
    place = np.searchsorted(end[by_end], start[late], side="right") - 1
    late, place = late[place >= 0], place[place >= 0]
    found = by_end[place]
    good = (start[late] - end[found] <= _NEAR) & (found < late)
    second[late[good]] = found[good]


def _cross_threads(
    table: Table, host: Host, rows: Ints, device: Flags, start: Ints, end: Ints, first: Ints,
    second: Ints,
) -> None:  # fmt: skip
    """A thread that begins a stretch of activity was woken by another thread's last call."""
    calls = np.flatnonzero(~device)
    if not len(calls):
        return
    root_start = _root_starts(table, host)[rows[calls]]
    before = first[calls]
    fresh = (before < 0) | (end[np.maximum(before, 0)] < root_start)
    woken = np.where(fresh, root_start, start[calls])
    resumed = ~fresh & _left_delegation(table, host, start[calls], end[before], rows[calls])
    by_end = calls[np.argsort(end[calls], kind="stable")]
    chosen, woken = calls[fresh | resumed], woken[fresh | resumed]
    place = np.searchsorted(end[by_end], woken, side="right") - 1
    chosen, place = chosen[place >= 0], place[place >= 0]
    found = by_end[place]
    good = found < chosen
    second[chosen[good]] = found[good]


def _left_delegation(table: Table, host: Host, start: Ints, before: Ints, call: Ints) -> Flags:
    """Whether between `before` and `start` the call's thread left an event that delegates.

    It had then waited for the threads that did the work: for the last call that any of them made.
    """
    marked = delegating(table)[table.events.name[host.row]]
    thread, ended = host.thread[marked], host.end[marked]
    found = np.zeros(len(start), np.bool_)
    mine = table.events.thread[call]
    for number in distinct(thread).tolist():
        ends = np.sort(ended[thread == number])
        here = mine == number
        first = np.searchsorted(ends, before[here], side="right")
        last = np.searchsorted(ends, start[here], side="right")
        found[here] = last > first
    return found


def _root_starts(table: Table, host: Host) -> Ints:
    """For each host row the start of the outermost event around it."""
    root = np.arange(len(host.row), dtype=host.parent.dtype)
    parent = np.where(host.parent >= 0, host.parent, root)
    for _ in range(12):  # pointer doubling: 4,096 levels
        parent = parent[parent]
    made = table.events.start.copy()
    made[host.row] = host.start[parent]
    return made


def _awaited(table: Table, rows: Ints, device: Flags, start: Ints, end: Ints) -> Ints:
    found: Narrow = np.full(len(rows), -1, index_type(len(rows)))
    waits = synchronising(table)[table.events.name[rows]] & ~device
    syncs = np.flatnonzero(waits)
    # one of no length that starts when the call returns is not what it waited for
    nodes = np.flatnonzero(device & (end > start))
    if not len(nodes) or not len(syncs):
        return found
    by_end = nodes[np.argsort(end[nodes], kind="stable")]
    place = np.searchsorted(end[by_end], end[syncs], side="right") - 1
    syncs, place = syncs[place >= 0], place[place >= 0]
    last = by_end[place]
    good = end[last] > start[syncs]
    found[syncs[good]] = last[good]
    return found


def _joined(
    table: Table, rows: Ints, device: Flags, start: Ints, end: Ints, awaited: Ints
) -> tuple[Narrow, Narrow]:
    """Calls that waited for a whole device, each with the last event of every stream of it."""
    events = table.events
    syncs = np.flatnonzero((awaited >= 0) & whole_device(table)[events.name[rows]])
    found = [(syncs[:0], syncs[:0])]
    if len(syncs):
        nodes = np.flatnonzero(device & (end > start))
        lane = _lanes(table, rows, device)[nodes]
        owner = events.device[rows[awaited[syncs]]]
        for number in distinct(lane).tolist():
            mine = nodes[lane == number]
            mine = mine[np.argsort(end[mine], kind="stable")]
            place = np.searchsorted(end[mine], end[syncs], side="right") - 1
            last = mine[np.maximum(place, 0)]
            good = (place >= 0) & (events.device[rows[last]] == owner) & (last != awaited[syncs])
            found.append((syncs[good], last[good]))
    calls, last = (indices(np.concatenate(side), len(rows)) for side in zip(*found, strict=True))
    return calls, last
