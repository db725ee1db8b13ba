"""Vector instructions as a table: map, prefix, W and opcode as Intel's manual (volume 2) gives
them, and for EVEX what an 8-bit displacement is multiplied by.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """An instruction's encoding.

    vex, evex  opcode (0 where there is none); w_vex, w_evex the W bits
    tuple      what disp8 counts in: full (vector, or the element when broadcast), mem (vector),
               half, quarter, eighth of it, or the bytes of one element
    digit      opcode extension in ModRM.reg, -1 for none
    """

    map: str
    prefix: str
    vex: int
    evex: int
    w_vex: int = 0
    w_evex: int = 0
    tuple: str = "full"
    element: int = 4
    digit: int = -1


def _float_rows() -> dict[str, Row]:
    rows = {}
    for name, opcode in (
        ("add", 0x58), ("mul", 0x59), ("sub", 0x5C), ("min", 0x5D), ("div", 0x5E), ("max", 0x5F),
        ("sqrt", 0x51),
    ):  # fmt: skip
        rows[f"v{name}ps"] = Row("0F", "", opcode, opcode)
        rows[f"v{name}pd"] = Row("0F", "66", opcode, opcode, 0, 1, "full", 8)
    for name, base in (("fmadd", 0x98), ("fmsub", 0x9A), ("fnmadd", 0x9C)):
        for form, step in (("132", 0x00), ("213", 0x10), ("231", 0x20)):
            opcode = base + step
            rows[f"v{name}{form}ps"] = Row("0F38", "66", opcode, opcode)
            rows[f"v{name}{form}pd"] = Row("0F38", "66", opcode, opcode, 1, 1, "full", 8)
    return rows


ROWS: dict[str, Row] = {
    **_float_rows(),
    "vpand": Row("0F", "66", 0xDB, 0xDB),
    "vpor": Row("0F", "66", 0xEB, 0xEB),
    "vpxor": Row("0F", "66", 0xEF, 0xEF),
    "vpaddd": Row("0F", "66", 0xFE, 0xFE),
    "vpsubd": Row("0F", "66", 0xFA, 0xFA),
    "vpaddq": Row("0F", "66", 0xD4, 0xD4, 0, 1, "full", 8),
    "vpsubq": Row("0F", "66", 0xFB, 0xFB, 0, 1, "full", 8),
    "vpdpbusd": Row("0F38", "66", 0x50, 0x50),
    "vpmulld": Row("0F38", "66", 0x40, 0x40),
    "vpmullq": Row("0F38", "66", 0, 0x40, 0, 1, "full", 8),
    "vpminsq": Row("0F38", "66", 0, 0x39, 0, 1, "full", 8),
    "vpmaxsq": Row("0F38", "66", 0, 0x3D, 0, 1, "full", 8),
    "vpabsq": Row("0F38", "66", 0, 0x1F, 0, 1, "full", 8),
    "vpminsd": Row("0F38", "66", 0x39, 0x39),
    "vpmaxsd": Row("0F38", "66", 0x3D, 0x3D),
    "vpabsd": Row("0F38", "66", 0x1E, 0x1E),
    "vpslld": Row("0F", "66", 0x72, 0x72, digit=6),
    "vpsrld": Row("0F", "66", 0x72, 0x72, digit=2),
    "vpsrad": Row("0F", "66", 0x72, 0x72, digit=4),
    "vpsllq": Row("0F", "66", 0x73, 0x73, 0, 1, "full", 8, 6),
    "vpsrlq": Row("0F", "66", 0x73, 0x73, 0, 1, "full", 8, 2),
    "vroundps": Row("0F3A", "66", 0x08, 0x08),
    "vroundpd": Row("0F3A", "66", 0x09, 0x09, 0, 1, "full", 8),
    "vcmpps": Row("0F", "", 0xC2, 0xC2),
    "vcmppd": Row("0F", "66", 0xC2, 0xC2, 0, 1, "full", 8),
    "vpcmpeqd": Row("0F", "66", 0x76, 0),
    "vpcmpgtd": Row("0F", "66", 0x66, 0),
    "vpcmpq": Row("0F3A", "66", 0, 0x1F, 0, 1, "full", 8),
    "vpcmpd": Row("0F3A", "66", 0, 0x1F),
    "vblendvps": Row("0F3A", "66", 0x4A, 0),
    "vblendvpd": Row("0F3A", "66", 0x4B, 0),
    "vblendmps": Row("0F38", "66", 0, 0x65),
    "vblendmpd": Row("0F38", "66", 0, 0x65, 0, 1, "full", 8),
    "vblendps": Row("0F3A", "66", 0x0C, 0),
    "vblendpd": Row("0F3A", "66", 0x0D, 0),
    "vmovups": Row("0F", "", 0x10, 0x10, tuple="mem"),
    "vmovupd": Row("0F", "66", 0x10, 0x10, 0, 1, "mem", 8),
    "vmovups_store": Row("0F", "", 0x11, 0x11, tuple="mem"),
    "vmovupd_store": Row("0F", "66", 0x11, 0x11, 0, 1, "mem", 8),
    "vmovaps": Row("0F", "", 0x28, 0x28, tuple="mem"),
    "vmovss": Row("0F", "F3", 0x10, 0x10, tuple="element", element=4),
    "vmovss_store": Row("0F", "F3", 0x11, 0x11, tuple="element", element=4),
    "vmovsd": Row("0F", "F2", 0x10, 0x10, 0, 1, "element", 8),
    "vmovsd_store": Row("0F", "F2", 0x11, 0x11, 0, 1, "element", 8),
    "vmaskmovps": Row("0F38", "66", 0x2C, 0),
    "vmaskmovpd": Row("0F38", "66", 0x2D, 0),
    "vmaskmovps_store": Row("0F38", "66", 0x2E, 0),
    "vmaskmovpd_store": Row("0F38", "66", 0x2F, 0),
    "vbroadcastss": Row("0F38", "66", 0x18, 0x18, tuple="element", element=4),
    "vbroadcastsd": Row("0F38", "66", 0x19, 0x19, 0, 1, "element", 8),
    "vmovddup": Row("0F", "F2", 0x12, 0x12, 0, 1, "element", 8),
    "vpmovsxbd": Row("0F38", "66", 0x21, 0x21, tuple="quarter"),
    "vpmovzxbd": Row("0F38", "66", 0x31, 0x31, tuple="quarter"),
    "vpmovsxwd": Row("0F38", "66", 0x23, 0x23, tuple="half"),
    "vpmovzxwd": Row("0F38", "66", 0x33, 0x33, tuple="half"),
    "vpmovdb_store": Row("0F38", "F3", 0, 0x31, tuple="quarter"),
    "vpmovdw_store": Row("0F38", "F3", 0, 0x33, tuple="half"),
    "vcvtph2ps": Row("0F38", "66", 0x13, 0x13, tuple="half"),
    "vcvtps2ph_store": Row("0F3A", "66", 0x1D, 0x1D, tuple="half"),
    "vcvtdq2ps": Row("0F", "", 0x5B, 0x5B),
    "vcvttps2dq": Row("0F", "F3", 0x5B, 0x5B),
    "vcvtps2pd": Row("0F", "", 0x5A, 0x5A, tuple="half"),
    "vcvtpd2ps": Row("0F", "66", 0x5A, 0x5A, 0, 1, "full", 8),
    "vcvtdq2pd": Row("0F", "F3", 0xE6, 0xE6, tuple="half"),
    "vcvtqq2pd": Row("0F", "F3", 0, 0xE6, 0, 1, "full", 8),
    "vcvttpd2qq": Row("0F", "66", 0, 0x7A, 0, 1, "full", 8),
    "vcvtqq2ps": Row("0F", "", 0, 0x5B, 0, 1, "full", 8),
    "vcvttps2qq": Row("0F", "66", 0, 0x7A, tuple="half"),
    "vpmovsxdq": Row("0F38", "66", 0x25, 0x25, tuple="half"),
    "vpmovqd_store": Row("0F38", "F3", 0, 0x35, tuple="half"),
    "vcvttpd2dq": Row("0F", "66", 0xE6, 0xE6, 0, 1, "full", 8),
    "vextractf128": Row("0F3A", "66", 0x19, 0),
    "vextractf64x4": Row("0F3A", "66", 0, 0x1B, 0, 1, "half", 8),
    "vextractf32x4": Row("0F3A", "66", 0, 0x19, 0, 0, "element", 16),
    "vpshufd": Row("0F", "66", 0x70, 0x70),
    "vmovd": Row("0F", "66", 0x6E, 0x6E, tuple="element", element=4),
    "vmovd_store": Row("0F", "66", 0x7E, 0x7E, tuple="element", element=4),
    "vpbroadcastd": Row("0F38", "66", 0x58, 0x58, tuple="element", element=4),
    "vgatherdps": Row("0F38", "66", 0x92, 0x92, tuple="element", element=4),
    "vgatherdpd": Row("0F38", "66", 0x92, 0x92, 1, 1, "element", 8),
    "kmovw": Row("0F", "", 0x92, 0),
}
