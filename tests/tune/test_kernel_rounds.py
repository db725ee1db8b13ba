"""Rounds of a timing in turn: which count, and when there are enough."""

from __future__ import annotations

import random
import time

from planish.tune.kernel_requests import Measure
from planish.tune.kernel_rounds import Rounds, decided, once


def test_rounds_without_the_processor_are_not_counted() -> None:
    rounds = Rounds(Measure("p", b"", b"", 0.0, 1))
    for at in range(6):
        rounds.note(0, 1.0, True)
        assert not rounds.ended, "a round is not over before both were called"
        rounds.note(1, 50.0 if at % 2 else 1.1, at % 2 == 0)
    assert rounds.times == [[1.0] * 3, [1.1] * 3] and rounds.ended
    assert once(lambda: time.sleep(0.01), 1)[1] is False
    assert any(once(lambda: sum(range(2000)), 1)[1] for _ in range(20))


def test_what_is_slow_beyond_doubt_is_timed_once() -> None:
    rounds = Rounds(Measure("p", b"", b"", 5.0, 1, enough=1.2))
    rounds.note(0, 1.0, True)
    rounds.note(1, 4.0, True)
    assert rounds.ended


def test_timing_ends_once_more_rounds_would_change_nothing() -> None:
    draw = random.Random(0)
    base = [1 + 0.01 * draw.random() for _ in range(20)]
    twice = [2 * b for b in base]
    assert decided(twice[:5], base[:5], 1.2, 0.0), "surely slower than what is enough"
    assert not decided(twice[:4], base[:4], 1.2, 0.0), "four rounds say nothing"
    assert not decided(twice, base, float("inf"), 0.0)
    assert decided(twice, base, float("inf"), 0.01), "known precisely"
    noisy = [b * draw.uniform(0.5, 2.0) for b in base]
    assert not decided(noisy, base, 1.2, 0.01)
