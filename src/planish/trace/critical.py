"""The critical path through host, launches, streams and synchronisation, and what-if.

The model is a graph of host calls and device events. Each starts when all that it waits for
has ended; the lag behind the latest of these is kept as it was measured:

- a device event waits for its stream's previous event and for the start of its launching call;
  where both are long past, for the event of another stream that ended just before it (a
  dependency by an event record, which profilers do not write);
- a host call waits for the thread's previous call; the first one of a stretch of activity, and
  the first one behind a backward pass, for the last call that any other thread made before it;
- a synchronising call returns after the last device event that ended while it ran.

Replayed without a change the graph gives the measured times back, to the nanosecond. With a
change it gives an estimate: what was hidden behind the change comes to light.
Source of the approach: HolisticTraceAnalysis' critical path; COZ (Curtsinger, Berger, SOSP 2015)
for virtual speed-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from planish.base.errors import unknown
from planish.trace.contexts import Host, delegating
from planish.trace.events import Flags, Ints, Kind, Table
from planish.trace.idle import HostState, leaf_at, split
from planish.trace.work import DeviceWork, synchronising

_NEAR = 10_000  # nanoseconds: an event that ended so shortly before is taken for what was awaited


class Edge(IntEnum):
    """Why a node could not start earlier."""

    START = 0
    STREAM = 1
    LAUNCH = 2
    OTHER_STREAM = 3
    HOST = 4
    OTHER_THREAD = 5
    SYNCHRONISATION = 6


@dataclass(frozen=True)
class Graph:
    """Host calls and device events by start. Every predecessor has a lower number.

    row      row in the table
    device   True for device events
    after    for each node up to two nodes whose END it waits for (-1: none)
    launch   the call whose START it waits for (-1: none)
    awaited  for synchronising calls the device event whose end they wait for (-1: none)
    """

    row: Ints
    start: Ints
    end: Ints
    device: Flags
    after: tuple[Ints, Ints]
    launch: Ints
    awaited: Ints

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class PathStep:
    """One piece of the critical path: `row` ran (or was waited in front of) from start to end."""

    row: int
    edge: Edge
    start: int
    end: int
    waits: bool

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class WhatIf:
    """An estimate. Times in nanoseconds; `speedup` is before over after."""

    change: str
    before: int
    after: int

    @property
    def speedup(self) -> float:
        """At least as large as 1 for any change that only shortens."""
        return self.before / self.after if self.after else 1.0


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
    node_of = np.full(len(events), -1, np.int64)
    node_of[rows] = np.arange(len(rows))
    launch = np.full(len(rows), -1, np.int64)
    linked = work.launch >= 0
    outer = _outer_call(table, host, calls)
    launch[node_of[work.row[linked]]] = node_of[outer[work.launch[linked]]]
    launch[launch >= np.arange(len(rows))] = -1  # clocks that do not agree
    first, second = _waits(table, work, host, rows, device, start, end, launch, node_of)
    awaited = _awaited(table, rows, device, start, end)
    return Graph(rows, start, end, device, (first, second), launch, awaited)


def _outermost_calls(table: Table, host: Host) -> Ints:
    """Indices into `host` of runtime calls that lie in no other one."""
    runtime = table.events.kind[host.row] == Kind.RUNTIME
    parent_runs = np.zeros(len(runtime), np.bool_)
    has = host.parent >= 0
    parent_runs[has] = runtime[host.parent[has]]
    return np.flatnonzero(runtime & ~parent_runs)


def _outer_call(table: Table, host: Host, calls: Ints) -> Ints:
    """Row of a call to the row of the outermost call around it."""
    outer = np.arange(len(table.events))
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
    first, second = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    lane = _lanes(table, rows, device)
    order = np.lexsort((np.arange(count), lane))
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
    keys = np.stack(
        (
            device.astype(np.int64),
            np.where(device, events.device[rows], events.thread[rows]),
            np.where(device, events.stream[rows], 0),
        )
    )
    _, lane = np.unique(keys, axis=1, return_inverse=True)
    made: Ints = lane.reshape(-1)
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
    for number in np.unique(thread).tolist():
        ends = np.sort(ended[thread == number])
        here = mine == number
        first = np.searchsorted(ends, before[here], side="right")
        last = np.searchsorted(ends, start[here], side="right")
        found[here] = last > first
    return found


def _root_starts(table: Table, host: Host) -> Ints:
    """For each host row the start of the outermost event around it."""
    root = np.arange(len(host.row))
    parent = np.where(host.parent >= 0, host.parent, root)
    for _ in range(12):  # pointer doubling: 4,096 levels
        parent = parent[parent]
    made = table.events.start.copy()
    made[host.row] = host.start[parent]
    return made


def _awaited(table: Table, rows: Ints, device: Flags, start: Ints, end: Ints) -> Ints:
    found = np.full(len(rows), -1, np.int64)
    waits = synchronising(table)[table.events.name[rows]] & ~device
    syncs = np.flatnonzero(waits)
    nodes = np.flatnonzero(device)
    if not len(nodes) or not len(syncs):
        return found
    by_end = nodes[np.argsort(end[nodes], kind="stable")]
    place = np.searchsorted(end[by_end], end[syncs], side="right") - 1
    syncs, place = syncs[place >= 0], place[place >= 0]
    last = by_end[place]
    good = end[last] > start[syncs]
    found[syncs[good]] = last[good]
    return found


def replay(graph: Graph, duration: Ints, free: Flags) -> tuple[Ints, Ints]:
    """Starts and ends with other durations.

    duration  of each node; for a synchronising call what it takes beside waiting
    free      synchronising calls that wait for nothing any more
    """
    start, end = graph.start.tolist(), graph.end.tolist()
    first, second = (side.tolist() for side in graph.after)
    launch, awaited = graph.launch.tolist(), graph.awaited.tolist()
    lengths, loose = duration.tolist(), free.tolist()
    new_start, new_end = [0] * len(start), [0] * len(start)
    # A call may wait for a device event that it launched itself or that started after it: ends of
    # synchronising calls are settled when first asked for, in the order of the awaited event.
    pending = _settling_order(graph)
    for node in pending.tolist():
        if node < 0:
            node = -node - 1
            other = awaited[node]
            tail = end[node] - end[other]
            own = new_start[node] + lengths[node]
            new_end[node] = own if loose[node] else max(own, new_end[other] + tail)
            continue
        befores = [
            (times[before], new[before])
            for before, times, new in (
                (first[node], end, new_end),
                (second[node], end, new_end),
                (launch[node], start, new_start),
            )
            if before >= 0
        ]
        new_start[node] = _moved(start[node], befores)
        new_end[node] = new_start[node] + lengths[node]
    return np.array(new_start, np.int64), np.array(new_end, np.int64)


def _moved(start: int, befores: list[tuple[int, int]]) -> int:
    """The new start. The lag is that behind the latest predecessor; the others' is hidden."""
    if not befores:
        return start
    latest = max(was for was, _ in befores)
    return max(now + start - latest if was == latest else now for was, now in befores)


def _settling_order(graph: Graph) -> Ints:
    """Nodes by start; -n-1 stands for 'settle the end of n' at the measured end of its wait."""
    nodes = np.arange(len(graph))
    syncs = np.flatnonzero(graph.awaited >= 0)
    times = np.concatenate((graph.start, graph.end[syncs]))
    # at one time: settle ends before what starts then
    kind = np.concatenate((np.ones(len(nodes), np.int64), np.zeros(len(syncs), np.int64)))
    what = np.concatenate((nodes, -syncs - 1))
    empty = np.concatenate((nodes, syncs))
    return what[np.lexsort((empty, kind, times))]


def base_durations(graph: Graph) -> Ints:
    """Durations for `replay`: a synchronising call that waited keeps only what was not waiting."""
    duration = graph.end - graph.start
    waits = graph.awaited >= 0
    tail = graph.end[waits] - graph.end[graph.awaited[waits]]
    duration[waits] = np.minimum(duration[waits], tail)
    return duration


def critical_path(graph: Graph) -> list[PathStep]:
    """From the last end back to the first start; the steps are adjacent and cover that time."""
    if not len(graph):
        return []
    steps: list[PathStep] = []
    node = int(np.argmax(graph.end))
    until = int(graph.end[node])
    while True:
        node_start = int(graph.start[node])
        other = int(graph.awaited[node])
        if other >= 0 and node_start < int(graph.end[other]) <= until and other != node:
            ended = int(graph.end[other])
            _step(steps, graph, node, Edge.SYNCHRONISATION, ended, until, False)
            node, until = other, ended
            continue
        before, edge, time = _binding(graph, node)
        _step(steps, graph, node, edge, node_start, until, False)
        if before < 0:
            break
        _step(steps, graph, node, edge, time, node_start, True)
        node, until = before, time
    return list(reversed(steps))


def _step(
    steps: list[PathStep], graph: Graph, node: int, edge: Edge, start: int, end: int, waits: bool
) -> None:
    if end > start:
        steps.append(PathStep(int(graph.row[node]), edge, start, end, waits))


def _binding(graph: Graph, node: int) -> tuple[int, Edge, int]:
    """The predecessor that let the node start last, and when it did."""
    first, second = int(graph.after[0][node]), int(graph.after[1][node])
    on_device = bool(graph.device[node])
    launch = int(graph.launch[node])
    choices: list[tuple[int, int, Edge]] = []
    if first >= 0:
        choices.append((int(graph.end[first]), first, Edge.STREAM if on_device else Edge.HOST))
    if second >= 0:
        edge = Edge.OTHER_STREAM if on_device else Edge.OTHER_THREAD
        choices.append((int(graph.end[second]), second, edge))
    if launch >= 0:
        choices.append((int(graph.start[launch]), launch, Edge.LAUNCH))
    if not choices:
        return -1, Edge.START, int(graph.start[node])
    time, before, edge = max(choices)
    return before, edge, time


def what_if_faster(table: Table, graph: Graph, name: str, factor: float) -> WhatIf:
    """All events of this name (kernel or call) `factor` times as fast."""
    chosen = _named(table, graph, name)
    duration = base_durations(graph)
    duration[chosen] = np.rint(duration[chosen] / factor).astype(np.int64)
    return _compare(graph, f"{name}: {factor:g} times as fast", duration, chosen & False)


def what_if_without(table: Table, graph: Graph, name: str) -> WhatIf:
    """Synchronising calls of this name wait for nothing and take no time."""
    chosen = _named(table, graph, name) & ~graph.device
    duration = base_durations(graph)
    duration[chosen] = 0
    return _compare(graph, f"without {name}", duration, chosen)


def _named(table: Table, graph: Graph, name: str) -> Flags:
    mask: Flags = np.array([text == name for text in table.strings] or [False])
    chosen: Flags = mask[table.events.name[graph.row]]
    if not chosen.any():
        present = np.unique(table.events.name[graph.row]).tolist()
        raise unknown("kernel or call", name, [table.strings[i] for i in present])
    return chosen


def _compare(graph: Graph, change: str, duration: Ints, free: Flags) -> WhatIf:
    start, end = replay(graph, duration, free)
    before = int(graph.end.max() - graph.start.min())
    return WhatIf(change, before, int(end.max() - start.min()))


def summarise(table: Table, path: list[PathStep], state: HostState) -> list[tuple[str, int]]:
    """Nanoseconds of the path by what ran, the most first; they sum to the path.

    In front of a call its thread ran what its segments say; other waiting is named by its edge.
    """
    sums: dict[str, int] = {}
    by_thread: dict[int, list[PathStep]] = {}
    for step in path:
        if step.waits and step.edge in (Edge.HOST, Edge.OTHER_THREAD):
            by_thread.setdefault(int(table.events.thread[step.row]), []).append(step)
            continue
        words = table.strings[table.events.name[step.row]]
        if step.waits:
            words = f"({_WAIT_WORDS[step.edge]})"
        sums[words] = sums.get(words, 0) + step.length
    for thread, steps in by_thread.items():
        for words, time in _host_between(table, state, thread, steps):
            sums[words] = sums.get(words, 0) + time
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _host_between(
    table: Table, state: HostState, thread: int, steps: list[PathStep]
) -> Iterator[tuple[str, int]]:
    seg = state.segments.get(thread)
    edges = seg.edges if seg else np.empty(0, np.int64)
    start, end, _ = split(
        np.array([s.start for s in steps]), np.array([s.end for s in steps]), edges
    )
    length = end - start
    leaf = leaf_at(seg, start) if seg else np.full(len(start), -1, np.int64)
    ran = leaf >= 0
    yield "(host between calls, nothing traced)", int(length[~ran].sum())
    names = table.events.name[state.host.row[leaf[ran]]]
    for name in np.unique(names).tolist():
        yield f"(host) {table.strings[name]}", int(length[ran][names == name].sum())


_WAIT_WORDS = {
    Edge.START: "start",
    Edge.STREAM: "between events of a stream",
    Edge.LAUNCH: "launch latency",
    Edge.OTHER_STREAM: "between streams",
    Edge.SYNCHRONISATION: "synchronisation",
}
