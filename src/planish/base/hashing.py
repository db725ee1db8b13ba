"""Content hashes: short, stable names for bytes and texts."""

from __future__ import annotations

import hashlib


def digest(*parts: bytes | str) -> str:
    """BLAKE2b-128 of the parts as 32 hex digits.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()
