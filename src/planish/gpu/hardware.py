"""GPUs as tables: what a multiprocessor holds and does.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the
whitepapers of A100, H100 and B200; AMD's CDNA2 and CDNA3 ISA guides and whitepapers (MI250X, one
die; MI300X). Rates are the vendors' peaks without sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planish.base.errors import unknown


@dataclass(frozen=True)
class Hardware:
    """One architecture.

    name          as compilers call it
    vendor        cuda or hip
    model         the product that counts and rates are of
    processors    multiprocessors (compute units)
    warp          threads of a warp (wavefront)
    warps         warps that a multiprocessor holds at most
    blocks        blocks that it holds at most
    registers     32-bit registers of a multiprocessor (AMD: vector registers, of all four SIMDs)
    register_unit registers of a warp are given out in multiples of this (per thread)
    most_registers  of one thread
    shared        bytes of shared memory (LDS) of a multiprocessor
    shared_block  bytes that one block may have
    shared_unit   bytes in which it is given out
    reserved      bytes of shared memory that each block costs beyond its own
    simds         schedulers of a multiprocessor
    bandwidth     bytes a second of the device memory
    peak          operations a second by type: f64, f32 (no tensor cores), tf32, f16, i8, and f8
                  where the compiler uses such units (for gfx942 it converts to f16)
    banks         banks of shared memory, four bytes wide
    """

    name: str
    vendor: str
    model: str
    processors: int
    warp: int
    warps: int
    blocks: int
    registers: int
    register_unit: int
    most_registers: int
    shared: int
    shared_block: int
    shared_unit: int
    reserved: int
    simds: int
    bandwidth: float
    peak: Mapping[str, float] = field(hash=False)
    l2: int = 40 << 20
    banks: int = 32

    @property
    def target(self) -> str:
        """As the command line has it: cuda:sm_90."""
        return f"{self.vendor}:{self.name}"

    def rate(self, type_name: str) -> float:
        """Operations a second on operands of an element type, or on tf32.

        f8 is converted to f16 where no unit takes it; integers wider than 8 bits count as f32.
        """
        if type_name.startswith("f8"):
            return self.peak.get("f8", self.peak["f16"])
        return self.peak.get("f16" if type_name == "bf16" else type_name, self.peak["f32"])


_T = 1e12
HARDWARE = {
    h.name: h
    for h in (
        Hardware(
            "sm_80", "cuda", "A100 SXM 80 GB", 108, 32, 64, 32, 65536, 8, 255, 164 << 10,
            163 << 10, 128, 1024, 4, 2.039e12,
            {"f64": 19.5 * _T, "f32": 19.5 * _T, "tf32": 156 * _T, "f16": 312 * _T,
             "i8": 624 * _T}, 40 << 20,
        ),
        Hardware(
            "sm_90", "cuda", "H100 SXM", 132, 32, 64, 32, 65536, 8, 255, 228 << 10, 227 << 10,
            128, 1024, 4, 3.35e12,
            {"f64": 67 * _T, "f32": 67 * _T, "tf32": 495 * _T, "f16": 989 * _T, "i8": 1979 * _T,
             "f8": 1979 * _T}, 50 << 20,
        ),
        Hardware(
            "sm_100", "cuda", "B200", 148, 32, 64, 32, 65536, 8, 255, 228 << 10, 227 << 10, 128,
            1024, 4, 8.0e12,
            {"f64": 37 * _T, "f32": 75 * _T, "tf32": 1100 * _T, "f16": 2250 * _T,
             "i8": 4500 * _T, "f8": 4500 * _T}, 126 << 20,
        ),
        Hardware(
            "gfx90a", "hip", "MI250X, one die", 110, 64, 32, 16, 131072, 8, 512, 64 << 10,
            64 << 10, 512, 0, 4, 1.6e12,
            {"f64": 47.9 * _T, "f32": 23.9 * _T, "tf32": 47.9 * _T, "f16": 191.5 * _T,
             "i8": 191.5 * _T}, 8 << 20,
        ),
        Hardware(
            "gfx942", "hip", "MI300X", 304, 64, 32, 16, 131072, 8, 512, 64 << 10, 64 << 10, 512, 0,
            4, 5.3e12,
            {"f64": 163.4 * _T, "f32": 163.4 * _T, "tf32": 653.7 * _T, "f16": 1307.4 * _T,
             "i8": 2614.9 * _T}, 256 << 20,
        ),
    )
}  # fmt: skip
TARGETS = tuple(h.target for h in HARDWARE.values())


def hardware_of(target: str) -> Hardware:
    """By `cuda:sm_90`, `sm_90`, or `sm_90a`; raises UsageError."""
    name = target.split(":")[-1].strip()
    if name.startswith("sm_") and name[-1:] in ("a", "f"):
        name = name[:-1]
    if name not in HARDWARE or (":" in target and target.split(":")[0] != HARDWARE[name].vendor):
        raise unknown("GPU target", target, TARGETS)
    return HARDWARE[name]
