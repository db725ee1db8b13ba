"""Idle time charged to the calling contexts that the host was running.

The rule is HPCToolkit's (Chabbi, Murthy, Fagan, Mellor-Crummey, "Effective sampling-driven
performance tools for GPU-accelerated supercomputers", SC 2013): while a device idles, the
contexts that run on the CPU are charged, shared equally among the threads that run. Here the
shares are whole nanoseconds, so that they sum to the idle time exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planish.trace.contexts import ROOT, Host, Segments, waiting
from planish.trace.events import Flags, Ints, Table
from planish.trace.idle import Idle, split
from planish.trace.intervals import distinct

_CHUNK = 200_000  # pieces times threads looked at together: bounds the memory


@dataclass(frozen=True)
class Blame:
    """Nanoseconds of idle time by node of the calling-context tree.

    own    charged to the node itself
    total  with everything below it; `total[ROOT]` is all idle time
    nobody charged to the root: no thread ran anything that was traced
    """

    own: Ints
    total: Ints

    @property
    def nobody(self) -> int:
        """Idle time in which no thread ran anything that was traced."""
        return int(self.own[ROOT])


@dataclass(frozen=True)
class BlameRow:
    """One calling context with its charge."""

    path: tuple[str, ...]
    own: int
    total: int


def blame(table: Table, host: Host, threads: Sequence[Segments], idle: Idle) -> Blame:
    """Charge every piece of the idle time."""
    own = np.zeros(len(host.tree), np.int64)
    asleep = _asleep(table, host)
    active = [s for s in (_awake(s, asleep) for s in threads) if len(s.start)]
    edges = distinct(np.concatenate([s.edges for s in active] or [idle.start[:0]]))
    start, end, _ = split(idle.start, idle.end, edges)
    step = max(1, _CHUNK // max(1, len(active)))
    for begin in range(0, len(start), step):
        _charge(own, host, active, start[begin : begin + step], end[begin : begin + step])
    return Blame(own, _inclusive(host, own))


def _charge(own: Ints, host: Host, active: Sequence[Segments], start: Ints, end: Ints) -> None:
    leaves = np.full((len(active), len(start)), -1, np.int64)
    for number, seg in enumerate(active):
        place = np.searchsorted(seg.start, start, side="right") - 1
        has = place >= 0
        has[has] = start[has] < seg.end[place[has]]
        leaves[number, has] = seg.leaf[place[has]]
    runs = leaves >= 0
    count = runs.sum(axis=0)
    length = end - start
    own[ROOT] += int(length[count == 0].sum())
    share = length // np.maximum(count, 1)
    left = length - share * count
    # the first `left` of the running threads get one nanosecond more
    order = np.cumsum(runs, axis=0)
    charge = np.where(runs, share + (order <= left), 0)
    np.add.at(own, host.node[leaves[runs]], charge[runs])


def _asleep(table: Table, host: Host) -> Flags:
    made: Flags = waiting(table)[table.events.name[host.row]]
    return made


def _awake(seg: Segments, asleep: Flags) -> Segments:
    keep = ~asleep[seg.leaf]
    return Segments(seg.thread, seg.start[keep], seg.end[keep], seg.leaf[keep])


def _inclusive(host: Host, own: Ints) -> Ints:
    total = own.copy()
    depth = host.tree.depth
    for level in range(int(depth.max(initial=0)), 0, -1):
        members = np.flatnonzero(depth == level)
        np.add.at(total, host.tree.parent[members], total[members])
    return total


def blame_rows(
    table: Table, host: Host, charged: Blame, limit: int | None = None
) -> list[BlameRow]:
    """The contexts with a charge of their own, the largest first."""
    nodes = np.flatnonzero(charged.own > 0)
    nodes = nodes[np.argsort(-charged.own[nodes], kind="stable")][:limit]
    return [
        BlameRow(
            host.tree.path(node, table.strings), int(charged.own[node]), int(charged.total[node])
        )
        for node in nodes.tolist()
    ]
