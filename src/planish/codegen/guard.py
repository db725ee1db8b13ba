"""Arrays beside forbidden pages: any access beyond an operand ends the process.

For tests of generated code: run the kernel on guarded copies in a process of its own.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from planish.base.errors import PlanishError
from planish.codegen.memory import protect

Array = np.ndarray[Any, Any]

_PAGE = mmap.PAGESIZE
_NONE = 0


def guarded(array: Array, *, at_end: bool) -> Array:
    """A contiguous copy that ends just before a forbidden page, or begins just behind one.

    The pages live as long as the process: this is for tests.
    """
    data = np.array(array, order="C")
    size = data.nbytes
    pages = -(-max(size, 1) // _PAGE)
    block = mmap.mmap(-1, (pages + 2) * _PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(block))
    offset = _PAGE + (pages * _PAGE - size if at_end else 0)
    view = np.frombuffer(block, np.uint8, size, offset).view(data.dtype).reshape(data.shape)
    view[...] = data
    for page in (0, pages + 1):
        if not protect(base + page * _PAGE, _PAGE, _NONE):
            raise PlanishError("cannot forbid a page")
    return view
