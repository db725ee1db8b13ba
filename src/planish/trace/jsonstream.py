"""Arrays of JSON objects, decoded piece by piece while the file streams in.

A piece is cut where one object seems to end and the next to begin. Whether the cut is right is
decided by decoding: text that parses as a whole list up to a comma proves that the comma stands
between elements. Only when that fails (a list of objects inside an event, the end of the array,
damage) is the structure found exactly, by counting brackets outside strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from planish.base.errors import TraceError
from planish.trace.jsontext import (
    DECODE_ERRORS,
    last_boundary,
    listed,
    offset_of,
    reason_of,
    structure,
)
from planish.trace.source import BLOCK, Blocks

T = TypeVar("T")
Decode = Callable[[bytes], list[T]]

# One event never comes near this; a file whose quotes are broken would be read to its end.
LONGEST_ELEMENT = 64 << 20
# What stands before and behind the events: device properties, the profiler's configuration.
LONGEST_TEXT = 256 << 20
_PIECE = 32 << 10
_SEPARATOR = re.compile(rb"\s*,?\s*")
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")


class Scanner:
    """A window on the stream. `position` is the absolute byte of the window's first one."""

    def __init__(self, blocks: Blocks, *, salvage: bool = False) -> None:
        self.position = 0
        self.skipped = 0
        self._blocks = blocks
        self._more = iter(blocks)
        self._window = b""
        self._ended = False
        self._salvage = salvage

    def find(self, pattern: re.Pattern[bytes], keep: bool = True) -> tuple[re.Match[bytes], bytes]:
        """Read up to the pattern; returns its match and (where kept) the text before it.

        Raises LookupError at the end of the stream; then the window holds the kept text.
        """
        overlap = 256  # longer than what any pattern matches
        searched = 0
        while True:
            match = pattern.search(self._window, max(0, searched - overlap))
            if match:
                before = self._window[: match.start()]
                self._drop(match.end())
                return match, before
            searched = len(self._window)
            if not keep and searched > BLOCK:
                self._drop(searched - overlap)
                searched = overlap
            if len(self._window) > LONGEST_TEXT:
                raise self.error("no events in the first 256 MiB", 0)
            if not self._fill(len(self._window) + BLOCK):
                raise LookupError(pattern.pattern.decode(errors="replace"))

    def start(self) -> bytes:
        """The first bytes, without blanks before them; the window stays."""
        self._fill(BLOCK)
        return self._window.lstrip()[:4096]

    def rest(self) -> bytes:
        """Everything that is left."""
        while len(self._window) <= LONGEST_TEXT and self._fill(len(self._window) + BLOCK):
            pass
        if len(self._window) > LONGEST_TEXT:
            raise self.error("more than 256 MiB of text behind the events", 0)
        return self._window

    @property
    def problem(self) -> str:
        """What is wrong with the compressed stream, if anything."""
        return self._blocks.problem

    def error(self, why: str, offset: int) -> TraceError:
        """An error at `offset` bytes into the window."""
        place = self.position + offset
        return TraceError(
            f"{why} at byte {place:,}", position=place,
            hint="--salvage reads what is whole",
        )  # fmt: skip

    def batches(self, decode: Decode[T]) -> Iterator[list[T]]:
        """The elements of the array that the stream now stands in, in lists of about one block.

        Raises TraceError with the byte position of damage or of an early end; with salvage,
        damaged elements are left out and counted in `skipped`.
        """
        target = BLOCK
        while True:
            self._fill(target)
            cut = last_boundary(self._window)
            if cut > 0:
                items = self._try(decode, cut)
                if items is None and self._salvage:
                    items = self._rescue(decode, cut)
                if items is not None:
                    self._drop(self._window.index(b",", cut) + 1)
                    target = BLOCK
                    yield items
                    continue
            shape = structure(self._window)
            if shape.close >= 0:
                yield self._decode(decode, shape.close)
                self._drop(shape.close + 1)
                return
            if self._ended:
                yield self._last(decode)
                return
            if len(shape.commas) and cut > 0:
                yield self._decode(decode, int(shape.commas[-1]))
                self._drop(int(shape.commas[-1]) + 1)
                continue
            if len(self._window) > LONGEST_ELEMENT:
                raise self.error("an event longer than 64 MiB begins", 0)
            target = 2 * len(self._window) + BLOCK

    def _last(self, decode: Decode[T]) -> list[T]:
        """The stream ended inside the array."""
        if not self._salvage:
            why = f" ({self.problem})" if self.problem else ""
            raise self.error(f"the file is cut short or damaged{why}: it ends", len(self._window))
        items = self._rescue(decode, len(self._window))
        self._drop(len(self._window))
        return items

    def _try(self, decode: Decode[T], end: int) -> list[T] | None:
        try:
            return decode(listed(self._window, 0, end))
        except DECODE_ERRORS:
            return None

    def _decode(self, decode: Decode[T], end: int) -> list[T]:
        try:
            return decode(listed(self._window, 0, end))
        except DECODE_ERRORS as error:
            if self._salvage:
                return self._rescue(decode, end)
            where = offset_of(error, self._window[:end])
            raise self.error(f"not JSON: {reason_of(error)}", where) from error

    def _rescue(self, decode: Decode[T], end: int) -> list[T]:
        """All elements before `end` that decode; the text between them is skipped and counted.

        In small pieces, so that each damaged place costs a piece and not the window.
        """
        items: list[T] = []
        start = 0
        while start < end:
            size = _PIECE
            while start + size < end and not last_boundary(self._window[start : start + size]):
                size *= 2
            stop = end
            if start + size < end:
                stop = start + last_boundary(self._window[start : start + size])
            items += self._rescue_piece(decode, self._window[start:stop])
            separator = _SEPARATOR.match(self._window, stop)
            start = separator.end() if separator else stop
        return items

    def _rescue_piece(self, decode: Decode[T], text: bytes) -> list[T]:
        items: list[T] = []
        start, end = 0, len(text)
        while text[start:].strip():
            try:
                return items + decode(listed(text, start, end))
            except DECODE_ERRORS as error:
                bad = min(start + offset_of(error, text[start:]), end)
            self.skipped += 1
            cut = start + last_boundary(text[start:bad])
            if cut > start:
                items += self._try_text(decode, text[start:cut]) or []
            following = _BOUNDARY.search(text, max(bad - 1, start))
            if following is None:
                break
            start = following.end()
        return items

    def _try_text(self, decode: Decode[T], text: bytes) -> list[T] | None:
        try:
            return decode(b"[" + text + b"]")
        except DECODE_ERRORS:
            return None

    def _fill(self, length: int) -> bool:
        """Read until the window holds `length` bytes; False when the stream had no more."""
        if self._ended or len(self._window) >= length:
            return not self._ended
        parts, have = [self._window], len(self._window)
        for block in self._more:
            parts.append(block)
            have += len(block)
            if have >= length:
                break
        else:
            self._ended = True
        grown = len(parts) > 1
        self._window = b"".join(parts)
        return grown

    def _drop(self, length: int) -> None:
        self._window = self._window[length:]
        self.position += length


def decode_text(text: bytes, position: int, salvage: bool) -> dict[str, object]:
    """A JSON object that stands around the events; with salvage, {} where it is damaged."""
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except DECODE_ERRORS as error:
        if salvage:
            return {}
        place = max(0, position + offset_of(error, text, added=0))
        raise TraceError(
            f"not JSON: {reason_of(error)} at byte {place:,}", position=place,
            hint="--salvage reads what is whole",
        ) from error  # fmt: skip
