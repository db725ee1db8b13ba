"""Files are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from planish.base.errors import UsageError


def write_atomic(path: Path, data: bytes | str, *, durable: bool = True) -> None:
    """Write `data` to a temporary name beside `path` and move it into place.

    A symbolic link stays one: what it leads to is replaced. What is no regular file (`/dev/null`,
    `/dev/stdout`, a pipe) is written to as it stands. Where it need not be durable, a power failure
    may leave a file cut off.
    Raises UsageError (folder missing, read-only, disk full); `path` then is as it was.
    """
    raw = data.encode() if isinstance(data, str) else data
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            path.write_bytes(raw)
            return
        place = path.resolve()
        with _temporary_beside(place) as (handle, temporary):
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(place)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
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


@contextlib.contextmanager
def _temporary_beside(path: Path) -> Iterator[tuple[int, Path]]:
    """An open file under a hidden name in the folder of `path`, gone again if anything fails."""
    # A part of the name only: a long name with more before and behind it would be too long.
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:32]}.", dir=path.parent)
    temporary = Path(name)
    try:
        yield handle, temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    # The only way to read it is to set it; the process is single-threaded where files are written.
    current = os.umask(0)
    os.umask(current)
    return current


def check_writable(path: Path) -> None:
    """Make the folder of `path` where it is missing; raises UsageError when nothing can be written.

    Asked before long work, so that its result is not lost at the end.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose another place with -o or make room",
        ) from error
