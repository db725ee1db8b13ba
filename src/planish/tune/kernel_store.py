"""Machine code kept on disk, for the next process."""

from __future__ import annotations

from pathlib import Path

from planish.base.config import read_config
from planish.base.errors import PlanishError
from planish.base.files import write_atomic
from planish.codegen.native import Image

# Part of every key on disk: raise it when generated code changes.
FORMAT = "8"


def load_image(key: str) -> Image | None:
    """What was kept under the key, if it can be read."""
    path = _place(key)
    try:
        return Image.from_bytes(path.read_bytes())
    except (OSError, ValueError):
        return None


def keep_image(key: str, image: Image) -> None:
    """On disk for the next process; a cache that cannot be written is no error."""
    path = _place(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, image.to_bytes())
    except (OSError, PlanishError):
        return


def _place(key: str) -> Path:
    return read_config().cache_dir / "kernels" / key[:2] / key
