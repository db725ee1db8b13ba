"""Calling contexts of the host: nesting of events in each thread, and what ran at each moment.

Everything is by arrays, level by level: an event lies outermost when no earlier one reaches over
its start. Events that cross (profilers round, and annotations outlive the call that opened
them) are cut, so that a thread runs one leaf at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planish.trace.events import (
    HOST_WORK,
    Flags,
    Ints,
    Kind,
    Narrow,
    Table,
    index_type,
    indices,
)
from planish.trace.intervals import distinct, numbered, once
from planish.trace.work import matching

ROOT = 0
_DEEPEST = 1000  # nesting beyond it is not a program's: its events are given no time
_PART = 500_000  # events looked at together
_REPAIRS = 64  # rounds of untangling on one level; a profiler's traces need one or two

# What a thread that waits for others is in: it runs nothing and is blamed for nothing.
_WAITING = re.compile(
    r"acquire of _thread\.lock|_wait_for_tstate_lock|<built-in method (select|poll|epoll|sleep)"
    r"|method 'poll' of|\bwait\b of|sem_wait|pthread_cond_wait|epoll_wait"
    r"|^threading\.py\(\d+\): wait$"
    r"|^threading\.py\(\d+\): (_bootstrap|_bootstrap_inner|run)$"
)
_DELEGATING = re.compile(r"backward", re.IGNORECASE)
_STEP = re.compile(r"^ProfilerStep\s*#\s*\d+$")


@dataclass(frozen=True)
class Tree:
    """The calling-context tree: node 0 is the root, a parent has a lower number than its child.

    parent  node to parent node (-1 for the root)
    name    node to index into the table's strings (-1 for the root)
    depth   node to depth (0 for the root)
    """

    parent: Ints
    name: Ints
    depth: Ints

    def __len__(self) -> int:
        return len(self.parent)

    def path(self, node: int, strings: Sequence[str]) -> tuple[str, ...]:
        """Names from the outermost call to the node."""
        names: list[str] = []
        while node != ROOT:
            names.append(_STEP.sub("ProfilerStep", strings[int(self.name[node])]))
            node = int(self.parent[node])
        return tuple(reversed(names))


@dataclass(frozen=True)
class Host:
    """Host events with their nesting. Arrays have one element for each event, by thread.

    row     row in the table
    parent  index (into these arrays) of the event around it, or -1
    node    node of the calling-context tree
    end     end, cut at the parent's
    """

    row: Narrow
    thread: Narrow
    start: Ints
    end: Ints
    parent: Narrow
    node: Narrow
    tree: Tree


@dataclass(frozen=True)
class Segments:
    """What one thread ran: disjoint pieces by start, each with its leaf (an index into Host)."""

    thread: int
    start: Ints
    end: Ints
    leaf: Narrow

    @property
    def edges(self) -> Ints:
        """All starts and ends, sorted, each once."""
        # pieces follow each other: taken in turns, starts and ends are sorted already
        return once(np.stack((self.start, self.end), axis=1).ravel())

    def within(self, begin: int, finish: int) -> Segments:
        """The pieces that reach into a stretch of time, as views."""
        first = int(np.searchsorted(self.end, begin, side="right"))
        last = int(np.searchsorted(self.start, finish, side="left"))
        part = slice(first, max(first, last))
        return Segments(self.thread, self.start[part], self.end[part], self.leaf[part])

    def where(self, mask: Flags) -> Segments:
        """The pieces where `mask` is true."""
        return Segments(self.thread, self.start[mask], self.end[mask], self.leaf[mask])


def host_contexts(table: Table) -> Host:
    """Nest the host events of every thread."""
    events = table.events
    rows = indices(events.of_kind(*HOST_WORK), len(events))
    thread = events.thread[rows]
    # rows lie by start, then longest first: a stable sort by thread keeps that
    order = np.argsort(thread, kind="stable")
    rows, thread = rows[order], thread[order]
    del order
    start = events.start[rows]
    end = start + events.duration[rows]
    parent, level = _nest(thread, start, end)
    node, tree = _nodes(parent, level, _numberless(table)[events.name[rows]])
    return Host(rows, thread, start, end, parent, node, tree)


def _numberless(table: Table) -> Narrow:
    """String to string, so that step 7 and step 8 are one context: the first step's name."""
    number = np.arange(max(1, len(table.strings)), dtype=np.int32)
    steps = [i for i, name in enumerate(table.strings) if _STEP.match(name)]
    if steps:
        number[steps] = steps[0]
    return number


def _nest(thread: Ints, start: Ints, end: Ints) -> tuple[Ints, list[Ints]]:
    """Parents, and the events of each level. Cuts `end` in place so that all is nested."""
    count = len(start)
    parent: Narrow = np.full(count, -1, index_type(count))
    levels: list[Ints] = []
    # Threads are laid one behind the other, so that a running maximum never crosses into another.
    number = np.cumsum(np.concatenate((np.zeros(1, np.bool_), thread[1:] != thread[:-1]))[:count])
    begin, finish, back = _laid_out(start, end, number)
    del number
    left = np.arange(count, dtype=parent.dtype)
    while len(left):
        outer = _outermost(begin, finish, left)
        top = left[outer]
        levels.append(top)
        inner = ~outer
        left, owner = left[inner], _held(left, outer)[inner]
        parent[left] = owner
        finish[left] = np.maximum(np.minimum(finish[left], finish[owner]), begin[left])
        if len(levels) == _DEEPEST:
            finish[left] = begin[left]
            levels.append(left)
            break
    end[:] = back(finish)
    return parent, levels


def _laid_out(start: Ints, end: Ints, number: Ints) -> tuple[Ints, Ints, Callable[[Ints], Ints]]:
    """Starts and ends with each thread in a range of its own, and the way back.

    Ranks stand for the times where a damaged file's lie too far apart to be shifted.
    """
    if not len(start):
        return start, end, lambda moved: moved
    low, high = int(start.min()), int(end.max())
    width = high - low + 1
    if width * (int(number.max()) + 1) < 1 << 62:
        shift = number * width - low
        return start + shift, end + shift, lambda moved: moved - shift
    times = distinct(np.concatenate((start, end)))
    ranks = number * len(times)
    begin, finish = np.searchsorted(times, start) + ranks, np.searchsorted(times, end) + ranks
    return begin, finish, lambda moved: times[moved - ranks]


def _outermost(begin: Ints, finish: Ints, left: Ints) -> Flags:
    """Which of the events `left` lie in no other one of them.

    An event that begins inside another and ends after it crosses it. If most of it lies beyond,
    it is no child: the other is cut where it begins (an annotation opened by a call that returns
    a moment later). Otherwise it is a child and is cut by the caller.
    """
    for _ in range(_REPAIRS):
        begun, ended = begin[left], finish[left]
        outer = np.concatenate(([True], begun[1:] >= np.maximum.accumulate(ended)[:-1]))
        limit = _held(ended, outer)  # the end of the outer event; of an outer one its own
        crosses = np.flatnonzero(ended - limit > limit - begun)
        if not len(crosses):
            return outer
        owner = _held(left, outer)
        held = owner[crosses]  # ascending: outer events lie by start
        first = np.concatenate(([True], held[1:] != held[:-1]))
        crosser = crosses[first]  # the earliest one in each event that is crossed
        finish[owner[crosser]] = begin[left[crosser]]
        kept = ~outer & (begin[left] < finish[owner])
        finish[left[kept]] = np.minimum(finish[left[kept]], finish[owner[kept]])
    reach = np.maximum.accumulate(finish[left])
    made: Flags = np.concatenate(([True], begin[left][1:] >= reach[:-1]))
    return made


def _held(values: Ints, first: Flags) -> Ints:
    """At each place the value of the last place before it (or it itself) where `first` is true."""
    places = np.flatnonzero(first)
    return np.repeat(values[places], np.diff(places, append=len(values)))


def _nodes(parent: Ints, levels: list[Ints], name: Ints) -> tuple[Ints, Tree]:
    """Number the calling contexts level by level: equal names under equal contexts are one."""
    node: Narrow = np.zeros(len(parent), index_type(len(parent)))
    parents, names, depths = [np.array([-1])], [np.array([-1])], [np.array([0])]
    count = 1
    for depth, members in enumerate(levels, start=1):
        above = np.where(parent[members] >= 0, node[parent[members]], ROOT)
        key = above.astype(np.int64) << 32 | name[members]
        unique, place = numbered(key)
        node[members] = count + place
        parents.append(unique >> 32)
        names.append(unique & 0xFFFFFFFF)
        depths.append(np.full(len(unique), depth))
        count += len(unique)
    tree = Tree(np.concatenate(parents), np.concatenate(names), np.concatenate(depths))
    return node, tree


def segments(host: Host) -> list[Segments]:
    """For each thread, what was innermost at each moment in which anything ran."""
    made = []
    for thread in once(host.thread).tolist():
        first, last = np.searchsorted(host.thread, [thread, thread + 1])
        parts = [
            _thread_segments(host, thread, mine)
            for begin, end in _separate(host, int(first), int(last))
            if len(mine := begin + np.flatnonzero(host.end[begin:end] > host.start[begin:end]))
        ]
        if parts:
            made.append(_joined(thread, parts))
    return made


def _separate(host: Host, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cuts of a thread's events where none is open, about _PART apart: bounds the memory."""
    while first < last:
        cut = min(first + _PART, last)
        if cut < last:
            roots = np.flatnonzero(host.parent[cut:last] < 0)
            cut = cut + int(roots[0]) if len(roots) else last
        yield first, cut
        first = cut


def _joined(thread: int, parts: list[Segments]) -> Segments:
    if len(parts) == 1:
        return parts[0]
    return Segments(
        thread,
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.leaf for part in parts]),
    )


def _thread_segments(host: Host, thread: int, mine: Ints) -> Segments:
    """At an end the parent becomes the leaf, at a start the event; ends come before starts."""
    depth = host.tree.depth[host.node[mine]].astype(np.int16)  # at most _DEEPEST
    times = np.concatenate((host.end[mine], host.start[mine]))
    leaf = np.concatenate((host.parent[mine], mine.astype(host.parent.dtype)))
    begins = np.repeat(np.array([0, 1], np.int8), len(mine))
    nested = np.concatenate((-depth, depth))
    order = np.lexsort((nested, begins, times))
    times, leaf = times[order], leaf[order]
    last = np.concatenate((times[1:] != times[:-1], [True]))
    times, leaf = times[last], leaf[last]
    start, end, leaf = times[:-1], times[1:], leaf[:-1]
    runs = leaf >= 0
    return Segments(thread, start[runs], end[runs], leaf[runs])


def waiting(table: Table) -> Flags:
    """For each string, whether a thread inside it waits for other threads."""
    return matching(table, table.events.of_kind(*HOST_WORK), _WAITING)


def delegating(table: Table) -> Flags:
    """For each string, whether a host event of this name has other threads do its work.

    PyTorch runs the backward pass in threads of its own while the caller of `backward` blocks.
    Only annotations and Python functions: the operations of the pass itself do run.
    """
    return matching(table, table.events.of_kind(Kind.ANNOTATION, Kind.PYTHON), _DELEGATING)
