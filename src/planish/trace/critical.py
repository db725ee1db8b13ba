"""The critical path and what-if, on the graph of the run.

The lag of a node behind the latest of what it waits for is kept as it was measured. Replayed
without a change the graph gives the measured times back, to the nanosecond. With a change it
gives an estimate: what was hidden behind the change comes to light.
Source of the approach: HolisticTraceAnalysis' critical path; COZ (Curtsinger, Berger, SOSP 2015)
for virtual speed-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from planish.base.errors import unknown
from planish.trace.events import Flags, Ints, Table
from planish.trace.graph import Graph
from planish.trace.idle import HostState, leaf_at, split


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
