"""Ways into a kernel: from C with plain pointers, and from Python with array objects.

The second reads NumPy's array objects themselves: their type, element type, shape and strides
are compared in machine code, and their data pointers taken. That rests on the layout of
CPython's and NumPy's structures, which `layout_holds` checks before anything relies on it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import Mem

# PyArrayObject_fields of NumPy 1.x and 2.x on 64-bit CPython.
_TYPE, _DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE = 8, 16, 24, 32, 40, 56

_ARGUMENTS = (x86.RDI, x86.RSI, x86.RDX, x86.RCX, 8, 9)
MOST_ARGUMENTS = len(_ARGUMENTS)


@dataclass(frozen=True)
class Signature:
    """What one array must be: element type, shape, strides in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@functools.cache
def layout_holds() -> bool:
    """Whether array objects lie in memory as this file believes."""
    for probe in (np.zeros((3, 5), np.float32)[::2, 1:], np.zeros(7, np.int64)):
        base = id(probe)

        def word(offset: int, base: int = base) -> int:
            return ctypes.c_uint64.from_address(base + offset).value

        if word(_TYPE) != id(np.ndarray) or word(_DATA) != probe.ctypes.data:
            return False
        if ctypes.c_int.from_address(base + _NDIM).value != probe.ndim:
            return False
        for offset, wanted in ((_SHAPE, probe.shape), (_STRIDES, probe.strides)):
            found = (ctypes.c_int64 * probe.ndim).from_address(word(offset))
            if tuple(found) != wanted:
                return False
        if word(_DTYPE) != id(probe.dtype):
            return False
    return True


def c_entry(count: int, kernel: int, temporaries: Sequence[int] = ()) -> bytes:
    """`void f(p0, p1, ..)` of so many pointers, calling code `kernel` bytes from its start.

    temporaries  offsets from one more pointer, the workspace, that are handed on as pointers
    """
    frame = _frame(count + max(1, len(temporaries)))
    total = count + bool(temporaries)
    code = x86.add_imm(x86.RSP, -frame)
    for at in range(total):
        if at < MOST_ARGUMENTS:
            code += x86.store64(Mem(x86.RSP, 8 * at), _ARGUMENTS[at])
            continue
        # The caller has put the others behind its return address.
        code += x86.load64(x86.RAX, Mem(x86.RSP, frame + 8 + 8 * (at - MOST_ARGUMENTS)))
        code += x86.store64(Mem(x86.RSP, 8 * at), x86.RAX)
    if temporaries:
        code += x86.load64(10, Mem(x86.RSP, 8 * count))
    for at, offset in enumerate(temporaries):
        code += x86.lea(x86.RAX, Mem(10, offset))
        code += x86.store64(Mem(x86.RSP, 8 * (count + at)), x86.RAX)
    code += b"\x48\x89\xe7"  # mov rdi, rsp
    code += x86.call(kernel - len(code) - 5)
    return code + x86.add_imm(x86.RSP, frame) + x86.RET


def python_entry(
    arrays: Sequence[Signature], kernel: int, temporaries: Sequence[int] = ()
) -> bytes:
    """`int f(a0, a1, .., workspace)` of array objects: 0 when it ran, 1 when one does not fit.

    kernel       the kernel's address
    temporaries  offsets from the workspace, an address, that are handed on behind the arrays
    """
    frame = _frame(len(arrays) + len(temporaries))
    checks: list[bytes] = []
    for register, array in zip(_ARGUMENTS, arrays, strict=False):
        checks += _array_checks(register, array)
    body = x86.add_imm(x86.RSP, -frame)
    for at, register in enumerate(_ARGUMENTS[: len(arrays)]):
        body += x86.load64(x86.RAX, Mem(register, _DATA))
        body += x86.store64(Mem(x86.RSP, 8 * at), x86.RAX)
    for at, offset in enumerate(temporaries):
        body += x86.lea(x86.RAX, Mem(_ARGUMENTS[len(arrays)], offset))
        body += x86.store64(Mem(x86.RSP, 8 * (len(arrays) + at)), x86.RAX)
    body += _call(kernel) + x86.add_imm(x86.RSP, frame)
    return _guarded(checks, body + x86.move_imm(x86.RAX, 0) + x86.RET, x86.move_imm(x86.RAX, 1))


def fastcall_entry(
    arrays: Sequence[Signature], kernel: int, temporaries: Sequence[int] = ()
) -> bytes:
    """A METH_FASTCALL function of array objects, outputs last: the last one when it ran, else None.

    The GIL is held meanwhile, so that this is for kernels that take microseconds, and temporaries
    (addresses) may belong to the kernel.
    """
    count = len(arrays)
    frame = _frame(count + len(temporaries) + 1)  # one word more: rbx is saved
    checks = [_compare_register(x86.RDX, count)]
    for at, array in enumerate(arrays):
        checks.append(x86.load64(11, Mem(x86.RSI, 8 * at)))
        checks += _array_checks(11, array)
    body = x86.push(x86.RBX) + b"\x48\x89\xf3"  # mov rbx, rsi
    body += x86.add_imm(x86.RSP, -frame)
    for at in range(count):
        body += x86.load64(x86.RAX, Mem(x86.RSI, 8 * at))
        body += x86.load64(x86.RAX, Mem(x86.RAX, _DATA))
        body += x86.store64(Mem(x86.RSP, 8 * at), x86.RAX)
    for at, address in enumerate(temporaries):
        body += _move64(x86.RAX, address) + x86.store64(Mem(x86.RSP, 8 * (count + at)), x86.RAX)
    body += _call(kernel) + x86.add_imm(x86.RSP, frame)
    body += x86.load64(x86.RAX, Mem(x86.RBX, 8 * (count - 1))) + _count_up() + x86.pop(x86.RBX)
    none = _move64(x86.RAX, id(None))
    if sys.version_info < (3, 12):  # later, None is immortal and not counted
        none += _count_up()
    return _guarded(checks, body + x86.RET, none)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("method", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


_METH_FASTCALL = 0x80


def builtin_function(address: int, keep: object) -> Callable[..., Any]:
    """A METH_FASTCALL function at an address as a Python callable that keeps an object alive."""
    definition = _MethodDef(b"kernel", address, _METH_FASTCALL, None)
    # The function's `self` is what has to live as long as it does.
    owned = (definition, keep)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., Any] = make(ctypes.addressof(definition), owned, None)
    return function


def _array_checks(register: int, array: Signature) -> list[bytes]:
    """Comparisons of an array object in a register: type, element type, shape, strides."""
    checks = [
        _compare64(register, _TYPE, id(np.ndarray)),
        _compare64(register, _DTYPE, id(array.dtype)),
        _compare32(Mem(register, _NDIM), len(array.shape)),
    ]
    for offset, words in ((_SHAPE, array.shape), (_STRIDES, array.strides)):
        if words:
            checks.append(x86.load64(10, Mem(register, offset)))
        checks += [_compare64_imm(Mem(10, 8 * at), word) for at, word in enumerate(words)]
    return checks


def _call(kernel: int) -> bytes:
    """Call the kernel on the pointers at the top of the stack."""
    return b"\x48\x89\xe7" + _move64(x86.RAX, kernel) + b"\xff\xd0"  # mov rdi, rsp; call rax


def _count_up() -> bytes:
    """inc dword [rax]: one reference more; counts are 32 bits wide from CPython 3.12 on."""
    return b"\xff\x00"


def _compare_register(register: int, value: int) -> bytes:
    """cmp r64, imm8"""
    return bytes([0x48 | register >> 3, 0x83, 0xF8 | register & 7, value])


def _guarded(checks: Sequence[bytes], body: bytes, failed: bytes) -> bytes:
    """Comparisons, each followed by a jump to `failed` when unequal."""
    jump = 6
    sizes = [len(c) + (jump if _is_check(c) else 0) for c in checks]
    total = sum(sizes)
    code, at = b"", 0
    for check, size in zip(checks, sizes, strict=True):
        at += size
        code += check
        if _is_check(check):
            code += b"\x0f\x85" + struct.pack("<i", total - at + len(body))
    return code + body + failed + x86.RET


def _is_check(code: bytes) -> bool:
    return not code.startswith((b"\x4c\x8b", b"\x4d\x8b"))  # anything but mov r10 or r11, [..]


def _frame(words: int) -> int:
    """Bytes of stack such that calls find it aligned to 16."""
    return 8 * words + (8 if words % 2 == 0 else 0)


def _move64(register: int, value: int) -> bytes:
    """mov r64, imm64"""
    return bytes([0x48 | register >> 3, 0xB8 | register & 7]) + struct.pack("<Q", value)


def _compare64(register: int, offset: int, value: int) -> bytes:
    """mov rax, value; cmp [register + offset], rax"""
    rex = 0x48 | (register >> 3 & 1)
    modrm = 0x40 | (register & 7)
    return _move64(x86.RAX, value) + bytes([rex, 0x39, modrm, offset])


def _compare32(mem: Mem, value: int) -> bytes:
    """cmp dword [mem], imm32"""
    rex = b"\x41" if mem.base > 7 else b""
    return rex + bytes([0x81, 0x78 | mem.base & 7, mem.disp]) + struct.pack("<i", value)


def _compare64_imm(mem: Mem, value: int) -> bytes:
    """cmp qword [mem], imm32"""
    return bytes([0x48 | mem.base >> 3, 0x81, 0x78 | mem.base & 7, mem.disp]) + struct.pack(
        "<i", value
    )
