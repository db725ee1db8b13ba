"""Where the lanes of a warp point: integer SASS evaluated for the 32 lanes of one warp.

Addresses of memory instructions are what the integer instructions before them compute. Those are
few (IMAD, IADD3, LEA, LOP3, SHF, ..), so a pass over the code in its order with made-up but equal
parameters gives each lane's address relative to the others: enough to count the 32-byte sectors
of a request and the conflicts of banks. What is not understood stays unknown; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planish.gpu.sass import Function, Instruction
from planish.gpu.warp import Lanes, Machine


@dataclass(frozen=True)
class MemoryAccess:
    """One memory instruction as the first warp runs it first.

    space     global or shared
    store     whether it writes
    bytes     of one lane
    sectors   32-byte sectors that the warp touches; 0 where addresses are unknown
    needed    sectors that its bytes would fill; 1 lane a sector at best
    ways      most words of one bank that one phase of the request touches (shared memory)
    copy      whether it copies from global to shared memory asynchronously
    touched   the sectors' numbers
    """

    index: int
    instruction: Instruction
    space: str
    store: bool
    bytes: int
    sectors: int
    needed: int
    ways: int
    copy: bool = False
    touched: frozenset[int] = frozenset()

    @property
    def known(self) -> bool:
        """Whether its addresses were computed."""
        return self.sectors > 0 or self.ways > 0


def block_addresses(
    function: Function, blocks: int, *, threads: int = 128, grid: Sequence[int] = ()
) -> dict[int, int]:
    """For each global access, how many different addresses the first `blocks` blocks begin at.

    Instructions whose address is not understood are left out.
    """
    found: dict[int, set[int]] = {}
    unknown: set[int] = set()
    for first in range(0, blocks, 32):
        machine = Machine(threads, first, grid)
        for index, instruction in enumerate(function.code):
            if _SPACES.get(instruction.opcode, ("", False))[0] == "global":
                address = machine.address(_brackets(instruction), wide=True)
                if address is None:
                    unknown.add(index)
                else:
                    found.setdefault(index, set()).update(address[: blocks - first].tolist())
            machine.step(instruction)
    return {i: len(a) for i, a in found.items() if i not in unknown}


def memory_accesses(function: Function, *, threads: int = 128) -> list[MemoryAccess]:
    """All accesses to global and shared memory, in the code's order."""
    machine = Machine(threads)
    found = []
    for index, instruction in enumerate(function.code):
        access = _access(index, instruction, machine)
        if access is not None:
            found.append(access)
        machine.step(instruction)
    return found


_SPACES = {
    "LDG": ("global", False), "STG": ("global", True), "LDS": ("shared", False),
    "STS": ("shared", True), "LDGSTS": ("global", False), "LD": ("global", False),
    "ST": ("global", True), "ATOMG": ("global", True), "REDG": ("global", True),
    "RED": ("global", True), "LDSM": ("shared", False),
}  # fmt: skip


def width_of(instruction: Instruction) -> int:
    """Bytes of one lane's access."""
    if instruction.opcode == "LDSM":
        return 16  # rows of an 8x8 matrix, one address a lane
    for word, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if word in instruction.modifiers:
            return size
    return 4


def _access(index: int, i: Instruction, machine: Machine) -> MemoryAccess | None:
    if i.opcode not in _SPACES:
        return None
    space, store = _SPACES[i.opcode]
    size = width_of(i)
    address = machine.address(_brackets(i), wide=space == "global")
    sectors, needed, ways = 0, -(-32 * size // 32), 0
    touched: frozenset[int] = frozenset()
    if address is not None:
        if space == "global":
            touched = frozenset(
                int(a + b) >> 5 for a in address.tolist() for b in range(0, size, 4)
            )
            sectors = len(touched)
            different = len(set(address.tolist()))
            needed = max(1, -(-different * size // 32))
        else:
            ways = _conflicts(address, size)
    return MemoryAccess(
        index, i, space, store, size, sectors, needed, ways, i.opcode == "LDGSTS", touched
    )


def _brackets(i: Instruction) -> str:
    """What stands between the brackets of the address that is of interest."""
    shared = _SPACES[i.opcode][0] == "shared"
    found = [
        b for b in re.findall(r"\[([^\[\]]*)\]", i.text) if shared or not re.match(r"UR\d+$", b)
    ]
    if i.opcode == "LDGSTS":
        found = found[1:]
    return found[0] if found else ""


def _conflicts(address: Lanes, size: int) -> int:
    """Most distinct words in one bank over the phases of a request: 32, 16 or 8 lanes each."""
    phase = {16: 8, 8: 16}.get(size, 32)
    worst = 1
    for start in range(0, 32, phase):
        banks: dict[int, set[int]] = {}
        for a in address[start : start + phase].tolist():
            for word in range(int(a) >> 2, (int(a) + size - 1 >> 2) + 1):
                banks.setdefault(word % 32, set()).add(word)
        worst = max(worst, max(len(w) for w in banks.values()))
    return worst
