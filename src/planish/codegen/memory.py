"""Executable memory: written first, then executable, never both."""

from __future__ import annotations

import ctypes
import mmap
import weakref

from planish.base.errors import PlanishError

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.mprotect.restype = ctypes.c_int


class Executable:
    """Machine code in pages of its own; `address(offset)` points into it while it lives."""

    def __init__(self, code: bytes) -> None:
        size = -(-max(1, len(code)) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._pages.write(code)
        view = ctypes.c_char.from_buffer(self._pages)
        self._base = ctypes.addressof(view)
        del view
        if _LIBC.mprotect(self._base, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise PlanishError(
                "the system refuses to make memory executable",
                hint="its policy (SELinux, a hardened kernel) forbids generated code",
            )
        weakref.finalize(self, self._pages.close)

    def address(self, offset: int = 0) -> int:
        """Where the code lies."""
        return self._base + offset
