"""Machine code in pieces: bytes with places that are filled in once it is known where all lies."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import accumulate

from planish.codegen.x86 import encoder as x86

# A displacement of 4 bytes that points to a constant: which of the parts holds it, where there,
# the constant (a whole vector), and the bytes of the instruction behind the displacement.
Reference = tuple[int, int, bytes, int]


@dataclass
class Pool:
    """Constants behind the code, each a whole vector; addressed from the instruction pointer."""

    width: int
    entries: dict[bytes, int] = field(default_factory=dict)

    def offset(self, data: bytes) -> int:
        """Where the vector lies, from the pool's begin."""
        return self.entries.setdefault(data, len(self.entries) * self.width)

    def data(self) -> bytes:
        """All constants."""
        return b"".join(self.entries)


@dataclass(frozen=True)
class Piece:
    """A finished kernel, wherever it is put.

    references  its one part being 0
    registers   general registers that it writes as loop counters
    height      of its loops, the deepest way
    """

    code: bytes
    references: tuple[Reference, ...]
    registers: frozenset[int]
    height: int


# Finished kernels of this process, by what their code depends on; the oldest go first.
_PIECES: dict[Hashable, Piece] = {}
_MOST = 4096


def find_piece(key: Hashable) -> Piece | None:
    """A kernel that was finished before."""
    return _PIECES.get(key)


def keep_piece(key: Hashable, piece: Piece) -> None:
    """Keep a finished kernel for as long as there is room."""
    _PIECES[key] = piece
    while len(_PIECES) > _MOST:
        _PIECES.pop(next(iter(_PIECES)), None)


def forget_pieces() -> None:
    """As in a process that has compiled nothing yet: for benches and tests."""
    _PIECES.clear()


class Code:
    """Bytes so far; constants and subroutines are filled in by `fill`."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.references: list[Reference] = []
        self.calls: list[tuple[int, Hashable]] = []

    def add(self, data: bytes) -> None:
        """Some instructions."""
        self.parts.append(data)

    def constant(self, data: bytes, constant: bytes, tail: int) -> None:
        """An instruction whose displacement, `tail` bytes before its end, means a constant."""
        at = len(data) - tail - 4
        self.references.append((len(self.parts), at, constant, tail))
        self.parts.append(data)

    def call(self, subroutine: Hashable) -> None:
        """A call, filled in when the subroutine has its place."""
        self.calls.append((len(self.parts), subroutine))
        self.parts.append(x86.call(0))

    def piece(self, piece: Piece) -> None:
        """A finished kernel."""
        part = len(self.parts)
        self.references += [(part, at, data, tail) for _, at, data, tail in piece.references]
        self.parts.append(piece.code)

    def since(self, part: int) -> int:
        """Bytes from a part on."""
        return sum(map(len, self.parts[part:]))

    def finished(self, registers: frozenset[int], height: int) -> Piece:
        """What stands here as one piece; it holds no calls."""
        starts = [0, *accumulate(map(len, self.parts))]
        found = tuple(
            (0, starts[part] + at, data, tail) for part, at, data, tail in self.references
        )
        return Piece(b"".join(self.parts), found, registers, height)

    def filled(self, places: dict[Hashable, int], pool: Pool) -> bytes:
        """The whole code with the pool behind it; `places` says at which part each subroutine is.

        The pool begins at a multiple of 64 bytes.
        """
        starts = [0, *accumulate(map(len, self.parts))]
        image = bytearray(b"".join(self.parts))
        image += b"\x90" * (-len(image) % 64)
        behind = len(image)
        for part, at, data, tail in self.references:
            where = starts[part] + at
            struct.pack_into("<i", image, where, behind + pool.offset(data) - tail - where - 4)
        for part, subroutine in self.calls:
            where = starts[part] + 1
            target = starts[places[subroutine]]
            struct.pack_into("<i", image, where, target - where - 4)
        return bytes(image + pool.data())
