"""Stalls that other instructions could hide: GPA's loop unrolling and code reordering.

Both look at a value and the instruction that waits for it. In a loop, the next rounds are
independent work if they can be brought in (unrolling). In straight code, it is the independent
instructions that stand behind the use, where the compiler has left them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from planish.advise.blamed import Blamed, Found
from planish.gpu.slicing import EXECUTION_REASONS, MEMORY_REASONS, Share

_NEAR = 24  # instructions between a value and its use: beyond, reordering has been done already
_STAYS = ("BAR", "BRA", "EXIT", "RET", "CALL", "DEPBAR", "MEMBAR", "WARPSYNC", "BSSY", "BSYNC",
          "ST", "ATOM", "RED", "s_", "ds_", "global_store", "buffer_store")  # fmt: skip
_HIDDEN = MEMORY_REASONS | EXECUTION_REASONS


def _waits(blamed: Blamed) -> Iterator[Share]:
    """Stalls at one instruction for the result of another, of the kinds that work can hide."""
    return (s for s in blamed.shares if s.use != s.source and s.reason in _HIDDEN)


def loops_to_unroll(blamed: Blamed) -> Found:
    """Values that are made and waited for in one round of an innermost loop without calls."""
    found: Found = defaultdict(float)
    for share in _waits(blamed):
        loop = blamed.loop_of(share.source)
        if loop and loop == blamed.loop_of(share.use) and not _calls(blamed, loop):
            found[share.source] += share.amount
    return dict(found)


def _calls(blamed: Blamed, loop: frozenset[int]) -> bool:
    return any(blamed.code[i].opcode in ("CALL", "s_swappc_b64") for i in loop)


def code_to_reorder(blamed: Blamed) -> Found:
    """Values used soon after, where independent instructions follow in the same block.

    Of a stall, as much as those instructions issue can be hidden.
    """
    found: Found = defaultdict(float)
    spent: dict[int, float] = {}  # what an instruction hides it hides once
    for share in sorted(_waits(blamed), key=lambda s: (-s.amount, s.use, s.source)):
        if not 0 < share.use - share.source <= _NEAR:
            continue
        left = share.amount
        for index in movable(blamed, share.use):
            have = spent.get(index, blamed.issued.get(index, 0.0))
            taken = min(have, left)
            spent[index] = have - taken
            left -= taken
            found[share.source] += taken
    return dict(found)


def movable(blamed: Blamed, use: int) -> list[int]:
    """Instructions behind `use` in its block that need nothing which it, or they, would bring.

    Only what is computed counts (true dependences): the compiler can name registers anew.
    """
    before = blamed.before
    late = set(blamed.code[use].defines)
    found = []
    index = use
    while blamed.function.successors[index] == (index + 1,) and before[index + 1] == [index]:
        index += 1
        instruction = blamed.code[index]
        if instruction.opcode.startswith(_STAYS) or instruction.uses & late:
            late |= instruction.defines
        else:
            late -= instruction.defines
            found.append(index)
    return found
