"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from planish.base.errors import UsageError


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write `data` to a temporary name beside `path` and move it into place.

    Raises UsageError (folder missing, read-only, disk full); `path` then is as it was.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        reason = error.strerror or str(error)
        raise UsageError(
            f"cannot write {path}: {reason}",
            hint="nothing was changed; choose another place with -o or make room",
        ) from error


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or a UsageError that says why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}", hint="check the path"
        ) from error


def _umask() -> int:
    # The only way to read it is to set it; the process is single-threaded where files are written.
    current = os.umask(0)
    os.umask(current)
    return current
