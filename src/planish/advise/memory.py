"""Stalls for memory that the code itself explains: addresses that scatter, registers that spill."""

from __future__ import annotations

from planish.advise.blamed import Blamed, Found
from planish.gpu.lanes import memory_accesses

_WASTE = 2.0  # sectors fetched over sectors needed, from which an access is called scattered
_SPILLS = ("LDL", "STL", "scratch_load", "scratch_store")


def uncoalesced(blamed: Blamed) -> Found:
    """Global accesses whose lanes touch more 32-byte sectors than their data would fill.

    Addresses are computed for the lanes of the first warp; those that are not understood are no
    evidence. What is saved is the share of the sectors that were fetched in vain.
    """
    found: Found = {}
    for access in memory_accesses(blamed.function):
        wide = access.space == "global" and access.sectors >= _WASTE * access.needed
        if wide and access.sectors > 4:
            stalls = blamed.by_source.get(access.index, 0.0)
            found[access.index] = stalls * (1 - access.needed / access.sectors)
    return found


def spills(blamed: Blamed) -> Found:
    """Registers that are kept in local memory, and what waits for them."""
    return {
        index: blamed.by_source.get(index, 0.0)
        for index, instruction in enumerate(blamed.code)
        if instruction.opcode.startswith(_SPILLS)
    }
