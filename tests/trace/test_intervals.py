"""Interval sets against sets of whole numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planish.trace.idle import split
from planish.trace.intervals import Intervals, covered, gaps, inside, overlap, union

_PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def made(pairs: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    start = np.array([a for a, _ in pairs], np.int64)
    length = np.array([b for _, b in pairs], np.int64)
    points = {x for a, b in pairs for x in range(a, a + b)}
    return union(start, start + length), points


def points(intervals: Intervals) -> set[int]:
    pairs = zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
    return {x for a, b in pairs for x in range(a, b)}


@given(_PAIRS)
def test_union(pairs: list[tuple[int, int]]) -> None:
    found, wanted = made(pairs)
    assert points(found) == wanted
    assert found.total == len(wanted)
    assert (found.start[1:] > found.end[:-1]).all()


@given(_PAIRS)
def test_gaps(pairs: list[tuple[int, int]]) -> None:
    busy, wanted = made(pairs)
    if wanted:
        assert points(gaps(busy)) == set(range(min(wanted), max(wanted) + 1)) - wanted
    assert points(gaps(busy, 0, 60)) == set(range(60)) - wanted


@given(_PAIRS, _PAIRS)
def test_overlap(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    first, in_first = made(one)
    second, in_second = made(other)
    assert points(overlap(first, second)) == in_first & in_second


@given(_PAIRS)
def test_inside_and_covered(pairs: list[tuple[int, int]]) -> None:
    busy, wanted = made(pairs)
    times = np.arange(60)
    assert inside(busy, times).tolist() == [t in wanted for t in range(60)]
    assert covered(busy, times).tolist() == [len([x for x in wanted if x < t]) for t in range(60)]


@given(_PAIRS, st.lists(st.integers(0, 60), max_size=10))
def test_split(pairs: list[tuple[int, int]], edges: list[int]) -> None:
    busy, wanted = made(pairs)
    start, end, owner = split(busy.start, busy.end, np.array(sorted(set(edges)), np.int64))
    assert points(Intervals(start, end)) == wanted
    for a, b, of in zip(start.tolist(), end.tolist(), owner.tolist(), strict=True):
        assert a < b
        assert busy.start[of] <= a < b <= busy.end[of]
        assert not any(a < edge < b for edge in edges)
