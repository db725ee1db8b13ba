"""A Chrome trace read by two processes: each inflates the file and decodes every other window.

Both cut the stream at the same places, for a cut depends on the text alone; that a cut is right
is proved by the process that decodes the window. What cannot be had window by window (begins and
ends to be paired, damage, lists of objects inside events, one thread under two names) ends the
attempt with `NotPlain`, and the caller reads the file in one process. The table is the same to
the last bit: what counts in the order of first use is numbered again, window by window.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planish.trace.chrome_decode import Event, decode
from planish.trace.chrome_events import EventReader
from planish.trace.columns import Columns
from planish.trace.events import ABSENT
from planish.trace.jsonstream import Scanner
from planish.trace.jsontext import DECODE_ERRORS
from planish.trace.source import is_packed

HALVES = 2
_PAIRED = frozenset("BEbeSF")
# Below, a fork costs more than it saves; above, the second copy of the columns is too large.
_PACKED_SIZES = range(256 << 10, 24 << 20)
_PLAIN_SIZES = range(4 << 20, 512 << 20)


class NotPlain(Exception):
    """The trace cannot be read in halves."""


def worth_halving(path: Path) -> bool:
    """Whether two processes read this file sooner than one, in bounded memory."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < HALVES:
        return False
    sizes = _PACKED_SIZES if is_packed(path) else _PLAIN_SIZES
    return path.stat().st_size in sizes


class HalfReader(EventReader):
    """Reads the windows of one half; knows after each what it had until then."""

    def __init__(self, half: int) -> None:
        super().__init__()
        self._half = half
        self._windows = 0

    def read(self, scanner: Scanner) -> None:
        """All windows up to the end of the array; raises NotPlain and TraceError."""
        for events in scanner.batches(self._decoded):
            if scanner.position >= _PLAIN_SIZES.stop:  # a small file that inflates to a huge one
                raise NotPlain
            self.add(events)
            self.columns.mark()

    def _decoded(self, text: bytes) -> list[Event]:
        window, self._windows = self._windows, self._windows + 1
        if window % HALVES != self._half:
            return []
        try:
            return decode(text, self.columns)
        except DECODE_ERRORS as error:
            raise NotPlain from error

    def _other(self, event: Event) -> None:
        if event.ph in _PAIRED:
            raise NotPlain
        super()._other(event)


def merged(halves: Sequence[Columns]) -> Columns:
    """The columns as if one process had filled them; raises NotPlain where two names differ."""
    whole = Columns()
    parts = [_Part(half) for half in halves]
    for half in halves:
        for what, count in half.notes.items():
            whole.note(what, count)
        _join_names(whole.thread_names, half.thread_names)
        _join_names(whole.process_names, half.process_names)
    if len({len(half.marks) for half in halves}) != 1:
        raise NotPlain
    for window in range(len(halves[0].marks)):
        parts[window % HALVES].move(window, whole)
    return whole


def _join_names(names: dict[Any, str], more: dict[Any, str]) -> None:
    for key, name in more.items():
        if names.setdefault(key, name) != name:
            raise NotPlain


class _Part:
    """One half on its way into the whole: its numbers, and the whole's for the same things."""

    def __init__(self, half: Columns) -> None:
        self._half = half
        self._strings, self._threads = list(half.strings), list(half.threads)
        self._string = np.full(len(self._strings) + 1, ABSENT, np.int32)  # the last: of ABSENT
        self._thread = np.full(len(self._threads) + 1, ABSENT, np.int32)
        self._details = 0

    def move(self, window: int, whole: Columns) -> None:
        """Append what this half read in one window."""
        half = self._half
        before, after = half.marks[window - 1] if window else (0, 0, 0, 0), half.marks[window]
        for place in range(before[0], after[0]):
            self._string[place] = whole.strings[self._strings[place]]
        for place in range(before[1], after[1]):
            self._thread[place] = whole.threads[self._threads[place]]
        shift = whole.details - self._details
        for block in range(before[2], after[2]):
            columns = half.taken(block)
            columns["name"] = self._string[columns["name"]]
            columns["shape"] = self._string[columns["shape"]]
            columns["thread"] = self._thread[columns["thread"]]
            detail = columns["detail"].astype(np.int32)
            columns["detail"] = np.where(detail >= 0, detail + np.int32(shift), np.int32(ABSENT))
            whole.add(**columns)
        for block in range(before[3], after[3]):
            self._details += len(whole.add_details(**half.taken_details(block)))
