"""Ways to damage a file."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

_NUMBER = re.compile(rb"-?\d+(\.\d+)?")
_NONSENSE = (
    b"null", b"-1", b"1e400", b"99999999999999999999999", b'"x"', b"[]", b"{}", b"true", b"NaN",
    b"-9223372036854775808", b"0.1", b"[[[[", b'"\\ud800"', b"",
)  # fmt: skip


def mutations(data: bytes, rng: random.Random, count: int) -> Iterator[bytes]:
    """`count` damaged copies: bits flipped, cut, doubled, swapped, fields made nonsense."""
    kinds = (_flip, _cut, _double, _remove, _nonsense, _nonsense, _swap)
    for _ in range(count):
        damaged = data
        for _ in range(rng.choice((1, 1, 2, 4))):
            damaged = rng.choice(kinds)(damaged, rng)
        yield damaged


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(max(1, len(data)))


def _flip(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        if made:
            made[_place(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(made)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: _place(data, rng)]


def _double(data: bytes, rng: random.Random) -> bytes:
    start = _place(data, rng)
    end = min(len(data), start + rng.randrange(1, 2000))
    return data[:end] + data[start:]


def _remove(data: bytes, rng: random.Random) -> bytes:
    start = _place(data, rng)
    return data[:start] + data[start + rng.randrange(1, 500) :]


def _swap(data: bytes, rng: random.Random) -> bytes:
    first, second = sorted((_place(data, rng), _place(data, rng)))
    size = min(second - first, 64)
    return (
        data[:first] + data[second : second + size] + data[first + size : second]
        + data[first : first + size] + data[second + size :]
    )  # fmt: skip


def _nonsense(data: bytes, rng: random.Random) -> bytes:
    """Replace a number near a random place."""
    found = _NUMBER.search(data, _place(data, rng))
    if found is None:
        return data
    return data[: found.start()] + rng.choice(_NONSENSE) + data[found.end() :]
