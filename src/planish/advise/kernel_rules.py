"""Rules over compiled GPU kernels: what costs speed and can be read from the code.

Each rule is a function from facts to findings, with the source line, the evidence and what to do.
They speak only where the code shows it: an address that could not be computed is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from planish.advise.access_rules import bank_conflicts, narrow, uncoalesced
from planish.advise.finding import Finding, Rule, line_of
from planish.advise.kernel_facts import CONVERSIONS, COPIES, MATRIX, KernelFacts
from planish.gpu.lanes import block_addresses
from planish.gpu.sass import Function

_LOW = 0.25  # occupancy below which loads are not hidden by other warps
_IDLE = 0.07  # below which not even a pipelined kernel fills its schedulers
_MOST_BLOCKS = 2048  # of a grid, that are asked whether any two share a tile


def judge(facts: KernelFacts) -> list[Finding]:
    """All rules."""
    return [finding for rule in RULES for finding in rule(facts)]


def _pipelined(facts: KernelFacts) -> bool:
    """Matrix instructions fed by asynchronous copies: latency is hidden without many warps."""
    return bool(facts.count(MATRIX)) and (
        bool(facts.count(COPIES)) or _prefetched(facts)
    )  # fmt: skip


def spills(facts: KernelFacts) -> Iterator[Finding]:
    """Registers that do not suffice."""
    if not facts.resources.spills:
        return
    code = facts.code.code if facts.code else ()
    first = next((i for i in code if i.opcode in ("STL", "LDL")), None)
    inside = sum(i.opcode in ("STL", "LDL") for i in facts.loop_code)
    where = f", {inside} of the accesses in the main loop" if inside else ""
    yield Finding(
        "spill", facts.name, line_of(facts, first),
        f"{facts.resources.spills} bytes a thread are spilled to local memory at"
        f" {facts.resources.registers} registers{where}",
        "smaller tiles, or more warps for the same tile; raise the limit of registers (maxnreg,"
        " __launch_bounds__) where one is set",
    )  # fmt: skip


def low_occupancy(facts: KernelFacts) -> Iterator[Finding]:
    """Too few warps to hide latency, and nothing else that hides it."""
    o = facts.occupancy
    if o.blocks == 0:
        yield Finding(
            "does-not-fit", facts.name, facts.file or facts.name,
            f"not one block fits: {facts.threads} threads, {facts.resources.registers} registers,"
            f" {facts.shared:,} bytes of shared memory ({o.limit})",
            "smaller tiles or fewer stages",
        )  # fmt: skip
        return
    if o.limit not in ("registers", "shared memory"):
        return
    if o.share >= (_IDLE if _pipelined(facts) else _LOW):
        return
    own = {
        "registers": f"{facts.resources.registers} registers x {facts.threads} threads",
        "shared memory": f"{facts.shared:,} bytes of shared memory a block",
    }[o.limit]
    advice = {
        "registers": "smaller tiles, fewer values alive at once, or a limit of registers",
        "shared memory": "smaller tiles or fewer stages of the pipeline",
    }[o.limit]
    yield Finding(
        f"low-occupancy-{o.limit.split()[0]}", facts.name, facts.file or facts.name,
        f"{o.warps} of {facts.hardware.warps} warps resident ({o.share:.0%}), limited by {own}",
        advice,
    )  # fmt: skip


def missing_pipeline(facts: KernelFacts) -> Iterator[Finding]:
    """A loop that loads, waits, and computes, one after the other."""
    code = facts.loop_code
    work = [n for n, i in enumerate(code) if i.opcode in MATRIX or i.opcode == "FFMA"]
    loads = [n for n, i in enumerate(code) if i.opcode == "LDG"]
    stores = [n for n, i in enumerate(code) if i.opcode == "STS"]
    copies = facts.count(COPIES, loop=True)
    if not loads or copies or not work:
        return
    matrix = facts.count(MATRIX, loop=True)
    if not matrix and (not stores or len(work) < 8):
        return
    if _prefetched(facts):
        return
    first = code[loads[0]]
    yield Finding(
        "missing-pipelining", facts.name, line_of(facts, first),
        f"the main loop has {len(loads)} loads from global memory and no asynchronous copy;"
        f" {matrix or len(work)} {'matrix' if matrix else 'multiply-add'} instructions wait for"
        " them in every round",
        "more stages (num_stages=3; cp.async in CUDA C); in Triton copies also need accesses of at"
        " least 4 bytes a lane, that is divisibility hints for pointer, stride and mask",
    )  # fmt: skip


def _prefetched(facts: KernelFacts) -> bool:
    """Whether work stands between the loads and the stores to shared memory (double buffering)."""
    code = facts.loop_code
    loads = [n for n, i in enumerate(code) if i.opcode == "LDG"]
    stores = [n for n, i in enumerate(code) if i.opcode == "STS"]
    if not loads or not stores:
        return False
    last = max(loads)
    after = [n for n in stores if n > last]
    until = min(after) if after else len(code)
    between = sum(i.opcode in MATRIX or i.opcode == "FFMA" for i in code[last:until])
    total = sum(i.opcode in MATRIX or i.opcode == "FFMA" for i in code)
    return bool(after or min(stores) < min(loads)) and between * 2 >= total > 0


def conversions(facts: KernelFacts) -> Iterator[Finding]:
    """Element by element conversions next to matrix instructions."""
    matrix = facts.count(MATRIX, loop=True)
    code = [i for i in facts.loop_code if i.opcode in CONVERSIONS]
    if not matrix or len(code) * 2 < matrix:
        return
    names = sorted({".".join((i.opcode, *i.modifiers)) for i in code})
    yield Finding(
        "scalar-conversion", facts.name, line_of(facts, code[0]),
        f"{len(code)} conversions ({', '.join(names[:3])}) beside {matrix} matrix instructions in"
        " the main loop",
        "convert before the loop, store the operand in the type of the product, or convert several"
        " elements at once with bit operations (i8 to f16: xor and a packed subtraction)",
    )  # fmt: skip


def _tiles_read(facts: KernelFacts, code: Function, blocks: int) -> list[int]:
    """Of the two lines of the source that read most: how many tiles the first blocks read."""
    counts = block_addresses(code, blocks, threads=facts.threads, grid=facts.grid)
    lines: dict[tuple[str, int], int] = {}
    for access in facts.accesses:
        if access.space == "global" and not access.store and access.index in counts:
            i = access.instruction
            key = (i.file, i.line)
            lines[key] = max(lines.get(key, 0), counts[access.index])
    return sorted(lines.values(), reverse=True)[:2]


def program_order(facts: KernelFacts) -> Iterator[Finding]:
    """Blocks that run together and share little: the L2 cache sees many different tiles."""
    if facts.code is None or not facts.count(MATRIX, loop=True):
        return
    if not facts.blocks and any("SR_CTAID.Y" in i.text for i in facts.code.code):
        return  # a grid of two dimensions, of unknown shape
    blocks = min(facts.hardware.processors, facts.blocks or 128)
    tiles = _tiles_read(facts, facts.code, blocks)
    if len(tiles) < 2 or sum(tiles) < 2.5 * 2 * sqrt(blocks):
        return
    more = min(facts.blocks, _MOST_BLOCKS)
    if more and _tiles_read(facts, facts.code, more)[0] == more:
        return  # each block has a tile of its own (queries of attention): no order shares it
    if not facts.blocks and tiles[0] == blocks and tiles[1] > 1:
        return  # the grid may be smaller than what was looked at
    yield Finding(
        "program-order", facts.name, facts.file or facts.name,
        f"the first {blocks} blocks read {tiles[0]} + {tiles[1]} different tiles; walked in groups"
        f" of rows they would share about {2 * sqrt(blocks):.0f}",
        "map program ids to tiles in groups of 8 rows or so (grouped order), so that tiles are"
        " found in the L2 cache",
    )  # fmt: skip


RULES: Sequence[Rule] = (
    spills, low_occupancy, uncoalesced, narrow, missing_pipeline, conversions, bank_conflicts,
    program_order,
)  # fmt: skip
