"""The critical path and what-if, on the graph of the run.

The lag of a node behind the latest of what it waits for is kept as it was measured. Replayed
without a change the graph gives the measured times back, to the nanosecond. With a change it
gives an estimate: what was hidden behind the change comes to light.
Source of the approach: HolisticTraceAnalysis' critical path; COZ (Curtsinger, Berger, SOSP 2015)
for virtual speed-up.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import overload

import numpy as np

from planish.base.errors import unknown
from planish.trace.events import Flags, Ints, Narrow, Table
from planish.trace.graph import Graph
from planish.trace.idle import HostState, leaf_at, split
from planish.trace.intervals import distinct, numbered

_PART = 200_000  # steps looked at together: bounds the memory


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
    joined: dict[int, list[int]] = {}
    for call, last in zip(*(side.tolist() for side in graph.joined), strict=True):
        joined.setdefault(call, []).append(last)
    for node in pending.tolist():
        if node < 0:
            node = -node - 1
            other = awaited[node]
            tail = end[node] - end[other]
            own = new_start[node] + lengths[node]
            ends = [new_end[last] for last in joined.get(node, ())]
            new_end[node] = own if loose[node] else max(own, new_end[other] + tail, *ends)
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


class Path(Sequence[PathStep]):
    """The steps as columns: a run of millions has millions of them."""

    def __init__(self, row: Narrow, edge: Narrow, bounds: Ints, waits: Flags) -> None:
        self.row = row
        self.edge = edge
        self.waits = waits
        self._bounds = bounds  # one more than steps: they are adjacent

    @property
    def start(self) -> Ints:
        """When each step begins."""
        return self._bounds[:-1]

    @property
    def end(self) -> Ints:
        """When each step ends: the next one's start."""
        return self._bounds[1:]

    def __len__(self) -> int:
        return len(self.row)

    @overload
    def __getitem__(self, place: int) -> PathStep: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PathStep]: ...
    def __getitem__(self, place: int | slice) -> PathStep | Sequence[PathStep]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return PathStep(
            int(self.row[place]), Edge(int(self.edge[place])), int(self.start[place]),
            int(self.end[place]), bool(self.waits[place]),
        )  # fmt: skip


def critical_path(graph: Graph) -> Path:
    """From the last end back to the first start; the steps are adjacent and cover that time."""
    nodes, edges, waits = array("q"), array("b"), array("b")
    bounds = array("q")
    if len(graph):
        _walk(graph, nodes, edges, waits, bounds)
    back = slice(None, None, -1)
    row = graph.row[np.frombuffer(nodes, np.int64)[back]] if nodes else graph.row[:0]
    return Path(
        row, np.array(edges, np.int8)[back], np.array(bounds, np.int64)[back],
        np.array(waits, np.bool_)[back],
    )  # fmt: skip


def _walk(
    graph: Graph, nodes: array[int], edges: array[int], waits: array[int], bounds: array[int]
) -> None:
    """Append the steps from the last to the first, and the times between them."""
    # views give plain integers, several times faster than elements of arrays
    start, end, awaited = (c.data for c in (graph.start, graph.end, graph.awaited))
    first, second = (column.data for column in graph.after)
    launch, device = graph.launch.data, graph.device.data

    def step(edge: int, begin: int, waiting: bool) -> None:
        if bounds[-1] > begin:
            nodes.append(node)
            edges.append(edge)
            waits.append(waiting)
            bounds.append(begin)

    node = int(np.argmax(graph.end))
    bounds.append(end[node])
    while True:
        other = awaited[node]
        if other >= 0 and start[node] < end[other] <= bounds[-1] and other != node:
            step(Edge.SYNCHRONISATION, end[other], False)
            node = other
            continue
        # the predecessor that let the node start last, and when it did
        on_device = device[node]
        before, edge, time = -1, int(Edge.START), start[node]
        if (found := first[node]) >= 0:
            before, time = found, end[found]
            edge = Edge.STREAM if on_device else Edge.HOST
        if (found := second[node]) >= 0 and (before < 0 or (end[found], found) > (time, before)):
            before, time = found, end[found]
            edge = Edge.OTHER_STREAM if on_device else Edge.OTHER_THREAD
        if (found := launch[node]) >= 0 and (before < 0 or (start[found], found) > (time, before)):
            before, edge, time = found, Edge.LAUNCH, start[found]
        step(edge, start[node], False)
        if before < 0:
            return
        step(edge, time, True)
        node = before


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
        present = distinct(table.events.name[graph.row]).tolist()
        raise unknown("kernel or call", name, [table.strings[i] for i in present])
    return chosen


def _compare(graph: Graph, change: str, duration: Ints, free: Flags) -> WhatIf:
    start, end = replay(graph, duration, free)
    before = int(graph.end.max() - graph.start.min())
    return WhatIf(change, before, int(end.max() - start.min()))


def summarise(table: Table, path: Path, state: HostState) -> list[tuple[str, int]]:
    """Nanoseconds of the path by what ran, the most first; they sum to the path.

    In front of a call its thread ran what its segments say; other waiting is named by its edge.
    """
    sums: dict[str, int] = {}

    def add(words: str, time: int) -> None:
        if time:
            sums[words] = sums.get(words, 0) + time

    length = path.end - path.start
    names, threads = table.events.name[path.row], table.events.thread[path.row]
    for name, time in _sums(names[~path.waits], length[~path.waits]):
        add(table.strings[name], time)
    on_host = path.waits & np.isin(path.edge, (Edge.HOST, Edge.OTHER_THREAD))
    rest = path.waits & ~on_host
    for edge, time in _sums(path.edge[rest], length[rest]):
        add(f"({_WAIT_WORDS[Edge(edge)]})", time)
    for thread in distinct(threads[on_host]).tolist():
        mine = np.flatnonzero(on_host & (threads == thread))
        for at in range(0, len(mine), _PART):
            some = mine[at : at + _PART]
            for words, time in _host_between(table, state, thread, path.start[some],
                                             path.end[some]):  # fmt: skip
                add(words, time)
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def _sums(keys: Narrow, amounts: Ints) -> Iterator[tuple[int, int]]:
    known, place = numbered(keys)
    sums = np.zeros(len(known), np.int64)
    np.add.at(sums, place, amounts)
    return zip(known.tolist(), sums.tolist(), strict=True)


def _host_between(
    table: Table, state: HostState, thread: int, start: Ints, end: Ints
) -> Iterator[tuple[str, int]]:
    seg = state.segments.get(thread)
    if seg:
        seg = seg.within(int(start[0]), int(end[-1]))
    start, end, _ = split(start, end, seg.edges if seg else np.empty(0, np.int64))
    length = end - start
    leaf = leaf_at(seg, start) if seg else np.full(len(start), -1, np.int64)
    ran = leaf >= 0
    yield "(host between calls, nothing traced)", int(length[~ran].sum())
    names = table.events.name[state.host.row[leaf[ran]]]
    for name in distinct(names).tolist():
        yield f"(host) {table.strings[name]}", int(length[ran][names == name].sum())


_WAIT_WORDS = {
    Edge.START: "start",
    Edge.STREAM: "between events of a stream",
    Edge.LAUNCH: "launch latency",
    Edge.OTHER_STREAM: "between streams",
    Edge.SYNCHRONISATION: "synchronisation",
}
