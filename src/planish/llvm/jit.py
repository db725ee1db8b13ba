"""Objects loaded into this process by LLVM's own JIT linker (ORC). Worker processes only."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_uint64, c_void_p
from typing import Any

from planish.base.errors import RecipeError
from planish.llvm.binding import Library

_OUT = POINTER(c_void_p)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "LLVMOrcCreateLLJIT": (c_void_p, [_OUT, c_void_p]),
    "LLVMOrcLLJITGetMainJITDylib": (c_void_p, [c_void_p]),
    "LLVMOrcLLJITGetGlobalPrefix": (c_char, [c_void_p]),
    "LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess": (
        c_void_p,
        [_OUT, c_char, c_void_p, c_void_p],
    ),
    "LLVMOrcJITDylibAddGenerator": (None, [c_void_p, c_void_p]),
    "LLVMOrcLLJITAddObjectFile": (c_void_p, [c_void_p, c_void_p, c_void_p]),
    "LLVMOrcLLJITLookup": (c_void_p, [c_void_p, POINTER(c_uint64), c_char_p]),
}


class Loaded:
    """An object in memory; its external symbols are looked for in this process (libc)."""

    def __init__(self, library: Library, data: bytes) -> None:
        """Raises RecipeError where LLVM cannot load it."""
        self._library, c = library, library.c
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(c, name)
            function.restype, function.argtypes = result, arguments
        self._c = c
        jit, generator = c_void_p(), c_void_p()
        self._raise(c.LLVMOrcCreateLLJIT(byref(jit), None))
        self._jit = jit
        dylib = c.LLVMOrcLLJITGetMainJITDylib(jit)
        prefix = c.LLVMOrcLLJITGetGlobalPrefix(jit)
        make = c.LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess
        self._raise(make(byref(generator), prefix, None, None))
        c.LLVMOrcJITDylibAddGenerator(dylib, generator)
        buffer = c.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"object")
        self._raise(c.LLVMOrcLLJITAddObjectFile(jit, dylib, buffer))

    def address(self, name: str) -> int:
        """Where a symbol lies; raises RecipeError where it, or what it needs, is not found."""
        found = c_uint64()
        symbol = name.encode(errors="surrogateescape")
        self._raise(self._c.LLVMOrcLLJITLookup(self._jit, byref(found), symbol))
        return found.value

    def _raise(self, error: int | None) -> None:
        if not error:
            return
        address = self._c.LLVMGetErrorMessage(error)
        words = ctypes.string_at(address).decode(errors="replace")
        self._c.LLVMDisposeErrorMessage(address)
        raise RecipeError(f"cannot load the code: {words}")
