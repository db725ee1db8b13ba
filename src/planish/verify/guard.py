"""A call that a fault does not end: signals jump back to where the call was made.

In IR, for the C library's `sigsetjmp`; what the call had written by then is the caller's affair.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Sequence
from contextlib import closing

from planish.llvm.binding import Library
from planish.llvm.jit import Loaded
from planish.llvm.module import Module
from planish.llvm.requests import Target
from planish.verify.ir import Type

CAUGHT = (
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT,
    signal.SIGPROF,
)  # fmt: skip
_TEXT = """
@planish.jump = internal global [1024 x i8] zeroinitializer, align 16
declare i32 @SET(ptr, i32) returns_twice
declare void @siglongjmp(ptr, i32) noreturn
define void @planish.caught(i32 %signal) {
  call void @siglongjmp(ptr @planish.jump, i32 %signal)
  unreachable
}
define i32 @planish.guard(ptr %entry, ptr %out PARAMETERS) {
  %signal = call i32 @SET(ptr @planish.jump, i32 1) returns_twice
  %first = icmp eq i32 %signal, 0
  br i1 %first, label %go, label %caught
go:
  CALL
  ret i32 0
caught:
  ret i32 %signal
}
!llvm.module.flags = !{!0}
!0 = !{i32 8, !"PIC Level", i32 2}
"""


class Guard:
    """Calls of one signature. Integers and pointers are passed as 64 bits."""

    def __init__(self, library: Library, kinds: Sequence[Type], result: Type) -> None:
        """Raises RecipeError where the C library has no such jumps."""
        words = [_word(kind) for kind in kinds]
        given = ", ".join(f"{word} %a{at}" for at, word in enumerate(words))
        call = f"call void %entry({given})"
        if result.kind != "void":
            word = _word(result)
            call = f"%r = call {word} %entry({given})\n  store {word} %r, ptr %out"
        glibc = hasattr(ctypes.CDLL(None), "__sigsetjmp")
        text = _TEXT.replace("SET", "__sigsetjmp" if glibc else "sigsetjmp")
        text = text.replace("PARAMETERS", f", {given}" if given else "").replace("CALL", call)
        with closing(Module(library, text.encode(), "guard")) as module:
            module.select(Target())
            loaded = Loaded(library, module.emit())
        self._loaded = loaded  # the code lives as long as this
        types = [_c_type(kind) for kind in kinds]
        made = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p, *types)
        self._call = made(loaded.address("planish.guard"))
        self._handler = loaded.address("planish.caught")
        self._out = ctypes.c_uint64(0)

    def arm(self) -> None:
        """From now on, in this process, the signals end the call and nothing else."""
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
        libc.signal.restype = ctypes.c_void_p
        for number in CAUGHT:
            libc.signal(number, self._handler)

    def call(self, entry: int, bits: Sequence[int | float]) -> tuple[int, int]:
        """The signal, 0 for none, and the bits of the result, 64 of them."""
        self._out.value = 0
        caught: int = self._call(entry, ctypes.byref(self._out), *bits)
        return caught, self._out.value


def kind_of(kind: Type) -> type[ctypes.c_float | ctypes.c_double]:
    """The ctypes type of a floating-point type."""
    return ctypes.c_float if kind.width == 32 else ctypes.c_double


def _c_type(kind: Type) -> type[ctypes.c_float | ctypes.c_double | ctypes.c_uint64]:
    return kind_of(kind) if kind.kind == "float" else ctypes.c_uint64


def _word(kind: Type) -> str:
    if kind.kind == "float":
        return "float" if kind.width == 32 else "double"
    return "i64"
