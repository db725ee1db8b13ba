"""Measuring: sizes of objects, statistics, timing. Builds nothing, searches nothing."""

from planish.measure.timer import compare

__all__ = ["compare"]
