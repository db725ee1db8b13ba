"""The bytes of a profiler file as a stream: plain, gzip or zip, told apart by their first bytes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from isal import isal_zlib

from planish.base.closing import Closing
from planish.base.errors import TraceError, UsageError

BLOCK = 512 << 10  # larger blocks of decoded events fall out of the processor's caches
_PACKED = 64 << 10
_DAMAGED: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    zlib.error,
    cast(type[Exception], isal_zlib.error),
    zipfile.BadZipFile,
    NotImplementedError,  # a zip's compression that Python lacks
    RuntimeError,  # a zip that wants a password
    ValueError,
)
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def head(path: Path, length: int = 4096) -> bytes:
    """The first bytes of the file as it lies on disk; raises UsageError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(length)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", hint="check the path"
        ) from error


def is_packed(path: Path) -> bool:
    """Whether the file is compressed."""
    return head(path, 4).startswith((_GZIP, _ZIP))


class Blocks:
    """Inflated blocks of about BLOCK bytes.

    A stream that is damaged or ends early gives all its whole blocks first; then `problem` says
    what is wrong and iteration ends. The caller decides whether that is an error.

    No thread reads ahead: inflating takes a fifteenth of what decoding takes, and two threads
    that pass Python's lock to and fro lose more than that.
    """

    def __init__(self, path: Path) -> None:
        self.problem = ""
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        try:
            with _open(self._path) as stream:
                while block := stream.read(BLOCK):
                    yield block
        except _DAMAGED as error:
            self.problem = str(error) or type(error).__name__
        except TraceError as error:
            self.problem = error.message


def _open(path: Path) -> BinaryIO:
    first = head(path, 4)
    file = path.open("rb", buffering=0)
    if first.startswith(_GZIP):
        return cast(BinaryIO, _Inflated(file))
    if first.startswith(_ZIP):
        file.close()
        return _open_zip(path)
    return file


class _Inflated(Closing):
    """A gzip stream of one or more members. What was inflated before damage is handed out first."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._member = isal_zlib.decompressobj(wbits=31)
        self._left = b""
        self._error: Exception | None = None

    def close(self) -> None:
        """Close the file below."""
        self._file.close()

    def read(self, length: int) -> bytes:
        """At most `length` bytes; raises EOFError and the inflater's error only with no bytes."""
        parts: list[bytes] = []
        have = 0
        while have < length and self._error is None:
            try:
                piece = self._piece(length - have)
            except _DAMAGED as error:
                self._error = error
                break
            if piece is None:
                break
            parts.append(piece)
            have += len(piece)
        if not parts and self._error is not None:
            raise self._error
        return b"".join(parts)

    def _piece(self, length: int) -> bytes | None:
        if self._member.eof:
            self._left = self._member.unused_data.lstrip(b"\0") or self._file.read(_PACKED)
            if not self._left.strip(b"\0"):
                return None
            self._member = isal_zlib.decompressobj(wbits=31)
        packed = self._left or self._file.read(_PACKED)
        if not packed:
            raise EOFError("the compressed stream is cut short")
        piece: bytes = self._member.decompress(packed, length)
        self._left = self._member.unconsumed_tail
        return piece


def _open_zip(path: Path) -> BinaryIO:
    """The one member that can be a trace; a gzip inside a zip is inflated too."""
    archive = zipfile.ZipFile(path)
    members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__")]
    wanted = [m for m in members if m.filename.endswith((".json", ".json.gz", ".trace"))] or members
    if len(wanted) != 1:
        archive.close()
        raise TraceError(f"the zip file holds {len(wanted)} traces; unpack it and give one of them")
    stream = archive.open(wanted[0])
    archive.close()  # the member keeps the file open until it is closed itself
    if wanted[0].filename.endswith(".gz"):
        return cast(BinaryIO, _Inflated(cast(BinaryIO, stream)))
    return cast(BinaryIO, stream)
