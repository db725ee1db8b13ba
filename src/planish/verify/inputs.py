"""Inputs for differential runs, from a function's signature: edge values, buffers, links."""

from __future__ import annotations

import array
import random
from collections.abc import Sequence
from dataclasses import replace

from planish.verify.guard import kind_of
from planish.verify.ir import Function, Parameter, Type
from planish.verify.native import ZONE, ZONE_SIZE, Input

_SEED = 20_211
_ROOMS = (64, 64, 256, 1024)  # bytes behind a pointer, to where memory ends
_APART = 1024  # bytes between two pointers' buffers
_PLACES = range(ZONE, ZONE + ZONE_SIZE, 8)
_LINKS = (*_PLACES, *(at % 9 if at % 4 else at % 2 for at in range(len(_PLACES))))
_SMALL = bytes(1 + byte % 8 for byte in range(256))


def generate(source: Function, target: Function, count: int) -> list[Input]:
    """Inputs from the signature; the same for the same function, and the first ones for any count.

    They keep what both versions promise of their arguments: of a local function the passes know
    what its callers pass.

    Some have only bytes in memory; in some every word is a pointer to a place within the zone,
    null or a small number, so that what links lead to can be followed.
    """
    parameters = [
        replace(a, flags=a.flags | b.flags)
        for a, b in zip(source.parameters, target.parameters, strict=True)
    ]
    rng = random.Random(_SEED)
    return [_one(parameters, rng, at) for at in range(count)]


def _one(parameters: Sequence[Parameter], source: random.Random, at: int) -> Input:
    zone = _words(source) if at % 3 == 2 else _bytes(source)
    apart = at % 32 != 0 or any("noalias" in p.flags for p in parameters)
    given = []
    for number, parameter in enumerate(parameters):
        value = _argument(parameter, source, at)
        if value and apart and parameter.type.kind == "ptr":
            value -= number * _APART
        given.append(value)
    return Input(tuple(given), zone)


def _bytes(source: random.Random) -> bytes:
    """Zeros, small numbers and any bytes, in a mixture that is chosen anew for each input."""
    fill = source.choice((0, 4, 8))  # share of bytes that are not zero, in eighths
    any_byte, small = source.randbytes(ZONE_SIZE), source.randbytes(ZONE_SIZE).translate(_SMALL)
    chosen = source.randbytes(ZONE_SIZE)
    held = 0
    for data, parity in ((any_byte, 0), (small, 1)):
        mask = bytes(255 * (byte & 7 < fill and byte & 1 == parity) for byte in range(256))
        held |= _number(data) & _number(chosen.translate(mask))
    return held.to_bytes(ZONE_SIZE, "little")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _words(source: random.Random) -> bytes:
    """Words of which half are pointers."""
    return array.array("Q", source.choices(_LINKS, k=ZONE_SIZE // 8)).tobytes()


def _argument(parameter: Parameter, source: random.Random, at: int) -> int:
    kind = parameter.type
    if kind.kind == "ptr":
        if at % 16 == 15 and "nonnull" not in parameter.flags:
            return 0
        return ZONE + ZONE_SIZE - source.choice(_ROOMS)
    if kind.kind == "float":
        return _float(kind, source)
    edges = (0, 1, 2, 3, 7, 8, -1, -2, 1 << (kind.width - 1), (1 << (kind.width - 1)) - 1)
    small = source.randrange(source.choice((4, 12, 64)))
    large = source.getrandbits(kind.width)
    value = source.choice((source.choice(edges), small, small, large))
    return value & ((1 << kind.width) - 1)


def _float(kind: Type, source: random.Random) -> int:
    # Small whole numbers make sums and products exact, whatever their order.
    value = float(source.choice((0, 1, -1, 2, source.randrange(-50, 50))))
    raw = bytes(kind_of(kind)(value))
    return int.from_bytes(raw, "little")
