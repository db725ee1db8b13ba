"""Comparisons: what differs is told, what does not is not."""

from __future__ import annotations

import random
import time

import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.measure.quiet import Conditions, clock_probe, conditions
from planish.measure.timer import ratio_interval


def test_a_comparison_prints_every_candidate() -> None:
    found = pl.measure.compare({"one": lambda: sum(range(10)), "two": lambda: None}, seconds=0.05)
    assert [row.name for row in found.rows] == ["one", "two"]
    lines = [line for line in str(found).splitlines() if not line.startswith("beware")]
    assert len(lines) == 2
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


def test_a_wrong_result_is_rejected_whenever_it_comes() -> None:
    calls = {"late": 0}

    def late() -> int:
        calls["late"] += 1
        return 7 if calls["late"] == 1 else 0

    found = pl.measure.compare(
        {"honest": lambda: 7, "late": late}, seconds=0.01, check=lambda result: result == 7
    )
    assert not found["honest"].rejected and "wrong" in found["late"].rejected
    assert not found["late"].faster and "rejected" in str(found)


def test_what_is_below_the_floor_is_rejected() -> None:
    found = pl.measure.compare({"one": lambda: None}, seconds=0.01, floor=10.0)
    assert "possible" in found["one"].rejected


def test_before_is_called_untimed_before_every_call() -> None:
    events: list[str] = []
    found = pl.measure.compare(
        {"one": lambda: events.append("call")}, seconds=0.0,
        before=lambda: events.append("before"), cold=True,
    )  # fmt: skip
    assert events[::2] == ["before"] * (len(events) // 2)
    assert events[1::2] == ["call"] * (len(events) // 2) and len(found["one"].samples) == 7


def test_a_narrow_interval_ends_the_comparison() -> None:
    wait = lambda: time.sleep(0.002)  # noqa: E731
    started = time.monotonic()
    found = pl.measure.compare({"a": wait, "b": wait}, seconds=20.0, within=0.5)
    assert time.monotonic() - started < 10 and found["b"].high - found["b"].low <= 0.5


def test_load_and_an_unsteady_clock_are_told() -> None:
    ticks = iter(["cpu 100 0 0 900 0 0 0 0\n", "cpu 112 0 0 900 0 0 0 0\n"])
    busy = conditions(0.06, stat=lambda: next(ticks), clock=[1.0, 1.0, 1.3, 1.3])
    assert busy.others is not None and busy.others > 1.0
    busy = Conditions(1.5, 2, busy.unsteady)
    assert busy.loaded and len(busy.warnings) == 2 and "1.30 times" in busy.warnings[1]
    idle = conditions(0.01, stat=lambda: "cpu 100 0 0 900 0 0 0 0\n", clock=[1.0, 1.01])
    assert not idle.loaded and not idle.warnings
    unknown = conditions(0.0, stat=lambda: "no such file")
    assert unknown.others is None and not unknown.warnings
    assert clock_probe() > 0
