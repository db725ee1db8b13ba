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

# Column to its widest type; all but times are kept in the narrowest one that holds them.
# `thread` indexes `Trace.threads`, `name` and `shape` index `Trace.strings`; `detail` indexes the
# rows of `Details`.
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


Narrow = npt.NDArray[Any]  # signed integers of whatever width holds them: codes, not quantities


def index_type(count: int) -> type:
    """The type for indices into `count` elements: half as much memory where that is enough."""
    return np.int32 if count < 1 << 31 else np.int64


def indices(rows: npt.NDArray[Any], count: int) -> Narrow:
    """Indices into `count` elements in the narrower type."""
    return rows.astype(index_type(count), copy=False)


@dataclass(frozen=True)
class Events:
    """The columns of COLUMNS as arrays of equal length, sorted by start (then longest first).

    Times are int64. Codes are as narrow as they can be, so shifting or multiplying them needs a
    cast. The arrays may be views of a file: they are read-only then.
    """

    start: Ints
    duration: Ints
    name: Narrow
    kind: npt.NDArray[np.uint8]
    thread: Narrow
    device: Narrow
    stream: Narrow
    correlation: Narrow
    shape: Narrow
    detail: Narrow

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

    bytes: Narrow
    grid: Narrow
    block: Narrow
    registers: Narrow
    shared: Narrow
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


def select(table: Table, rows: Iterable[int]) -> list[str]:
    """The names of the rows."""
    return [table.strings[table.events.name[row]] for row in rows]
