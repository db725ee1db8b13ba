"""Every encoded instruction, decoded by an independent decoder."""

from __future__ import annotations

import itertools
import re

import iced_x86
import pytest

from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import RIP, Mem, vector
from planish.codegen.x86.rows import ROWS

_FORMATTER = iced_x86.Formatter(iced_x86.FormatterSyntax.INTEL)

# Rows whose operands are not all vectors of one width.
_IMMEDIATE = {"vroundps", "vroundpd", "vcmpps", "vcmppd", "vpcmpd", "vpshufd"}
_SHIFTS = {name for name, row in ROWS.items() if row.digit >= 0}
_UNARY = {
    "vsqrtps", "vsqrtpd", "vroundps", "vroundpd", "vpabsd", "vcvtdq2ps", "vcvttps2dq", "vpshufd",
    "vpabsq", "vcvtqq2pd", "vcvttpd2qq",
}  # fmt: skip
_BINARY = {
    name
    for name in ROWS
    if re.fullmatch(
        r"v(add|sub|mul|div|min|max)p[sd]|vfn?m(add|sub)\d+p[sd]|vp(and|or|xor|addd|subd|addq|subq"
        r"|mulld|minsd|maxsd|mullq|minsq|maxsq)|vpcmp(eq|gt)d|vpdpbusd",
        name,
    )
}


def _decode(code: bytes) -> iced_x86.Instruction:
    decoder = iced_x86.Decoder(64, code)
    found = decoder.decode()
    assert found.code != iced_x86.Code.INVALID, code.hex()
    assert found.len == len(code), f"{code.hex()} decodes to {found} of {found.len} bytes"
    return found


def _text(code: bytes) -> str:
    return _FORMATTER.format(_decode(code)).replace(" ", "")


def _register(number: int, width: int) -> str:
    return f"{ {16: 'xmm', 32: 'ymm', 64: 'zmm'}[width] }{number}"


def _mnemonic(name: str, wide: bool) -> str:
    base = name.removesuffix("_store")
    if wide and base in ("vroundps", "vroundpd"):
        return base.replace("vround", "vrndscale")
    if wide and base in ("vpand", "vpor", "vpxor"):
        return base + "d"
    return base


_WIDTHS = ((16, False), (32, False), (16, True), (32, True), (64, True))


@pytest.mark.parametrize("name", sorted(_BINARY))
def test_binary_instructions_decode_to_what_was_asked(name: str) -> None:
    row = ROWS[name]
    for width, wide in _WIDTHS:
        if not (row.evex if wide else row.vex):
            continue
        numbers = (0, 5, 8, 15, 16, 31) if wide else (0, 5, 8, 15)
        for a, b, c in itertools.product(numbers, repeat=3):
            code = vector(name, width, a, b, c, evex=wide)
            names = ",".join(_register(n, width) for n in (a, b, c))
            evex = code[0] == 0x62
            assert _text(code) == _mnemonic(name, evex) + names


@pytest.mark.parametrize("name", sorted(_UNARY))
def test_unary_instructions_decode_to_what_was_asked(name: str) -> None:
    imm = 8 if name in _IMMEDIATE else -1
    for width, wide in _WIDTHS:
        if not wide and not ROWS[name].vex:
            continue
        numbers = (0, 5, 8, 15, 16, 31) if wide else (0, 5, 8, 15)
        for a, b in itertools.product(numbers, repeat=2):
            code = vector(name, width, a, -1, b, imm, evex=wide)
            tail = ",8" if imm >= 0 else ""
            evex = code[0] == 0x62
            wanted = f"{_mnemonic(name, evex)}{_register(a, width)},{_register(b, width)}{tail}"
            assert _text(code) == wanted


@pytest.mark.parametrize("name", sorted(_SHIFTS))
def test_shifts_write_their_first_operand(name: str) -> None:
    for width, wide in _WIDTHS:
        numbers = (0, 7, 9, 15, 16, 31) if wide else (0, 7, 9, 15)
        for a, b in itertools.product(numbers, repeat=2):
            code = vector(name, width, a, -1, b, 17, evex=wide)
            assert _text(code) == f"{name}{_register(a, width)},{_register(b, width)},11h"


_MEMORIES = [
    Mem(base, disp)
    for base in range(16)
    for disp in (0, 1, 64, -64, 127, -128, 128, 4096, 8128, -8192, 1 << 30)
]


@pytest.mark.parametrize(
    ("name", "bytes_of"),
    [
        ("vmovups", lambda width: width), ("vmovupd", lambda width: width),
        ("vaddps", lambda width: width), ("vfmadd231pd", lambda width: width),
        ("vbroadcastss", lambda width: 4), ("vbroadcastsd", lambda width: 8),
        ("vmovss", lambda width: 4), ("vmovsd", lambda width: 8),
        ("vpmovsxbd", lambda width: width // 4), ("vpmovzxbd", lambda width: width // 4),
        ("vpmovsxwd", lambda width: width // 2), ("vpmovzxwd", lambda width: width // 2),
        ("vcvtph2ps", lambda width: width // 2), ("vmovups_store", lambda width: width),
        ("vmovss_store", lambda width: 4), ("vmovsd_store", lambda width: 8),
        ("vpmovdb_store", lambda width: width // 4), ("vpmovdw_store", lambda width: width // 2),
    ],
)  # fmt: skip
def test_memory_operands_decode_to_base_displacement_and_size(name: str, bytes_of) -> None:
    row = ROWS[name]
    for width, wide in _WIDTHS:
        if (wide and not row.evex) or (not wide and not row.vex):
            continue
        if name == "vbroadcastsd" and width == 16:
            continue
        if bytes_of(width) in (4, 8) and name.startswith(("vmovs",)) and width != 16:
            continue
        other = 3 if name in _BINARY else -1
        for mem in _MEMORIES:
            found = _decode(vector(name, width, 6, other, mem, evex=wide))
            assert found.memory_displacement & 0xFFFFFFFF == mem.disp & 0xFFFFFFFF, (name, mem)
            assert found.memory_base == iced_x86.Register.RAX + mem.base
            size = iced_x86.MemorySizeExt.size(found.memory_size)
            assert size == bytes_of(width), (name, width, wide)


def test_masks_and_broadcasts() -> None:
    mem = Mem(x86.RSI, 640)
    code = vector("vmovups", 64, 20, -1, mem, -1, 3, True)
    assert _text(code) == "vmovupszmm20{k3}{z},[rsi+280h]"
    code = vector("vmovups_store", 64, 20, -1, mem, -1, 1)
    assert _text(code) == "vmovups[rsi+280h]{k1},zmm20"
    code = vector("vaddps", 64, 1, 2, Mem(x86.RSI, 36, broadcast=True))
    assert _text(code).startswith("vaddpszmm1,zmm2") and "1to16" in _text(code)
    assert _decode(code).memory_displacement == 36
    code = vector("vcmpps", 64, 7, 2, 30, 1, evex=True)
    assert _text(code) == "vcmpltpsk7,zmm2,zmm30"
    code = vector("vblendmps", 64, 17, 2, 30, -1, 7)
    assert _text(code) == "vblendmpszmm17{k7},zmm2,zmm30"
    code = vector("vpcmpd", 64, 7, 2, 30, 5)
    assert _decode(code).mnemonic == iced_x86.Mnemonic.VPCMPD
    assert _text(vector("vblendvps", 32, 1, 2, 3, 9 << 4)) == "vblendvpsymm1,ymm2,ymm3,ymm9"
    assert _text(vector("kmovw", 16, 5, -1, x86.RAX)) == "kmovwk5,eax"


def test_gathers_take_a_vector_of_offsets() -> None:
    where = Mem(9, 64, 31, 1)
    code = vector("vgatherdps", 64, 4, -1, where, -1, 7)
    assert _text(code) == "vgatherdpszmm4,k7,[r9+zmm31+40h]"
    code = vector("vgatherdpd", 64, 20, -1, where, -1, 7)
    assert _text(code) == "vgatherdpdzmm20,k7,[r9+ymm31+40h]"
    code = vector("vgatherdps", 32, 4, 5, Mem(9, 64, 15, 1))
    assert _text(code) == "vgatherdpsymm4,[r9+ymm15+40h],ymm5"


def test_extractions_and_conversions() -> None:
    assert _text(vector("vextractf128", 32, 3, -1, 12, 1)) == "vextractf128xmm12,ymm3,1"
    assert _text(vector("vextractf64x4", 64, 3, -1, 31, 1)) == "vextractf64x4ymm31,zmm3,1"
    code = vector("vextractf32x4", 32, 3, -1, 31, 1, evex=True)
    assert _text(code) == "vextractf32x4xmm31,ymm3,1"
    assert _text(vector("vcvtps2pd", 64, 3, -1, 4)) == "vcvtps2pdzmm3,ymm4"
    assert _text(vector("vcvtpd2ps", 64, 3, -1, 4)) == "vcvtpd2psymm3,zmm4"
    assert _text(vector("vcvttpd2dq", 32, 3, -1, 4)) == "vcvttpd2dqxmm3,ymm4"
    assert _text(vector("vcvtdq2pd", 32, 3, -1, 4)) == "vcvtdq2pdymm3,xmm4"
    assert _text(vector("vcvtqq2ps", 64, 3, -1, 4)) == "vcvtqq2psymm3,zmm4"
    assert _text(vector("vcvttps2qq", 64, 3, -1, 4)) == "vcvttps2qqzmm3,ymm4"
    assert _text(vector("vpmovsxdq", 64, 3, -1, 4)) == "vpmovsxdqzmm3,ymm4"
    assert _text(vector("vpmovqd_store", 64, 3, -1, 31)) == "vpmovqdymm31,zmm3"
    assert _text(vector("vpcmpq", 64, 7, 2, 30, 1)) == "vpcmpltqk7,zmm2,zmm30"
    assert _text(vector("vcvtps2ph_store", 32, 3, -1, 4, 0)) == "vcvtps2phxmm4,ymm3,0"


def test_constants_are_addressed_from_the_instruction_pointer() -> None:
    for evex in (False, True):
        found = _decode(vector("vmulps", 32, 1, 2, Mem(RIP), evex=evex))
        assert found.is_ip_rel_memory_operand
        assert found.memory_displacement == found.len


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (x86.load64(12, Mem(x86.RDI, 24)), "movr12,[rdi+18h]"),
        (x86.store64(Mem(x86.RSP, 8), 9), "mov[rsp+8],r9"),
        (x86.store64_imm(Mem(x86.RSP, 200), 77), "movqwordptr[rsp+0C8h],4Dh"),
        (x86.move_imm(11, 1000), "movr11d,3E8h"),
        (x86.add_imm(x86.RSI, -64), "addrsi,0FFFFFFFFFFFFFFC0h"),
        (x86.add_imm(13, 100000), "addr13,186A0h"),
        (x86.add_mem_imm(Mem(x86.RSP, 16), 4096), "addqwordptr[rsp+10h],1000h"),
        (x86.dec(8), "decr8d"),
        (x86.dec_mem(Mem(x86.RSP, 16)), "decqwordptr[rsp+10h]"),
        (x86.push(12), "pushr12"),
        (x86.pop(x86.RBX), "poprbx"),
        (x86.lea(x86.RAX, Mem(13, 5)), "learax,[r13+5]"),
        (x86.load_small(x86.RAX, Mem(12, 0), 1, True), "movsxeax,byteptr[r12]"),
        (x86.load_small(x86.RAX, Mem(13, 3), 2, False), "movzxeax,wordptr[r13+3]"),
        (x86.store_small(Mem(9, 1), x86.RAX, 1), "mov[r9+1],al"),
        (x86.store_small(Mem(9, 2), x86.RAX, 2), "mov[r9+2],ax"),
        (x86.prefetch(Mem(10, 128)), "prefetcht0[r10+80h]"),
    ],
)
def test_general_instructions(code: bytes, text: str) -> None:
    assert _text(code) == text


@pytest.mark.parametrize("distance", [-2, -100, -123, -124, -125, -126, -5000])
def test_jumps_back_reach_their_target(distance: int) -> None:
    """The displacement counts from the end of the long form, whichever form is taken."""
    code = x86.jnz(distance - 6)
    decoder = iced_x86.Decoder(64, code, ip=0x100000)
    assert decoder.decode().near_branch_target == 0x100000 + distance
