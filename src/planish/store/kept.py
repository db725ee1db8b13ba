"""Results kept as files by key, for whoever computes the same again: a cache that forgets.

The first two digits of a key name a folder, in which those used last stay. A file that was cut off
or changed is none; a cache that cannot be read or written is no error.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from planish.base.config import read_config
from planish.base.errors import PlanishError
from planish.base.files import write_atomic
from planish.base.hashing import digest

_MOST_IN_A_FOLDER = 64
_MOST_BYTES = 8 << 20


def load_kept(kind: str, key: str) -> bytes | None:
    """What was kept under the key."""
    path = _place(kind, key)
    try:
        head, _, data = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if head != digest(data).encode():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return data


def keep(kind: str, key: str, data: bytes) -> None:
    """Keep it, unless it is large; what was not used for longest goes."""
    if len(data) > _MOST_BYTES:
        return
    path = _place(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, digest(data).encode() + b"\n" + data, durable=False)
        names = os.listdir(path.parent)  # noqa: PTH208 - names alone, which is faster
        if len(names) > _MOST_IN_A_FOLDER:
            _forget(path.parent)
    except (OSError, PlanishError):
        return


def _forget(folder: Path) -> None:
    """Half of the files, so that this is seldom; others may do it at the same time."""
    used = {}
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            used[path] = path.stat().st_mtime_ns
    for path in sorted(used, key=lambda path: used[path])[: -_MOST_IN_A_FOLDER // 2]:
        path.unlink(missing_ok=True)


def _place(kind: str, key: str) -> Path:
    return read_config().cache_dir / kind / key[:2] / key
