"""Calls whose arrays are checked in machine code, and the workspaces that calls borrow."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from planish.codegen.memory import Executable, aligned
from planish.codegen.native import Native
from planish.codegen.x86.thunk import (
    MOST_ARGUMENTS,
    Signature,
    builtin_function,
    fastcall_entry,
    layout_holds,
    python_entry,
)
from planish.tune.call_checks import Array

# Inputs, then the output; gives the output, or None where it needs a closer look.
Into = Callable[..., Array | None]


class Workspaces:
    """Memory for temporaries.

    Each call takes one of its own, since calls may come from several threads, and puts it back for
    the next one, since fresh pages cost more than small kernels.
    """

    def __init__(self) -> None:
        self._free: list[tuple[Array, int]] = []

    def take(self, size: int) -> tuple[Array, int]:
        """Memory of at least that size, and its address, aligned to 64."""
        try:
            found = self._free.pop()
        except IndexError:
            found = (np.empty(0, np.uint8), 0)
        if found[0].size >= size + 64:
            return found
        return aligned(size)

    def put(self, workspace: tuple[Array, int]) -> None:
        """Give it back."""
        self._free.append(workspace)


def fast_into(
    native: Native, workspaces: Workspaces, arrays: Sequence[Array], outputs: int, *, brief: bool
) -> Into | None:
    """A call for arrays just like these (the output last); None where there cannot be one.

    brief  keep the GIL, and a workspace for good
    """
    calls = native.image.calls
    if (
        len(arrays) >= MOST_ARGUMENTS
        or outputs != 1
        or len(calls) != 1
        or len(calls[0].starts) != 1
        or any(a.ndim > 15 or max(a.shape, default=0) >= 1 << 31 for a in arrays)
        or any(not -(1 << 31) <= s < 1 << 31 for a in arrays for s in a.strides)
        or not layout_holds()
    ):
        return None
    signatures = [Signature(a.dtype, a.shape, a.strides) for a in arrays]
    places = native.image.temporaries
    if brief:
        own, base = workspaces.take(native.image.workspace)
        addresses = [base + place for place in places]
        code = Executable(fastcall_entry(signatures, native.address(), addresses))
        return builtin_function(code.address(), (code, native, own))
    code = Executable(python_entry(signatures, native.address(), places))
    form = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (len(arrays) + 1))
    entry = form(code.address())
    size = native.image.workspace

    def into(*arrays: Array, keep: object = (code, native)) -> Array | None:
        own = workspaces.take(size)
        failed = entry(*map(id, arrays), own[1])
        workspaces.put(own)
        return None if failed else arrays[-1]

    return into
