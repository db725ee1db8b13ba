"""`Columns`: what readers fill; becomes the table when the file has been read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from planish.trace.events import (
    ABSENT,
    COLUMNS,
    DETAILS,
    Details,
    Events,
    Interner,
    Note,
    Table,
    Thread,
    index_type,
)


class Columns:
    """Grows the columns block by block; `finish` sorts them and makes the table.

    Blocks are small arrays of the narrowest types, so that the memory while reading is the
    finished columns and one block of decoded events, however long the file is.
    """

    def __init__(self) -> None:
        self.strings = Interner()
        self.threads = Interner()
        self.thread_names: dict[tuple[int | str, int | str], str] = {}
        self.process_names: dict[int | str, str] = {}
        self.notes: dict[str, int] = {}
        self.details = 0
        self.marks: list[tuple[int, int, int, int]] = []
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
            if name in _TIMES:
                self._blocks[name].append(self.block(values, np.int64))
            else:
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

    def mark(self) -> None:
        """Note how many strings, threads, blocks and blocks of details there are by now."""
        self.marks.append(
            (len(self.strings), len(self.threads), len(self._blocks["start"]),
             len(self._detail_blocks["bytes"]))
        )  # fmt: skip

    def taken(self, block: int) -> dict[str, npt.NDArray[Any]]:
        """One block of the columns."""
        return {name: blocks[block] for name, blocks in self._blocks.items()}

    def taken_details(self, block: int) -> dict[str, npt.NDArray[Any]]:
        """One block of the details."""
        return {name: blocks[block] for name, blocks in self._detail_blocks.items()}

    def _filled(self, values: Any, kind: type, length: int) -> npt.NDArray[Any]:
        if values is None:
            return np.broadcast_to(np.array(ABSENT).astype(_NARROWEST.get(kind, kind)), length)
        return narrow(self.block(values, kind), kind)

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
        start = _join(self._blocks.pop("start"), np.int64)
        duration = _join(self._blocks.pop("duration"), np.int64)
        joined = {"start": start, "duration": duration}
        order: npt.NDArray[Any] | None = None
        if len(start) > 1 and not np.all(start[1:] > start[:-1]):
            order = np.lexsort((-duration, start)).astype(index_type(len(start)))
            joined = {name: column[order] for name, column in joined.items()}
        del start, duration
        for name, kind in COLUMNS.items():
            if name not in joined:
                column = _join(self._blocks.pop(name), kind)
                joined[name] = column if order is None else column[order]
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
    """One array of all blocks, as wide as the widest of them."""
    if not blocks:
        return np.empty(0, kind)
    return np.ascontiguousarray(blocks[0]) if len(blocks) == 1 else np.concatenate(blocks)


_NARROWEST: dict[type, type] = {np.int64: np.int8, np.int32: np.int8}
_WIDTHS = [
    (width, int(np.iinfo(width).min), int(np.iinfo(width).max))
    for width in (np.int8, np.int16, np.int32, np.int64)
]
_TIMES = ("start", "duration")


def narrow(values: npt.NDArray[Any], kind: type) -> npt.NDArray[Any]:
    """Signed integers in the narrowest type that holds them; other types as they are."""
    if kind not in _NARROWEST or not len(values):
        return values
    least, most = int(values.min()), int(values.max())
    for width, lowest, highest in _WIDTHS:
        if lowest <= least and most <= highest:
            return values.astype(width, copy=False)
    return values
