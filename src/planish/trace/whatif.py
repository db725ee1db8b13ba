"""What if: the run replayed on its graph with other durations.

The lag of a node behind the latest of what it waits for is kept as it was measured. Replayed
without a change the graph gives the measured times back, to the nanosecond. With a change it
gives an estimate: what was hidden behind the change comes to light.
Source of the approach: COZ (Curtsinger, Berger, SOSP 2015) for virtual speed-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planish.base.errors import unknown
from planish.trace.events import Flags, Ints, Table
from planish.trace.graph import Graph
from planish.trace.intervals import distinct
from planish.trace.names import short

_SHOWN = 60  # letters of a name in an error


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
    """Nodes of this name, or of this name without arguments, or (`start...`) beginning so.

    The screen shows names short and cut: what it shows can be given back.
    """
    codes = table.events.name[graph.row]
    present = distinct(codes).tolist()
    full = {number: table.strings[number] for number in present}
    brief = {number: short(text) for number, text in full.items()}
    cut = name.removesuffix("...") if name.endswith("...") else ""
    chosen = (
        [n for n in present if full[n] == name]
        or [n for n in present if brief[n] == name]
        or [n for n in present if cut and brief[n].startswith(cut)]
    )
    if not name or len({brief[n] for n in chosen}) != 1:
        raise unknown("kernel or call", name, sorted({text[:_SHOWN] for text in brief.values()}))
    found: Flags = np.isin(codes, chosen)
    return found


def _compare(graph: Graph, change: str, duration: Ints, free: Flags) -> WhatIf:
    start, end = replay(graph, duration, free)
    before = int(graph.end.max() - graph.start.min())
    return WhatIf(change, before, int(end.max() - start.min()))
