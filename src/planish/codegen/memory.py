"""Memory: executable pages (written first, then executable, never both), aligned workspaces."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from planish.base.errors import PlanishError

Array = np.ndarray[Any, Any]

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.mprotect.restype = ctypes.c_int


def protect(address: int, size: int, how: int) -> bool:
    """Set what may be done to pages; whether the system agreed."""
    return not _LIBC.mprotect(address, size, how)


def aligned(size: int) -> tuple[Array, int]:
    """Memory of at least `size` bytes, and an address in it that is a multiple of 64."""
    memory = np.empty(size + 64, np.uint8)
    base: int = memory.__array_interface__["data"][0]
    return memory, base + -base % 64


class Executable:
    """Machine code in pages of its own; `address(offset)` points into it while it lives.

    The pages go with the object, and not before: at the interpreter's end another thread may
    still be inside.
    """

    def __init__(self, code: bytes) -> None:
        size = -(-max(1, len(code)) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._pages.write(code)
        view = ctypes.c_char.from_buffer(self._pages)
        self._base = ctypes.addressof(view)
        del view
        if not protect(self._base, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise PlanishError(
                "the system refuses to make memory executable",
                hint="its policy (SELinux, a hardened kernel) forbids generated code",
            )

    def address(self, offset: int = 0) -> int:
        """Where the code lies."""
        return self._base + offset
