"""Theoretical occupancy: how many warps of a kernel a multiprocessor holds, and why."""

from __future__ import annotations

from dataclasses import dataclass

from planish.gpu.hardware import Hardware


@dataclass(frozen=True)
class Occupancy:
    """Resident warps.

    blocks  resident blocks of a multiprocessor; 0 where not even one fits
    warps   their warps
    share   of the warps that it could hold
    limit   what stops the next block: registers, shared memory, warps, blocks
    limits  blocks that each of these would allow
    """

    blocks: int
    warps: int
    share: float
    limit: str
    limits: dict[str, int]


def occupancy(hardware: Hardware, *, threads: int, registers: int, shared: int) -> Occupancy:
    """Of a kernel with so many threads a block, registers a thread and shared bytes a block.

    The rules are those of NVIDIA's occupancy calculator; on AMD a SIMD's registers are divided
    among its wavefronts.
    """
    warps = max(1, -(-threads // hardware.warp))
    unit = hardware.register_unit
    own = max(unit, -(-max(1, registers) // unit) * unit)
    per_simd = hardware.registers // hardware.simds // (own * hardware.warp)
    by_registers = per_simd * hardware.simds // warps if registers <= hardware.most_registers else 0
    needed = 0
    if shared or hardware.reserved:
        needed = -(-(shared + hardware.reserved) // hardware.shared_unit) * hardware.shared_unit
    by_shared = hardware.shared // needed if needed else hardware.blocks
    if shared > hardware.shared_block:
        by_shared = 0
    limits = {
        "registers": by_registers, "shared memory": by_shared,
        "warps": hardware.warps // warps, "blocks": hardware.blocks,
    }  # fmt: skip
    blocks = min(limits.values())
    limit = min(limits, key=lambda name: limits[name])
    resident = blocks * warps
    return Occupancy(blocks, resident, resident / hardware.warps, limit, limits)
