"""What a recording keeps of files: content-addressed, compressed, each content once."""

from __future__ import annotations

import os
import tempfile
import zlib
from pathlib import Path

from planish.base.errors import UsageError
from planish.base.hashing import digest

_FOLDER = "blobs"
_LEVEL = 6


class Blobs:
    """Contents by digest, below the folder of a recording. Safe among processes of `make -j`."""

    def __init__(self, record: Path) -> None:
        self._root = record / _FOLDER

    def put(self, data: bytes) -> str:
        """Keep a content; its digest. What is kept already is not written again."""
        name = digest(data)
        path = self._path(name)
        if path.exists():
            return name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not `write_atomic`: a blob that a power cut takes is recorded anew, and a sync for each
        # unit would slow the build down.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.compress(data, _LEVEL))
        Path(temporary).replace(path)
        return name

    def get(self, name: str) -> bytes:
        """The content; raises UsageError when it is missing or damaged."""
        try:
            data = zlib.decompress(self._path(name).read_bytes())
        except (OSError, zlib.error) as error:
            raise UsageError(
                f"the recording lacks a part ({name[:8]}): {error}", hint="record the build again"
            ) from error
        if digest(data) != name:
            raise UsageError(
                f"a part of the recording is damaged ({name[:8]})", hint="record the build again"
            )
        return data

    def sweep(self, kept: set[str]) -> int:
        """Delete what is not among `kept`; the number of contents deleted."""
        gone = 0
        for path in self._root.glob("??/*"):
            if path.parent.name + path.name not in kept:
                path.unlink(missing_ok=True)
                gone += 1
        return gone

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self._root.glob("??/*"))

    def _path(self, name: str) -> Path:
        return self._root / name[:2] / name[2:]
