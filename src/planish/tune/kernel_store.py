"""Machine code kept on disk, for the next process."""

from __future__ import annotations

from planish.codegen.native import Image
from planish.store.kept import keep, load_kept

# Part of every key on disk: raise it when generated code changes.
FORMAT = "9"
_KIND = "kernels"


def load_image(key: str) -> Image | None:
    """What was kept under the key, if it can be read."""
    data = load_kept(_KIND, key)
    try:
        return Image.from_bytes(data) if data is not None else None
    except ValueError:
        return None


def keep_image(key: str, image: Image) -> None:
    """On disk for the next process."""
    keep(_KIND, key, image.to_bytes())
