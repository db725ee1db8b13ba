"""Arrays of JSON objects, decoded piece by piece while the file streams in.

A piece is cut where one object seems to end and the next to begin. Whether the cut is right is
decided by decoding: text that parses as a whole list up to a comma proves that the comma stands
between elements. Only when that fails (a list of objects inside an event, the end of the array,
damage) is the structure found exactly, by counting brackets outside strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from planish.base.errors import TraceError
from planish.trace.events import Flags, Ints
from planish.trace.source import BLOCK, Blocks

T = TypeVar("T")
Decode = Callable[[bytes], list[T]]

# One event never comes near this; a file whose quotes are broken would be read to its end.
LONGEST_ELEMENT = 64 << 20
# What stands before and behind the events: device properties, the profiler's configuration.
LONGEST_TEXT = 256 << 20
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PIECE = 32 << 10
_SEPARATOR = re.compile(rb"\s*,?\s*")
_DEEPEST = 256  # a rough count of brackets, strings included: only to step over what is nested so
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_ELEMENT = re.compile(r"`\$\[(\d+)\]")  # where a value is of the wrong type or out of range
_REASON = re.compile(r"^JSON is malformed: |\s*\(byte \d+\)$")


@dataclass(frozen=True)
class _Structure:
    """Commas between elements, and where the array closes (-1: not in this text)."""

    commas: Ints
    close: int


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
            cut = _last_boundary(self._window)
            if cut > 0:
                items = self._try(decode, cut)
                if items is None and self._salvage:
                    items = self._rescue(decode, cut)
                if items is not None:
                    self._drop(self._window.index(b",", cut) + 1)
                    target = BLOCK
                    yield items
                    continue
            shape = _structure(self._window)
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
            return decode(_listed(self._window, 0, end))
        except DECODE_ERRORS:
            return None

    def _decode(self, decode: Decode[T], end: int) -> list[T]:
        try:
            return decode(_listed(self._window, 0, end))
        except DECODE_ERRORS as error:
            if self._salvage:
                return self._rescue(decode, end)
            where = _offset(error, self._window[:end])
            raise self.error(f"not JSON: {_reason(error)}", where) from error

    def _rescue(self, decode: Decode[T], end: int) -> list[T]:
        """All elements before `end` that decode; the text between them is skipped and counted.

        In small pieces, so that each damaged place costs a piece and not the window.
        """
        items: list[T] = []
        start = 0
        while start < end:
            size = _PIECE
            while start + size < end and not _last_boundary(self._window[start : start + size]):
                size *= 2
            stop = end
            if start + size < end:
                stop = start + _last_boundary(self._window[start : start + size])
            items += self._rescue_piece(decode, self._window[start:stop])
            separator = _SEPARATOR.match(self._window, stop)
            start = separator.end() if separator else stop
        return items

    def _rescue_piece(self, decode: Decode[T], text: bytes) -> list[T]:
        items: list[T] = []
        start, end = 0, len(text)
        while text[start:].strip():
            try:
                return items + decode(_listed(text, start, end))
            except DECODE_ERRORS as error:
                bad = min(start + _offset(error, text[start:]), end)
            self.skipped += 1
            cut = start + _last_boundary(text[start:bad])
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
        place = max(0, position + _offset(error, text, added=0))
        raise TraceError(
            f"not JSON: {_reason(error)} at byte {place:,}", position=place,
            hint="--salvage reads what is whole",
        ) from error  # fmt: skip


def _listed(text: bytes, start: int, end: int) -> bytes:
    return b"".join((b"[", memoryview(text)[start:end], b"]"))


def _offset(error: Exception, text: bytes, added: int = 1) -> int:
    """Where in `text` the decoder stopped; its own message, where it gives one, else found out.

    `added` bytes (a bracket) stood before the text when it was decoded.
    Never short of the damage: rescuing would otherwise go on one element at a time.
    """
    found = _BYTE.search(str(error))
    if found:
        return max(0, int(found[1]) - added)
    element = _ELEMENT.search(str(error))
    if element and int(element[1]):
        commas = _structure(text).commas
        place = min(int(element[1]), len(commas)) - 1
        return text.find(b"{", int(commas[place])) + 1 if place >= 0 else 0
    if element:
        return 1
    if "UTF-8" in str(error):
        try:
            text.decode()
        except UnicodeDecodeError as place:
            return place.start
    if isinstance(error, RecursionError):
        codes = np.frombuffer(text, np.uint8)
        opens = (codes == ord("{")) | (codes == ord("["))
        closes = (codes == ord("}")) | (codes == ord("]"))
        deep = np.flatnonzero(np.cumsum(opens.astype(np.int32) - closes) > _DEEPEST)
        return int(deep[0]) if len(deep) else len(text)
    return len(text)  # cut short


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return _REASON.sub("", str(error))


def _last_boundary(text: bytes) -> int:
    """One past the last `}` that is followed by a comma and a `{`; 0 where there is none."""
    end = len(text)
    while (brace := text.rfind(b"{", 0, end)) > 0:
        before = text[max(0, brace - 256) : brace].rstrip()
        if before.endswith(b","):
            before = before[:-1].rstrip()
            if before.endswith(b"}"):
                return max(0, brace - 256) + len(before)
        end = brace
    return 0


def _structure(text: bytes) -> _Structure:
    """Find commas and the closing bracket at the depth where `text` begins (outside a string)."""
    codes = np.frombuffer(text, np.uint8)
    quotes = codes == ord('"')
    if b"\\" in text:
        quotes &= ~_escaped(codes)
    inside = np.cumsum(quotes, dtype=np.int32) & 1
    opens = (codes == ord("{")) | (codes == ord("["))
    closes = (codes == ord("}")) | (codes == ord("]"))
    outside = inside == 0
    step = (opens & outside).astype(np.int32) - (closes & outside)
    depth = np.cumsum(step, dtype=np.int32)
    below = np.flatnonzero(depth < 0)
    close = int(below[0]) if len(below) else -1
    commas = np.flatnonzero((codes == ord(",")) & outside & (depth == 0))
    return _Structure(commas[commas < close] if close >= 0 else commas, close)


def _escaped(codes: npt.NDArray[np.uint8]) -> Flags:
    """True where an odd number of backslashes stands directly before."""
    slash = codes == ord("\\")
    index = np.arange(len(codes))
    last_other = np.maximum.accumulate(np.where(slash, -1, index))
    run = index - last_other  # backslashes up to and with here
    before = np.concatenate(([0], run[:-1]))
    odd: Flags = before % 2 == 1
    return odd
