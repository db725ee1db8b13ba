"""What a kernel is called with: every array checked, and refused with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planish.base.errors import UsageError, unknown
from planish.tensor.expr import Tensor

Array = np.ndarray[Any, Any]


def names_of(tensors: Sequence[Tensor]) -> str:
    """Tensors with their types and shapes, in words."""
    return ", ".join(f"{t.name} {t.type}{list(t.shape)}" for t in tensors)


def _checked_array(given: object, wanted: Tensor) -> Array:
    if isinstance(given, np.ma.MaskedArray):
        raise UsageError(
            f"{wanted.name} is a masked array, and kernels know no masks",
            hint=f"fill it: {wanted.name}.filled(0)",
        )
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if array.dtype != np.dtype(wanted.type.numpy):
        raise UsageError(
            f"{wanted.name} is of {array.dtype}, and the kernel was compiled for {wanted.type}",
            hint=f"convert it: {wanted.name}.astype('{wanted.type.numpy}')",
        )
    if array.shape != wanted.shape:
        raise UsageError(
            f"{wanted.name} has the shape {list(array.shape)}, and the kernel was compiled for "
            f"{list(wanted.shape)}"
        )
    return array


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may share bytes: each stride is to pass all that smaller ones reach."""
    reach = array.itemsize
    if 0 in array.shape:
        return False
    steps = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, length in sorted(steps):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def bind_inputs(
    wanted: Sequence[Tensor], arrays: Sequence[Array], named: Mapping[str, Array]
) -> list[Array]:
    """The inputs in their order, whether given by position or by name; all are checked."""
    given = dict(zip((t.name for t in wanted), arrays, strict=False))
    if len(arrays) > len(wanted) or set(named) & set(given):
        raise UsageError(f"the kernel takes {len(wanted)} arrays: {names_of(wanted)}")
    for name in named:
        if name not in {t.name for t in wanted}:
            raise unknown("input", name, [t.name for t in wanted])
    given |= named
    absent = [t.name for t in wanted if t.name not in given]
    if absent:
        raise UsageError(f"the input '{absent[0]}' is missing; inputs: {names_of(wanted)}")
    return [_checked_array(given[t.name], t) for t in wanted]


def bind_outputs(wanted: Sequence[Tensor], out: Array | None) -> list[Array]:
    """New arrays, or the one given, checked."""
    if out is None:
        return [np.empty(t.shape, t.type.numpy) for t in wanted]
    if len(wanted) != 1:
        raise UsageError(f"out= is for one output; this kernel has {len(wanted)}")
    if not isinstance(out, np.ndarray):
        raise UsageError("out= is to be a NumPy array")
    if not out.flags.writeable:
        raise UsageError("out= is read-only")
    if _overlaps_itself(out):
        raise UsageError(
            "out= may write to one place several times (its strides overlap)",
            hint="give an array of its own",
        )
    return [_checked_array(out, wanted[0])]
