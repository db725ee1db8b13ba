"""Measuring: sizes of objects, statistics, timing. Builds nothing, searches nothing."""
