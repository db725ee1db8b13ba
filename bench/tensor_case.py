"""What a row of the table of shapes is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One row: a tensor to compile, its arrays, and the peers (torch gets tensors)."""

    group: str
    name: str
    tensor: Any
    arrays: list[Array]
    numpy: Callable[..., Array]
    torch: Callable[..., Any] | None


NUMBERS = np.random.default_rng(0)


def floats(*shape: int, kind: str = "f32") -> Array:
    """Random numbers of that shape."""
    return NUMBERS.standard_normal(shape).astype("float32" if kind == "f32" else "float64")
