"""The critical path: back from the last end, always to what let an event start last.

Source of the approach: HolisticTraceAnalysis' critical path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import overload

import numpy as np

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
