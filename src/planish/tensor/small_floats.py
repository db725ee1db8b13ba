"""Eight-bit floats in NumPy: e4m3 (no infinity, to 448) and e5m2 (as f16, to 57,344).

The formats are those of the OCP 8-bit Floating Point Specification, which NVIDIA GPUs have since
sm_89. Rounding is to nearest even; what is too large becomes the largest number, as the hardware's
saturating conversion has it, and NaN stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """Bits of the mantissa, the exponent's bias, and the code of the largest number."""

    mantissa: int
    bias: int
    largest: int


LAYOUTS = {"f8e4m3": Layout(3, 7, 0x7E), "f8e5m2": Layout(2, 15, 0x7B)}


def encode(values: Array, name: str) -> Array:
    """f32 values as bytes."""
    layout = LAYOUTS[name]
    bits = np.asarray(values, np.float32, order="C").view(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    dropped = 23 - layout.mantissa
    odd = (magnitude >> dropped) & 1
    rounded = (magnitude + ((1 << (dropped - 1)) - 1) + odd) >> dropped
    normal = rounded.astype(np.int64) - ((127 - layout.bias) << layout.mantissa)
    # Adding 2^k leaves whole multiples of the smallest subnormal number, rounded to even.
    shift = np.float32(2.0 ** (24 - layout.bias - layout.mantissa))
    low = (np.abs(bits.view(np.float32)) + shift).view(np.uint32).astype(np.int64)
    subnormal = low - int(shift.view(np.uint32))
    smallest = (128 - layout.bias) << 23
    code = np.where(magnitude >= smallest, np.minimum(normal, layout.largest), subnormal)
    code = np.where(magnitude > 0x7F800000, 0x7F, code)
    return np.asarray(code | ((bits >> 24) & 0x80)).astype(np.uint8)


def decode(codes: Array, name: str) -> Array:
    """Bytes as f32 values."""
    wide = codes.astype(np.uint16)
    if name == "f8e5m2":
        return np.asarray((wide << 8).view(np.float16).astype(np.float32))
    half = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    values = half.view(np.float16).astype(np.float32) * np.float32(256)
    return np.where((wide & 0x7F) == 0x7F, np.float32(np.nan), values).astype(np.float32)
