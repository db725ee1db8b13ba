"""Occupancy, binaries, and the addresses of a warp's lanes."""

from __future__ import annotations

import pytest

from planish.base.errors import UsageError
from planish.gpu.hardware import HARDWARE, hardware_of
from planish.gpu.lanes import block_addresses, memory_accesses
from planish.gpu.occupancy import occupancy
from planish.gpu.resources import ptx_target, read_hsaco
from planish.gpu.sass import parse_sass


# What NVIDIA's occupancy calculator says.
@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "warps", "limit"),
    [
        ("sm_80", 256, 32, 0, 64, "registers"),
        ("sm_80", 128, 255, 0, 8, "registers"),
        ("sm_80", 1024, 64, 0, 32, "registers"),
        ("sm_90", 128, 32, 48 << 10, 16, "shared memory"),
        ("sm_90", 64, 16, 0, 64, "warps"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
    ],
)
def test_occupancy(
    name: str, threads: int, registers: int, shared: int, warps: int, limit: str
) -> None:
    found = occupancy(HARDWARE[name], threads=threads, registers=registers, shared=shared)
    assert (found.warps, found.limit) == (warps, limit)


def test_what_is_too_large_does_not_fit() -> None:
    for hardware in HARDWARE.values():
        big = occupancy(hardware, threads=128, registers=32, shared=hardware.shared_block + 1)
        assert big.blocks == 0


@pytest.mark.parametrize("name", ["cuda:sm_90", "sm_90", "sm_90a", "cuda:sm_90a"])
def test_targets_have_several_spellings(name: str) -> None:
    assert hardware_of(name).target == "cuda:sm_90"


@pytest.mark.parametrize("name", ["sm_35", "hip:sm_90", "", "gfx"])
def test_unknown_targets_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        hardware_of(name)


def test_rates_of_element_types() -> None:
    for hardware in HARDWARE.values():
        rate = hardware.rate
        assert rate("bf16") == rate("f16") >= rate("tf32") >= rate("f32") == rate("i32")
        assert rate("i8") >= rate("f8e4m3") == rate("f8e5m2") >= rate("f16")
    assert HARDWARE["sm_80"].rate("f8e4m3") == HARDWARE["sm_80"].rate("f16")  # converted
    assert HARDWARE["sm_90"].rate("f8e4m3") == HARDWARE["sm_90"].rate("i8")


def _sass(*lines: str) -> str:
    code = [f"        /*{16 * n:04x}*/    {text} ;" for n, text in enumerate(lines)]
    return "\n".join([".section .text.k", *code])


@pytest.mark.parametrize(
    ("stride", "sectors"), [(4, 4), (8, 8), (16, 16), (32, 32), (4096, 32), (0, 1)]
)
def test_sectors_of_a_stride(stride: int, sectors: int) -> None:
    [function] = parse_sass(
        _sass("S2R R0, SR_TID.X", f"MOV R5, {stride:#x}", "IMAD.WIDE R2, R0, R5, c[0x0][0x210]",
              "LDG.E R4, desc[UR4][R2.64]", "EXIT")
    )  # fmt: skip
    [access] = memory_accesses(function)
    assert access.sectors == sectors


@pytest.mark.parametrize(("stride", "ways"), [(4, 1), (8, 2), (128, 32), (132, 1), (16, 4)])
def test_banks_of_a_stride(stride: int, ways: int) -> None:
    [function] = parse_sass(
        _sass("S2R R0, SR_TID.X", f"IMAD R2, R0, {stride:#x}, RZ", "LDS R4, [R2+0x10]", "EXIT")
    )
    [access] = memory_accesses(function)
    assert access.ways == ways


def test_unknown_addresses_are_no_evidence() -> None:
    [function] = parse_sass(
        _sass("S2R R0, SR_TID.X", "LDG.E R2, desc[UR4][R8.64]", "MUFU.RCP R0, R0",
              "IMAD R2, R0, 0x4, RZ", "LDS R4, [R2]", "EXIT")
    )  # fmt: skip
    assert [a.known for a in memory_accesses(function)] == [False, False]


def test_blocks_that_share_a_tile_are_counted_once() -> None:
    [function] = parse_sass(
        _sass("S2R R0, SR_CTAID.X", "SHF.R.U32.HI R1, RZ, 0x3, R0",
              "LOP3.LUT R2, R0, 0x7, RZ, 0xc0, !PT",
              "MOV R5, 0x1000", "IMAD.WIDE R6, R1, R5, c[0x0][0x210]",
              "IMAD.WIDE R8, R2, R5, c[0x0][0x218]", "LDG.E R4, desc[UR4][R6.64]",
              "LDG.E R4, desc[UR4][R8.64]", "EXIT")
    )  # fmt: skip
    assert sorted(block_addresses(function, 64).values()) == [8, 8]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), b"text"])
def test_damaged_code_objects_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        read_hsaco(data)


def test_ptx_names_its_target() -> None:
    assert ptx_target(b".version 8.0\n.target sm_90a\n") == "sm_90a"
    with pytest.raises(UsageError):
        ptx_target(b".version 8.0")
