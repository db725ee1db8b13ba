"""Sets of half-open intervals as two sorted int64 arrays, and what is computed of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planish.trace.events import Flags, Ints


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals [start, end), ascending; none is empty, none touches the next."""

    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """Their summed length."""
        return int((self.end - self.start).sum())


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sorted, each once (numpy.unique hashes integers first, which is slower for these).

    It also imports numpy.ma, which takes as long as reading a small trace; so does numpy.median.
    """
    return once(np.sort(values))


def once(ordered: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of values that are sorted already each one once."""
    if not len(ordered):
        return ordered
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, and for each value its number among them."""
    known = distinct(values)
    return known, np.searchsorted(known, values)


def median(values: npt.NDArray[Any]) -> float:
    """The middle value, or the mean of the two in the middle; nan of none."""
    if not len(values):
        return math.nan
    ordered = np.sort(values)
    size = len(ordered)
    return (float(ordered[(size - 1) // 2]) + float(ordered[size // 2])) / 2


def union(start: Ints, end: Ints) -> Intervals:
    """The union of any intervals; empty ones vanish."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return Intervals(start.astype(np.int64), end.astype(np.int64))
    if not np.all(start[1:] >= start[:-1]):  # events come sorted, and there may be many
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(start[first], reach[last])


def gaps(busy: Intervals, begin: int | None = None, finish: int | None = None) -> Intervals:
    """What lies between the intervals, and between them and the ends where those are given."""
    starts, ends = busy.end, busy.start
    first = [] if begin is None else [begin]
    last = [] if finish is None else [finish]
    if begin is None:
        ends = ends[1:]
    if finish is None:
        starts = starts[:-1]
    left = np.concatenate((np.array(first, np.int64), starts))
    right = np.concatenate((ends, np.array(last, np.int64)))
    keep = right > left
    return Intervals(left[keep], right[keep])


def overlap(one: Intervals, other: Intervals) -> Intervals:
    """What lies in both."""
    edges = distinct(np.concatenate((one.start, one.end, other.start, other.end)))
    if len(edges) < 2:
        return Intervals(edges[:0], edges[:0])
    left, right = edges[:-1], edges[1:]
    both = inside(one, left) & inside(other, left)
    return union(left[both], right[both])


def inside(intervals: Intervals, times: Ints) -> Flags:
    """Whether each time lies in one of the intervals."""
    place = np.searchsorted(intervals.start, times, side="right") - 1
    found: Flags = place >= 0
    found[found] = times[found] < intervals.end[place[found]]
    return found


def covered(intervals: Intervals, times: Ints) -> Ints:
    """How much of the intervals lies before each time."""
    place = np.searchsorted(intervals.start, times, side="right") - 1
    lengths = intervals.end - intervals.start
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    within = np.zeros(len(times), np.int64)
    has = place >= 0
    within[has] = np.minimum(times[has], intervals.end[place[has]]) - intervals.start[place[has]]
    made: Ints = before[np.maximum(place, 0)] * has + within
    return made
