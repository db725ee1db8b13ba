"""A GPU that is none, for tests of what measures on one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planish.tune.gpu_bench import Array


class Pretended:
    """Tensors are arrays; a call takes as long as it says."""

    name = "pretended"

    def __init__(self) -> None:
        self.cost = 0.0
        self.flushed = 0
        self.order: list[str] = []
        self.seen: list[float] = []

    def put(self, array: Array, type_name: str) -> Array:
        return np.array(array, np.float64)

    def get(self, tensor: Array) -> Array:
        return tensor.copy()

    def poison(self, tensor: Array) -> None:
        tensor.fill(np.nan)

    def flush(self) -> None:
        self.flushed += 1

    def timed(self, call: Callable[[], object]) -> float:
        call()
        return self.cost
