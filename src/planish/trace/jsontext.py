"""JSON text without a parser: where elements end, and where and why a decoder stopped."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from planish.trace.events import Flags, Ints

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_DEEPEST = 256  # a rough count of brackets, strings included: only to step over what is nested so
_BYTE = re.compile(r"\(byte (\d+)\)")
_ELEMENT = re.compile(r"`\$\[(\d+)\]")  # where a value is of the wrong type or out of range
_REASON = re.compile(r"^JSON is malformed: |\s*\(byte \d+\)$")


@dataclass(frozen=True)
class Structure:
    """Commas between elements, and where the array closes (-1: not in this text)."""

    commas: Ints
    close: int


def offset_of(error: Exception, text: bytes, added: int = 1) -> int:
    """Where in `text` the decoder stopped; its own message, where it gives one, else found out.

    `added` bytes (a bracket) stood before the text when it was decoded.
    Never short of the damage: rescuing would otherwise go on one element at a time.
    """
    found = _BYTE.search(str(error))
    if found:
        return max(0, int(found[1]) - added)
    element = _ELEMENT.search(str(error))
    if element and int(element[1]):
        commas = structure(text).commas
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


def reason_of(error: Exception) -> str:
    """The decoder's message without its own positions."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return _REASON.sub("", str(error))


def last_boundary(text: bytes) -> int:
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


def structure(text: bytes) -> Structure:
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
    return Structure(commas[commas < close] if close >= 0 else commas, close)


def _escaped(codes: npt.NDArray[np.uint8]) -> Flags:
    """True where an odd number of backslashes stands directly before."""
    slash = codes == ord("\\")
    index = np.arange(len(codes))
    last_other = np.maximum.accumulate(np.where(slash, -1, index))
    run = index - last_other  # backslashes up to and with here
    before = np.concatenate(([0], run[:-1]))
    odd: Flags = before % 2 == 1
    return odd


def listed(text: bytes, start: int, end: int) -> bytes:
    """A part of the text as an array of its own."""
    return b"".join((b"[", memoryview(text)[start:end], b"]"))
