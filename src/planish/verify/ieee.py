"""Floating-point operations on numbers, where IEEE 754 leaves no choice.

Which NaN an operation gives is not determined (LLVM Language Reference, "Behavior of
Floating-Point NaN values"), nor is what fast-math flags allow, what a mathematical function
returns in its last bits, or whether subnormal numbers are kept (`denormal-fp-math`): of those
nothing is said.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

FAST = frozenset({"reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn"})
_FORMATS = {32: ("<f", "<I"), 64: ("<d", "<Q")}
_SMALLEST = {32: 2.0**-126, 64: 2.0**-1022}  # normal numbers
_EXACT = 1 << 53  # whole numbers up to here are doubles: no rounding twice


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


def _remainder(a: float, b: float) -> float:
    return math.nan if math.isinf(a) or not b else math.fmod(a, b)


def _rounded(how: Callable[[float], int]) -> Callable[[float], float]:
    return lambda a: a if math.isinf(a) else math.copysign(float(how(a)), a)


# A result of these in doubles, rounded to a float, is that of the operation on floats
# (Figueroa, "When is double rounding innocuous?", 1995).
_OPERATIONS: dict[str, Callable[..., float]] = {
    "fadd": lambda a, b: a + b, "fsub": lambda a, b: a - b, "fmul": lambda a, b: a * b,
    "fdiv": _divide, "frem": _remainder, "fpext": lambda a: a, "fptrunc": lambda a: a,
    "sqrt": lambda a: math.nan if a < 0 else math.sqrt(a),
    "floor": _rounded(math.floor), "ceil": _rounded(math.ceil), "trunc": _rounded(math.trunc),
}  # fmt: skip


def apply(name: str, operands: Sequence[tuple[int, int]], width: int) -> int | None:
    """The bits of a result, from (bits, width) of the operands; None where it is not determined.

    name  of the function in the encoding: operation, widths and flags, joined by underscores
    """
    op, *words = name.split("_")
    if FAST & set(words):
        return None
    if op in ("sitofp", "uitofp"):
        bits, size = operands[0]
        whole = bits - (1 << size) if op == "sitofp" and bits >> (size - 1) else bits
        return _bits(float(whole), width) if abs(whole) <= _EXACT else None
    if op in ("fptosi", "fptoui"):
        target = int(words[-1])
        return _to_integer(op, *operands[0], target, ask="range" in words)
    if op not in _OPERATIONS:
        return None
    given = [_number(*operand) for operand in operands]
    if any(number is None or math.isnan(number) for number in given):
        return None
    return _bits(_OPERATIONS[op](*given), width)


def _to_integer(op: str, bits: int, width: int, target: int, *, ask: bool) -> int | None:
    """The integer, or whether there is none that fits (`ask`)."""
    number = _number(bits, width)
    if number is None:
        return None
    signed = op == "fptosi"
    low = -(1 << (target - 1)) if signed else 0
    high = 1 << (target - 1 if signed else target)
    fits = math.isfinite(number) and low <= math.trunc(number) < high
    if ask:
        return int(not fits)
    return math.trunc(number) & ((1 << target) - 1) if fits else None


def _number(bits: int, width: int) -> float | None:
    if width not in _FORMATS:
        return None
    floating, whole = _FORMATS[width]
    found: float = struct.unpack(floating, struct.pack(whole, bits))[0]
    return found if _ordinary(found, width) else None


def _ordinary(number: float, width: int) -> bool:
    """Not subnormal."""
    return not 0 < abs(number) < _SMALLEST[width]


def _bits(number: float, width: int) -> int | None:
    if width not in _FORMATS or math.isnan(number) or not _ordinary(number, width):
        return None
    floating, whole = _FORMATS[width]
    try:
        data = struct.pack(floating, number)
    except OverflowError:  # a double beyond the largest float
        data = struct.pack(floating, math.copysign(math.inf, number))
    found: int = struct.unpack(whole, data)[0]
    return found
