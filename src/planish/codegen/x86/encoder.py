"""The x86-64 encoder: VEX (AVX2, FMA) and EVEX (AVX-512) vector instructions, some general ones.

Vector instructions are rows of a table (`rows.py`). Every function returns bytes; those of vector
instructions are kept, since kernels repeat them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from planish.codegen.x86.rows import ROWS, Row

_PREFIX = {"": 0, "66": 1, "F3": 2, "F2": 3}
_MAP = {"0F": 1, "0F38": 2, "0F3A": 3}
_WIDTH = {16: 0, 32: 1, 64: 2}

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)
RIP = -1


class Mem(NamedTuple):
    """A memory operand: base register (RIP: displacement from the instruction's end), index.

    broadcast  EVEX only: one element for all lanes
    """

    base: int
    disp: int = 0
    indexed: int = -1
    scale: int = 1
    broadcast: bool = False


def _modrm(reg: int, rm: int) -> int:
    return 0xC0 | (reg & 7) << 3 | (rm & 7)


def _memory(reg: int, mem: Mem, scale: int) -> bytes:
    """ModRM, SIB and displacement; `scale` is what an EVEX disp8 is multiplied by."""
    field = (reg & 7) << 3
    if mem.base == RIP:
        return bytes([field | 5]) + struct.pack("<i", mem.disp)
    low = mem.base & 7
    if mem.disp == 0 and low != RBP:
        mode, tail = 0x00, b""
    elif mem.disp % scale == 0 and -128 <= mem.disp // scale <= 127:
        mode, tail = 0x40, struct.pack("<b", mem.disp // scale)
    else:
        mode, tail = 0x80, struct.pack("<i", mem.disp)
    if mem.indexed < 0 and low != RSP:
        return bytes([mode | field | low]) + tail
    log = {1: 0, 2: 1, 4: 2, 8: 3}[mem.scale]
    index = mem.indexed & 7 if mem.indexed >= 0 else RSP
    return bytes([mode | field | 4, log << 6 | index << 3 | low]) + tail


def _disp_scale(row: Row, width: int, mem: Mem) -> int:
    if mem.broadcast:
        return row.element
    return {
        "full": width, "mem": width, "half": width // 2, "quarter": width // 4,
        "eighth": width // 8, "element": row.element,
    }[row.tuple]  # fmt: skip


@lru_cache(maxsize=1 << 16)
def vector(
    name: str,
    width: int,
    reg: int,
    other: int,
    rm: int | Mem,
    imm: int = -1,
    mask: int = 0,
    zero: bool = False,
    evex: bool = False,
) -> bytes:
    """A vector instruction: `reg` (ModRM.reg), `other` (vvvv, -1 for none), `rm`, immediate.

    mask, zero  EVEX: opmask k1..k7, and whether masked lanes become zero
    evex        ask for EVEX though VEX would do
    """
    row = ROWS[name]
    high = max(reg, other, rm.indexed if isinstance(rm, Mem) else rm)
    broadcast = isinstance(rm, Mem) and rm.broadcast
    tail = b"" if imm < 0 else bytes([imm])
    if evex or not row.vex or high > 15 or width == 64 or mask or broadcast:
        return _evex(row, width, reg, other, rm, mask, zero) + tail
    return _vex(row, width, reg, other, rm) + tail


def vector_at(
    name: str,
    width: int,
    reg: int,
    other: int,
    base: int,
    disp: int,
    imm: int = -1,
    mask: int = 0,
    zero: bool = False,
) -> bytes:
    """`vector` with a memory operand of a base and a displacement, for many displacements."""
    short, long, scale, bare = _forms(name, width, reg, other, base, mask, zero)
    if disp == 0:
        code = bare
    elif disp % scale == 0 and -128 <= disp // scale <= 127:
        code = short + _SHORT[disp // scale]
    else:
        code = long + _pack_disp(disp)
    return code if imm < 0 else code + bytes((imm,))


_pack_disp = struct.Struct("<i").pack
_SHORT = [bytes((value & 0xFF,)) for value in (*range(128), *range(-128, 0))]


@lru_cache(maxsize=1 << 16)
def _forms(
    name: str, width: int, reg: int, other: int, base: int, mask: int, zero: bool
) -> tuple[bytes, bytes, int, bytes]:
    """An instruction without its displacement of 1 or 4 bytes, what the short one counts in, and
    the instruction without displacement."""
    bare = vector(name, width, reg, other, Mem(base), -1, mask, zero)
    if base == RIP:
        return b"", b"", 1, bare
    scale = _disp_scale(ROWS[name], width, Mem(base)) if bare[0] == 0x62 else 1
    short = vector(name, width, reg, other, Mem(base, scale), -1, mask, zero)[:-1]
    long = vector(name, width, reg, other, Mem(base, 1 << 30), -1, mask, zero)[:-4]
    return short, long, scale, bare


def _vex(row: Row, width: int, reg: int, other: int, rm: int | Mem) -> bytes:
    assert row.vex
    if row.digit >= 0:
        reg, other = row.digit, reg
    r = (reg >> 3 & 1) ^ 1
    x, b = 1, 1
    if isinstance(rm, Mem):
        b = ((rm.base if rm.base != RIP else 0) >> 3 & 1) ^ 1
        x = ((rm.indexed if rm.indexed >= 0 else 0) >> 3 & 1) ^ 1
        operand = _memory(reg, rm, 1)
    else:
        b = (rm >> 3 & 1) ^ 1
        operand = bytes([_modrm(reg, rm)])
    v = (~(other if other >= 0 else 0)) & 15
    last = v << 3 | (1 if width == 32 else 0) << 2 | _PREFIX[row.prefix]
    if x and b and not row.w_vex and row.map == "0F":
        return bytes([0xC5, r << 7 | last, row.vex]) + operand
    head = bytes([0xC4, r << 7 | x << 6 | b << 5 | _MAP[row.map], row.w_vex << 7 | last, row.vex])
    return head + operand


def _evex(
    row: Row, width: int, reg: int, other: int, rm: int | Mem, mask: int, zero: bool
) -> bytes:
    assert row.evex
    if row.digit >= 0:
        reg, other = row.digit, reg
    vvvv = other if other >= 0 else 0
    r, r2 = (reg >> 3 & 1) ^ 1, (reg >> 4 & 1) ^ 1
    v2 = (vvvv >> 4 & 1) ^ 1
    broadcast = 0
    if isinstance(rm, Mem):
        b = ((rm.base if rm.base != RIP else 0) >> 3 & 1) ^ 1
        index = rm.indexed if rm.indexed >= 0 else 0
        x = (index >> 3 & 1) ^ 1
        if rm.indexed >= 16:
            v2 = 0
        operand = _memory(reg, rm, _disp_scale(row, width, rm))
        broadcast = int(rm.broadcast)
    else:
        b, x = (rm >> 3 & 1) ^ 1, (rm >> 4 & 1) ^ 1
        operand = bytes([_modrm(reg, rm)])
    p0 = r << 7 | x << 6 | b << 5 | r2 << 4 | _MAP[row.map]
    p1 = row.w_evex << 7 | (~vvvv & 15) << 3 | 4 | _PREFIX[row.prefix]
    p2 = int(zero) << 7 | _WIDTH[width] << 5 | broadcast << 4 | v2 << 3 | mask
    return bytes([0x62, p0, p1, p2, row.evex]) + operand


# General instructions.


def _rex(w: int, reg: int, mem: Mem | int) -> bytes:
    base = mem if isinstance(mem, int) else max(mem.base, 0)
    index = 0 if isinstance(mem, int) or mem.indexed < 0 else mem.indexed
    value = 0x40 | w << 3 | (reg >> 3 & 1) << 2 | (index >> 3 & 1) << 1 | (base >> 3 & 1)
    return bytes([value]) if value != 0x40 else b""


@lru_cache(maxsize=1 << 12)
def load64(reg: int, mem: Mem) -> bytes:
    """mov r64, [mem]"""
    return _rex(1, reg, mem) + b"\x8b" + _memory(reg, mem, 1)


@lru_cache(maxsize=1 << 12)
def store64(mem: Mem, reg: int) -> bytes:
    """mov [mem], r64"""
    return _rex(1, reg, mem) + b"\x89" + _memory(reg, mem, 1)


def store64_imm(mem: Mem, value: int) -> bytes:
    """mov qword [mem], imm32"""
    return _rex(1, 0, mem) + b"\xc7" + _memory(0, mem, 1) + struct.pack("<i", value)


@lru_cache(maxsize=1 << 12)
def move_imm(reg: int, value: int) -> bytes:
    """mov r32, imm32 (the upper half becomes zero)"""
    return _rex(0, 0, reg) + bytes([0xB8 | reg & 7]) + struct.pack("<I", value & 0xFFFFFFFF)


def lea(reg: int, mem: Mem) -> bytes:
    """lea r64, [mem]"""
    return _rex(1, reg, mem) + b"\x8d" + _memory(reg, mem, 1)


@lru_cache(maxsize=1 << 12)
def add_imm(reg: int, value: int) -> bytes:
    """add r64, imm"""
    rex = _rex(1, 0, reg)
    if -128 <= value <= 127:
        return rex + bytes([0x83, _modrm(0, reg)]) + struct.pack("<b", value)
    return rex + bytes([0x81, _modrm(0, reg)]) + struct.pack("<i", value)


def add_mem_imm(mem: Mem, value: int) -> bytes:
    """add qword [mem], imm"""
    rex = _rex(1, 0, mem)
    if -128 <= value <= 127:
        return rex + b"\x83" + _memory(0, mem, 1) + struct.pack("<b", value)
    return rex + b"\x81" + _memory(0, mem, 1) + struct.pack("<i", value)


def dec(reg: int) -> bytes:
    """dec r32"""
    return _rex(0, 0, reg) + bytes([0xFF, _modrm(1, reg)])


def dec_mem(mem: Mem) -> bytes:
    """dec qword [mem]"""
    return _rex(1, 0, mem) + b"\xff" + _memory(1, mem, 1)


def jnz(displacement: int) -> bytes:
    """jnz, counted from the instruction's end as if it had its long form (6 bytes)."""
    if -128 <= displacement + 4 <= 127:
        return b"\x75" + struct.pack("<b", displacement + 4)
    return b"\x0f\x85" + struct.pack("<i", displacement)


def call(displacement: int) -> bytes:
    """call rel32, counted from the instruction's end."""
    return b"\xe8" + struct.pack("<i", displacement)


def push(reg: int) -> bytes:
    """push r64"""
    return _rex(0, 0, reg) + bytes([0x50 | reg & 7])


def pop(reg: int) -> bytes:
    """pop r64"""
    return _rex(0, 0, reg) + bytes([0x58 | reg & 7])


def load_small(reg: int, mem: Mem, size: int, signed: bool) -> bytes:
    """movsx or movzx r32, byte or word [mem]"""
    opcode = {(1, True): 0xBE, (1, False): 0xB6, (2, True): 0xBF, (2, False): 0xB7}[size, signed]
    return _rex(0, reg, mem) + bytes([0x0F, opcode]) + _memory(reg, mem, 1)


def store_small(mem: Mem, reg: int, size: int) -> bytes:
    """mov byte or word [mem], reg (a byte of rax, rcx, rdx, rbx or r8 up)"""
    assert size == 2 or reg < 4 or reg > 7
    prefix = b"\x66" if size == 2 else b""
    return prefix + _rex(0, reg, mem) + (b"\x89" if size == 2 else b"\x88") + _memory(reg, mem, 1)


def prefetch(mem: Mem) -> bytes:
    """prefetcht0 [mem]"""
    return _rex(0, 1, mem) + b"\x0f\x18" + _memory(1, mem, 1)


@lru_cache(maxsize=1 << 12)
def prefetch_at(base: int, disp: int) -> bytes:
    """prefetcht0 [base + disp]"""
    return prefetch(Mem(base, disp))


RET = b"\xc3"
VZEROUPPER = b"\xc5\xf8\x77"
