"""Element types: how a tensor's elements are stored, and what they are computed in.

bf16 and f16 are stored in 16 bits and computed in f32, f8e4m3 and f8e5m2 in eight (on GPUs only,
see `small_floats`). Integers wrap around at their own width (two's complement), `bool` is one byte
that holds 0 or 1. f32 and f64 follow IEEE 754 with
round-to-nearest; products and sums may be contracted to fused multiply-adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from planish.base.errors import UsageError, unknown


@dataclass(frozen=True)
class Type:
    """An element type.

    name      as it stands in texts: f32, i8, ..
    size      bytes of one element
    numpy     NumPy's dtype of the storage (bf16 is carried as uint16, f8 as uint8)
    computed  name of the type that arithmetic happens in
    """

    name: str
    size: int
    numpy: str
    computed: str

    @property
    def is_float(self) -> bool:
        """Whether arithmetic is floating point."""
        return self.computed in ("f32", "f64")

    @property
    def is_narrow_float(self) -> bool:
        """Whether values are rounded to less than the 32 bits that they are computed in."""
        return self.is_float and self.size < 4

    @property
    def bits(self) -> int:
        """Width of the stored value."""
        return self.size * 8

    @property
    def signed(self) -> bool:
        """Whether values may be negative."""
        return self.name not in ("u8", "bool")

    def __str__(self) -> str:
        return self.name


F32 = Type("f32", 4, "float32", "f32")
F64 = Type("f64", 8, "float64", "f64")
F16 = Type("f16", 2, "float16", "f32")
BF16 = Type("bf16", 2, "uint16", "f32")
F8E4M3 = Type("f8e4m3", 1, "uint8", "f32")
F8E5M2 = Type("f8e5m2", 1, "uint8", "f32")
I8 = Type("i8", 1, "int8", "i32")
U8 = Type("u8", 1, "uint8", "i32")
I16 = Type("i16", 2, "int16", "i32")
I32 = Type("i32", 4, "int32", "i32")
I64 = Type("i64", 8, "int64", "i64")
BOOL = Type("bool", 1, "bool", "i32")

TYPES = {t.name: t for t in (F32, F64, F16, BF16, F8E4M3, F8E5M2, I8, U8, I16, I32, I64, BOOL)}
_OF_NUMPY = {t.numpy: t for t in TYPES.values() if t not in (BF16, F8E4M3, F8E5M2)}


def type_of(name: str | Type | Any) -> Type:
    """The type of that name, or of a NumPy dtype."""
    if isinstance(name, Type):
        return name
    if isinstance(name, str) and name in TYPES:
        return TYPES[name]
    if isinstance(name, str) and name == "f8":  # NumPy's f8 has eight bytes
        raise UsageError("'f8' is f8e4m3 or f8e5m2", hint="for floats of eight bytes: f64")
    try:
        found = _OF_NUMPY.get(np.dtype(name).name)
    except TypeError:
        found = None
    if found is None:
        raise unknown("element type", str(name), list(TYPES))
    return found


def promote(a: Type, b: Type) -> Type:
    """The type in which a value of type `a` and one of type `b` meet.

    As NumPy has it, but that f32 meets integers up to 32 bits in f32 (NumPy: i32 in f64), and
    narrower floats meet each other and integers in f32.
    """
    if a == b:
        return a
    if a.is_float or b.is_float:
        return F64 if F64 in (a, b) or I64 in (a, b) else F32
    if BOOL in (a, b):
        return a if b is BOOL else b
    found = _OF_NUMPY.get(np.result_type(a.numpy, b.numpy).name)
    if found is None:
        raise UsageError(f"{a} and {b} have no common type", hint="cast one of them")
    return found


def identity(name: str, type: Type) -> int | float:
    """What a reduction over nothing gives."""
    if name in ("sum", "or", "xor"):
        return 0
    if name == "prod":
        return 1
    if name == "and":
        return 1 if type is BOOL else (-1 if type.signed else (1 << type.bits) - 1)
    largest = name == "min"
    if type.is_float:
        return math.inf if largest else -math.inf
    if type is BOOL:
        return int(largest)
    info = np.iinfo(type.numpy)
    return int(info.max if largest else info.min)
