"""What a kernel is built from, and where in it a value is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planish.tensor.loops import For

Ranges = Mapping[str, int]


# Bytes that operands are prefetched ahead of their use: far enough for the second cache.
AHEAD = 2048

# How far unrolled reduction loops are: offsets along their axes.
Offsets = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Shape:
    """What a kernel is built from.

    loops     those inside it, outermost first
    lengths   the stage's axes, as long as they are here
    first     whether reductions begin here; else what is stored is gone on with
    last      whether they end here, and `post` is applied
    vector    bytes of a vector register
    prefetch  names of tensors that are touched ahead of their use
    dot4      whether the target multiplies and adds bytes by four
    """

    loops: Sequence[For]
    lengths: Ranges
    first: bool
    last: bool
    vector: int
    prefetch: frozenset[str]
    dot4: bool = False


class Chunk(NamedTuple):
    """Lanes of the vector axis: where they begin and how many count."""

    offset: int
    lanes: int


class Spot(NamedTuple):
    """Where in a kernel a value is wanted.

    point  number of the output point, without the vector axis
    slot   number of the chunk, and the chunk itself (None where nothing is in lanes)
    """

    point: int
    slot: int
    chunk: Chunk | None


def lanes_for(types: frozenset[str], length: int, vector: int) -> int:
    """Lanes of a kernel: as many as registers hold of the widest type, no more than needed."""
    widest = 8 if types & {"f64", "i64"} else 4
    lanes = vector // widest
    while lanes > 16 // widest and lanes // 2 >= length:
        lanes //= 2
    return lanes
