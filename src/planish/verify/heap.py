"""A heap for differential runs: the same requests give the same addresses, in both versions.

malloc and its kin are defined in IR and linked into the module under test. Memory is handed out in
order, filled with zeros, from pages at a fixed address; what is freed is not used again. Nothing
outside of those pages is kept, so that clearing them begins anew.
"""

from __future__ import annotations

import ctypes
import hashlib
from contextlib import closing

from planish.llvm.binding import Library
from planish.llvm.module import Module

START = 0x7800_0000  # clear of the process's own heap, as `native.ZONE` is
SIZE = 1 << 20
HASH = 16  # bytes of `contents`
_BEGIN = 64  # the first word is how far memory is handed out; 0 stands for this
_HEAD = 16  # bytes before each block; the first word is its size

_TEXT = f"""
define ptr @malloc(i64 %n) {{
  %at = load i64, ptr inttoptr (i64 {START} to ptr)
  %new = icmp eq i64 %at, 0
  %from = select i1 %new, i64 {_BEGIN}, i64 %at
  %big = icmp ugt i64 %n, {SIZE}
  br i1 %big, label %no, label %fits
fits:
  %more = add i64 %n, {_HEAD + 15}
  %whole = and i64 %more, -16
  %to = add i64 %from, %whole
  %over = icmp ugt i64 %to, {SIZE}
  br i1 %over, label %no, label %yes
yes:
  store i64 %to, ptr inttoptr (i64 {START} to ptr)
  %place = add i64 %from, {START}
  %head = inttoptr i64 %place to ptr
  store i64 %n, ptr %head
  %p = getelementptr i8, ptr %head, i64 {_HEAD}
  ret ptr %p
no:
  ret ptr null
}}

define ptr @calloc(i64 %n, i64 %m) {{
  %both = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %n, i64 %m)
  %over = extractvalue {{ i64, i1 }} %both, 1
  %size = extractvalue {{ i64, i1 }} %both, 0
  %asked = select i1 %over, i64 -1, i64 %size
  %p = call ptr @malloc(i64 %asked)
  ret ptr %p
}}

define i64 @planish.size(ptr %p) {{
  %number = ptrtoint ptr %p to i64
  %offset = sub i64 %number, {START + _BEGIN}
  %inside = icmp ult i64 %offset, {SIZE - _BEGIN}
  br i1 %inside, label %ok, label %wrong
ok:
  %head = getelementptr i8, ptr %p, i64 -{_HEAD}
  %size = load i64, ptr %head
  ret i64 %size
wrong:
  call void @llvm.trap()
  unreachable
}}

define void @free(ptr %p) {{
  %nothing = icmp eq ptr %p, null
  br i1 %nothing, label %out, label %some
some:
  %size = call i64 @planish.size(ptr %p)
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %size, i1 false)
  br label %out
out:
  ret void
}}

define ptr @realloc(ptr %p, i64 %n) {{
  %first = icmp eq ptr %p, null
  br i1 %first, label %fresh, label %grow
fresh:
  %q = call ptr @malloc(i64 %n)
  ret ptr %q
grow:
  %size = call i64 @planish.size(ptr %p)
  %r = call ptr @malloc(i64 %n)
  %none = icmp eq ptr %r, null
  br i1 %none, label %out, label %move
move:
  %less = call i64 @llvm.umin.i64(i64 %size, i64 %n)
  call void @llvm.memcpy.p0.p0.i64(ptr %r, ptr %p, i64 %less, i1 false)
  call void @free(ptr %p)
  br label %out
out:
  ret ptr %r
}}

define ptr @_Znwm(i64 %n) {{
  %p = call ptr @malloc(i64 %n)
  %none = icmp eq ptr %p, null
  br i1 %none, label %wrong, label %ok
ok:
  ret ptr %p
wrong:
  call void @llvm.trap()
  unreachable
}}

define ptr @_Znam(i64 %n) {{
  %p = call ptr @_Znwm(i64 %n)
  ret ptr %p
}}

define void @_ZdlPv(ptr %p) {{
  call void @free(ptr %p)
  ret void
}}

define void @_ZdaPv(ptr %p) {{
  call void @free(ptr %p)
  ret void
}}

define void @_ZdlPvm(ptr %p, i64 %n) {{
  call void @free(ptr %p)
  ret void
}}

define void @_ZdaPvm(ptr %p, i64 %n) {{
  call void @free(ptr %p)
  ret void
}}

declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.trap()
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

NAMES = frozenset({
    "malloc", "calloc", "realloc", "free",
    "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm",
})  # fmt: skip


def link(library: Library, module: Module) -> None:
    """Give the module this heap, where it asks for one and has none of its own."""
    asked = [name for name in NAMES if module.mentions(name)]
    if not asked or any(name in module.functions() for name in asked):
        return
    layout = library.c.LLVMGetDataLayoutStr(module.handle).decode()
    whole = f'target datalayout = "{layout}"\n{_TEXT}'
    with closing(Module(library, whole.encode(), "heap")) as text:
        code = text.bitcode()
    module.link(module.absorb(code, "heap"))


def clear() -> None:
    """Begin anew."""
    ctypes.memset(START, 0, _used())


def contents() -> bytes:
    """A hash of all that was allocated and not freed, and of how much was asked for."""
    return hashlib.blake2b(ctypes.string_at(START, _used()), digest_size=HASH).digest()


def _used() -> int:
    """Bytes that may not be zero; a wild store into the first word makes it all."""
    word = ctypes.c_uint64.from_address(START).value
    return word if 8 < word <= SIZE else SIZE if word else 8
