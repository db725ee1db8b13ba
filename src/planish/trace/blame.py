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

from planish.trace.contexts import ROOT, Host, Segments, delegating, waiting
from planish.trace.events import Flags, Ints, Table
from planish.trace.idle import Idle, leaf_at, split
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
    """Charge every piece of the idle time.

    A thread that only waits pays nothing. One that has other threads do its work (`delegating`)
    pays only while none of them runs.
    """
    own = np.zeros(len(host.tree), np.int64)
    running, blocked = awake(table, host, threads)
    both = running + blocked
    step = max(1, _CHUNK // max(1, len(both)))
    for begin in range(0, len(idle), step):
        part = slice(begin, begin + step)
        _charge_part(own, host, running, blocked, idle.start[part], idle.end[part])
    return Blame(own, _inclusive(host, own))


def awake(
    table: Table, host: Host, threads: Sequence[Segments]
) -> tuple[list[Segments], list[Segments]]:
    """The segments in which threads run, and those in which others do their work for them."""
    names = table.events.name[host.row]
    asleep, delegates = waiting(table)[names], delegating(table)[names]
    return _chosen(threads, ~asleep & ~delegates), _chosen(threads, delegates & ~asleep)


def _charge_part(
    own: Ints, host: Host, running: Sequence[Segments], blocked: Sequence[Segments],
    start: Ints, end: Ints,
) -> None:  # fmt: skip
    """Some pieces of idle time, which lie one behind the other."""
    first, last = int(start[0]), int(end[-1])
    running = [cut for s in running if len((cut := s.within(first, last)).start)]
    blocked = [cut for s in blocked if len((cut := s.within(first, last)).start)]
    edges = distinct(np.concatenate([s.edges for s in (*running, *blocked)] or [start[:0]]))
    start, end, _ = split(start, end, edges)
    step = max(1, _CHUNK // max(1, len(running) + len(blocked)))
    for begin in range(0, len(start), step):
        part = slice(begin, begin + step)
        leaves = _leaves(running, start[part])
        instead = _leaves(blocked, start[part])
        instead[:, (leaves >= 0).any(axis=0)] = -1
        _charge(own, host, np.concatenate((leaves, instead)), end[part] - start[part])


def ran(host: Host, threads: Sequence[Segments]) -> Blame:
    """The time of all threads by calling context, as `Blame` has it of idle time."""
    own = np.zeros(len(host.tree), np.int64)
    for seg in threads:
        np.add.at(own, host.node[seg.leaf], seg.end - seg.start)
    return Blame(own, _inclusive(host, own))


def _chosen(threads: Sequence[Segments], keep: Flags) -> list[Segments]:
    """The segments whose leaf is kept; threads without any are left out."""
    made = []
    for seg in threads:
        mask = keep[seg.leaf]
        if mask.all():
            made.append(seg)
        elif mask.any():
            made.append(seg.where(mask))
    return made


def _leaves(threads: Sequence[Segments], times: Ints) -> Ints:
    """What each thread runs at each time: threads by times, -1 for nothing."""
    rows = [leaf_at(seg, times) for seg in threads]
    return np.stack(rows) if rows else np.empty((0, len(times)), np.int64)


def _charge(own: Ints, host: Host, leaves: Ints, length: Ints) -> None:
    runs = leaves >= 0
    count = runs.sum(axis=0)
    own[ROOT] += int(length[count == 0].sum())
    share = length // np.maximum(count, 1)
    left = length - share * count
    # the first `left` of the running threads get one nanosecond more
    order = np.cumsum(runs, axis=0)
    charge = np.where(runs, share + (order <= left), 0)
    np.add.at(own, host.node[leaves[runs]], charge[runs])


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
