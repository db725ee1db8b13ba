"""Comparisons: what differs is told, what does not is not."""

from __future__ import annotations

import random

import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.measure.timer import ratio_interval


def test_a_comparison_prints_every_candidate() -> None:
    found = pl.measure.compare({"one": lambda: sum(range(10)), "two": lambda: None}, seconds=0.05)
    assert [row.name for row in found.rows] == ["one", "two"]
    assert len(str(found).splitlines()) == 2
    assert all(len(row.samples) >= 7 for row in found.rows)
    assert found["one"].ratio == 1.0


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        pl.measure.compare({})


def test_intervals_hold_the_true_ratio_and_shrink_with_the_noise() -> None:
    draw = random.Random(0)
    first = [1 + draw.random() * 0.2 for _ in range(60)]
    half = [0.5 * (1 + draw.random() * 0.2) for _ in range(60)]
    low, high = ratio_interval(half, first, random.Random(1))
    assert low < 0.5 < high < 0.6
    low, high = ratio_interval(list(first), first, random.Random(1))
    assert low <= 1.0 <= high
