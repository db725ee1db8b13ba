"""One columnar model of a trace: what every reader fills and every analysis reads.

Times are int64 nanoseconds. A row is an event with a start and a duration; what has no duration
(metadata, flow arrows, counters) is not a row, and is counted in the trace's notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ABSENT = -1  # a device, stream, correlation or size that the profiler did not write


class Kind(IntEnum):
    """What an event is. KERNEL, MEMCPY and MEMSET occupy a device; the host kinds a thread."""

    OTHER = 0
    HOST_OP = 1
    PYTHON = 2
    ANNOTATION = 3
    RUNTIME = 4
    KERNEL = 5
    MEMCPY = 6
    MEMSET = 7
    DEVICE_ANNOTATION = 8
    DEVICE_SYNC = 9
    SPAN = 10
    OVERHEAD = 11
    COUNTERS = 12


DEVICE_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
HOST_WORK = (Kind.HOST_OP, Kind.PYTHON, Kind.ANNOTATION, Kind.RUNTIME, Kind.OTHER)

# Column to type. `thread` indexes `Trace.threads`, `name` and `shape` index `Trace.strings`;
# `detail` indexes the rows of `Details`.
COLUMNS: dict[str, type] = {
    "start": np.int64,
    "duration": np.int64,
    "name": np.int32,
    "kind": np.uint8,
    "thread": np.int32,
    "device": np.int32,
    "stream": np.int64,
    "correlation": np.int64,
    "shape": np.int32,
    "detail": np.int32,
}

# What only device work has, one row for each such event that came with any of it.
DETAILS: dict[str, type] = {
    "bytes": np.int64,
    "grid": np.int64,
    "block": np.int64,
    "registers": np.int32,
    "shared": np.int64,
    "occupancy": np.float32,
}


@dataclass(frozen=True)
class Thread:
    """Where an event was recorded: process and thread as the profiler names them."""

    process: int | str
    thread: int | str
    name: str = ""

    @property
    def label(self) -> str:
        """`name (process/thread)`, or without the name where there is none."""
        where = f"{self.process}/{self.thread}"
        return f"{self.name} ({where})" if self.name else where


@dataclass(frozen=True)
class Note:
    """Something that was left out, repaired or guessed while reading, and how often."""

    what: str
    count: int = 1

    def __str__(self) -> str:
        return f"{self.what}: {self.count:,}" if self.count > 1 else self.what


@dataclass(frozen=True)
class Device:
    """What the profiler says about one device (zero where it says nothing)."""

    index: int
    name: str = ""
    processors: int = 0
    max_threads: int = 0
    registers: int = 0
    shared: int = 0
    warp: int = 0


class Interner(dict[Any, int]):
    """Values to dense numbers, in the order of their first use."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


def is_kind(column: npt.NDArray[np.uint8], *kinds: Kind) -> Flags:
    """Which elements are one of these kinds (a table of 256 flags: numpy.isin sorts)."""
    wanted = np.zeros(256, np.bool_)
    wanted[list(kinds)] = True
    return wanted[column]


@dataclass(frozen=True)
class Events:
    """The columns of COLUMNS as arrays of equal length, sorted by start (then longest first)."""

    start: Ints
    duration: Ints
    name: npt.NDArray[np.int32]
    kind: npt.NDArray[np.uint8]
    thread: npt.NDArray[np.int32]
    device: npt.NDArray[np.int32]
    stream: Ints
    correlation: Ints
    shape: npt.NDArray[np.int32]
    detail: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> Ints:
        """Start plus duration."""
        return self.start + self.duration

    def of_kind(self, *kinds: Kind) -> Ints:
        """The rows of these kinds, in order of start."""
        return np.flatnonzero(is_kind(self.kind, *kinds))


@dataclass(frozen=True)
class Details:
    """The columns of DETAILS: bytes of a copy, launch geometry and resources of a kernel."""

    bytes: Ints
    grid: Ints
    block: Ints
    registers: npt.NDArray[np.int32]
    shared: Ints
    occupancy: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.bytes)


@dataclass(frozen=True)
class Table:
    """Everything that one file holds.

    source   the file's path as given
    format   which reader read it
    rank     the rank of a distributed job, where the file says
    events   the rows; `strings[events.name[i]]` is a row's name
    notes    what was left out or repaired: nothing is dropped in silence
    skipped  True where `--salvage` had to leave damaged parts out
    """

    source: str
    format: str
    events: Events
    details: Details
    strings: Sequence[str]
    threads: Sequence[Thread]
    devices: Sequence[Device] = ()
    rank: int | None = None
    notes: Sequence[Note] = ()
    properties: dict[str, Any] = field(default_factory=dict)
    skipped: bool = False


class Columns:
    """Grows the columns block by block; `finish` sorts them and makes the table.

    Blocks are small arrays, so that the memory while reading is the finished columns and one
    block of decoded events, however long the file is.
    """

    def __init__(self) -> None:
        self.strings = Interner()
        self.threads = Interner()
        self.thread_names: dict[tuple[int | str, int | str], str] = {}
        self.process_names: dict[int | str, str] = {}
        self.notes: dict[str, int] = {}
        self.details = 0
        self._blocks: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in COLUMNS}
        self._detail_blocks: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in DETAILS}

    def note(self, what: str, count: int = 1) -> None:
        """Count something that was left out or repaired."""
        if count:
            self.notes[what] = self.notes.get(what, 0) + count

    def add(self, **columns: Any) -> None:
        """Append one block; absent columns are filled with ABSENT."""
        length = len(columns["start"])
        for name, kind in COLUMNS.items():
            values = columns.get(name)
            self._blocks[name].append(self._filled(values, kind, length))

    def add_details(self, **columns: Any) -> range:
        """Append details; returns their numbers, for the `detail` column."""
        length = len(next(iter(columns.values())))
        for name, kind in DETAILS.items():
            values = columns.get(name)
            self._detail_blocks[name].append(self._filled(values, kind, length))
        first = self.details
        self.details += length
        return range(first, self.details)

    def _filled(self, values: Any, kind: type, length: int) -> npt.NDArray[Any]:
        return np.full(length, ABSENT, kind) if values is None else self.block(values, kind)

    def block(self, values: Any, kind: type) -> npt.NDArray[Any]:
        """The values as an array of one column's type; numbers too large for it are noted."""
        try:
            return np.asarray(values, kind)
        except OverflowError:
            limit = np.iinfo(kind)
            kept = [v if limit.min <= v <= limit.max else ABSENT for v in values]
            self.note("numbers too large for their column (left out)", sum(
                a is not b for a, b in zip(kept, values, strict=True)
            ))  # fmt: skip
            return np.asarray(kept, kind)

    def finish(self, source: str, form: str, **rest: Any) -> Table:
        """Sort by start, longest first among equals, and give up the blocks."""
        joined = {name: _join(self._blocks.pop(name), kind) for name, kind in COLUMNS.items()}
        start = joined["start"]
        ordered = len(start) < 2 or bool(np.all(start[1:] > start[:-1]))
        if not ordered:
            order = np.lexsort((-joined["duration"], start))
            for name in COLUMNS:
                joined[name] = joined[name][order]
        details = {name: _join(self._detail_blocks.pop(name), k) for name, k in DETAILS.items()}
        notes = [Note(what, count) for what, count in sorted(self.notes.items())]
        return Table(
            source, form, Events(**joined), Details(**details), list(self.strings),
            [self._thread(key) for key in self.threads], notes=notes, **rest,
        )  # fmt: skip

    def _thread(self, key: tuple[int | str, int | str]) -> Thread:
        name = self.thread_names.get(key) or self.process_names.get(key[0], "")
        return Thread(key[0], key[1], name)


def _join(blocks: list[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    if not blocks:
        return np.empty(0, kind)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def select(table: Table, rows: Iterable[int]) -> list[str]:
    """The names of the rows."""
    return [table.strings[table.events.name[row]] for row in rows]
