"""One piece of advice, and how pieces are ranked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Confidence(StrEnum):
    """How much an estimate is worth."""

    HIGH = "high"  # replayed on the measured graph
    MEDIUM = "medium"  # time that was measured to be lost; how much comes back is a guess
    LOW = "low"  # a pattern that often, not always, means lost time


@dataclass(frozen=True)
class Evidence:
    """When it happened: nanoseconds from the trace's first event, and what was seen."""

    start: int
    end: int
    what: str


@dataclass(frozen=True)
class Advice:
    """What to do and why.

    rule      name of the rule
    title     what to do, in one line
    where     kernel, call or calling context
    detail    why, with the measured numbers
    saved     nanoseconds (for samples: samples) that could go, of `whole`
    source    what the estimate rests on
    """

    rule: str
    title: str
    where: str
    detail: str
    saved: float
    whole: float
    confidence: Confidence
    source: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def speedup(self) -> float:
        """Estimated: the whole over what would be left of it."""
        left = self.whole - self.saved
        return self.whole / left if left > 0 else float("inf")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "confidence": self.confidence.value, "speedup": self.speedup}


_SMALLEST = 0.005  # of the whole: less is not worth a line


def ranked(found: Iterable[Advice]) -> list[Advice]:
    """What could save at least half a percent, the most first. Savings of several overlap."""
    worth = [a for a in found if a.whole > 0 and a.saved >= _SMALLEST * a.whole]
    return sorted(worth, key=lambda a: (-a.saved / a.whole, a.rule, a.where))
