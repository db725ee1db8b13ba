"""A small model of a core: which tile of results takes the fewest cycles; blocks of equal size."""

from __future__ import annotations

import functools
import math

# Multiply-adds wait four cycles for each other; two begin in each.
LATENCY = 8


@functools.lru_cache(maxsize=1 << 12)
def best_tile(most_rows: int, most_vectors: int, registers: int, fetch: float) -> tuple[int, int]:
    """Rows and vectors of the tile that takes the fewest cycles, `fetch` for loading a vector."""
    best, best_cost = (1, 1), math.inf
    for vectors in range(1, min(8, most_vectors) + 1):
        for rows in range(1, min(16, most_rows) + 1):
            if rows * vectors + vectors > registers:
                continue
            cost = 0.0
            for r, count_r in _parts(most_rows, rows):
                for v, count_v in _parts(most_vectors, vectors):
                    work = max(r * v, r + v, LATENCY)
                    cost += count_r * count_v * (work / 2 + 0.15 * r + fetch * v)
            if cost < best_cost * 0.999:
                best, best_cost = (rows, vectors), cost
    return best


def _parts(total: int, size: int) -> list[tuple[int, int]]:
    """Sizes with how often they occur when `total` is walked in steps of `size`."""
    full, rest = divmod(total, size)
    return [(s, c) for s, c in ((size, full), (rest, 1)) if s and c]


def even_block(total: int, most: int, multiple: int) -> int:
    """A block of at most about `most`, such that the blocks are nearly equal."""
    count = max(1, -(-total // most))
    size = -(-total // count)
    return -(-size // multiple) * multiple
