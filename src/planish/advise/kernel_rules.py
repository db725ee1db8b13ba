"""Rules over compiled GPU kernels: what costs speed and can be read from the code.

Each rule is a function from facts to findings, with the source line, the evidence and what to do.
They speak only where the code shows it: an address that could not be computed is no evidence.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from planish.advise.kernel_facts import CONVERSIONS, COPIES, MATRIX, KernelFacts
from planish.gpu.lanes import MemoryAccess, block_addresses
from planish.gpu.sass import Instruction

_LOW = 0.25  # occupancy below which loads are not hidden by other warps
_IDLE = 0.07  # below which not even a pipelined kernel fills its schedulers
_WASTE = 2.0  # sectors fetched over sectors needed
_WAYS = 4  # of a bank conflict
_REPEATED = 4  # narrow accesses of one line, side by side


@dataclass(frozen=True)
class Finding:
    """What a rule has found.

    rule        its name
    where       file:line, as far as known
    evidence    what the code shows
    suggestion  what to change
    """

    rule: str
    kernel: str
    where: str
    evidence: str
    suggestion: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


Rule = Callable[[KernelFacts], Iterator[Finding]]


def judge(facts: KernelFacts) -> list[Finding]:
    """All rules."""
    return [finding for rule in RULES for finding in rule(facts)]


def line_of(facts: KernelFacts, i: Instruction | None) -> str:
    """The instruction's place in the source."""
    if i is None or not i.line:
        return facts.file or facts.name
    return f"{i.file.rsplit('/', 1)[-1]}:{i.line}"


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


def uncoalesced(facts: KernelFacts) -> Iterator[Finding]:
    """Warps that fetch far more sectors than they use."""
    for line, group in _by_line(facts, "global").items():
        bad = [a for a in group if a.sectors >= _WASTE * a.needed and a.sectors > 4]
        if not bad or (facts.loop is not None and not any(_matters(facts, a) for a in bad)):
            continue
        if len(bad) * 2 < len(group):
            continue
        together = frozenset[int]().union(*(a.touched for a in bad))
        close = all(max(a.touched) - min(a.touched) < 2 * len(a.touched) for a in bad)
        if close and len(together) < _WASTE * sum(a.needed for a in bad):
            continue  # side by side they use what they fetch: `narrow` speaks of them
        worst = max(bad, key=lambda a: a.sectors / a.needed)
        yield Finding(
            "uncoalesced", facts.name, line,
            f"{len(bad)} accesses of {worst.bytes} bytes a lane touch {worst.sectors} sectors of 32"
            f" bytes a warp where {worst.needed} hold the data: {worst.instruction.text}",
            "let neighbouring threads access neighbouring elements: exchange the axes of the tile,"
            " transpose the operand, or go through shared memory",
        )  # fmt: skip


def _matters(facts: KernelFacts, access: MemoryAccess) -> bool:
    return facts.in_loop(access.index) or not any(
        a.space == "global" and facts.in_loop(a.index) for a in facts.accesses
    )


def narrow(facts: KernelFacts) -> Iterator[Finding]:
    """Scalar accesses side by side that one vector access would do."""
    unhinted = _without_hint(facts)
    for line, group in _by_line(facts, "global").items():
        thin = [a for a in group if a.bytes <= 4]
        if (
            len(thin) < _REPEATED
            or len(thin) * 2 < len(group)
            or not _side_by_side(thin, scattered=bool(unhinted))
        ):
            continue
        if unhinted:
            yield Finding(
                "missing-divisibility", facts.name, line,
                f"{len(thin)} accesses of {thin[0].bytes} bytes a lane; nothing says that"
                f" {', '.join(unhinted)} can be divided by 16",
                "pass multiples of 16 (Triton specialises on them), or tl.multiple_of and"
                " tl.max_contiguous; the mask needs the hint as well",
            )  # fmt: skip
        elif "ttgir" not in facts.texts:
            yield Finding(
                "narrow-access", facts.name, line,
                f"{len(thin)} accesses of {thin[0].bytes} bytes a lane at consecutive places:"
                f" {thin[0].instruction.text}",
                "load 16 bytes at once (float4, int4), with pointers aligned to 16",
            )  # fmt: skip


def _side_by_side(thin: Sequence[MemoryAccess], *, scattered: bool) -> bool:
    """Whether a lane's accesses are consecutive; `scattered` ones may be so by other registers."""
    places: dict[str, set[int]] = defaultdict(set)
    for a in thin:
        inside = re.findall(r"\[([^\[\]]*)\]", a.instruction.text)
        match = re.fullmatch(r"(.*?)(?:\+(-?0x[0-9a-f]+))?", inside[-1]) if inside else None
        if match:
            places[match[1]].add(int(match[2] or "0", 16))
    steps = [b - a for p in places.values() for a, b in zip(sorted(p), sorted(p)[1:], strict=False)]
    if thin[0].bytes in steps or steps.count(thin[0].bytes) * 2 >= len(thin):
        return True
    # By way of other registers: scalar copies of 16-bit values, several a lane, mean the same.
    return scattered and (thin[0].bytes <= 2 or (len(thin) >= 16 and not steps))


def _without_hint(facts: KernelFacts) -> list[str]:
    """Pointers and whole numbers of a Triton kernel that are not known to be multiples of 16."""
    head = re.search(r"tt\.func public @\w+\((.*)\) attributes", facts.texts.get("ttgir", ""))
    if head is None:
        return []
    found = []
    for name, kind, attributes in re.findall(
        r"%(\w+): (!tt\.ptr<\w+>|i32|i64)\s*(\{[^}]*\})?", head[1]
    ):
        del kind
        if "tt.divisibility = 16" not in (attributes or ""):
            found.append(name)
    return found


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


def bank_conflicts(facts: KernelFacts) -> Iterator[Finding]:
    """Lanes of a warp that wait for one another at a bank."""
    for line, group in _by_line(facts, "shared").items():
        bad = [a for a in group if a.ways >= _WAYS]
        if facts.loop is not None and facts.count(MATRIX | {"FFMA"}, loop=True):
            bad = [a for a in bad if facts.in_loop(a.index)]
        if not bad:
            continue
        worst = max(bad, key=lambda a: a.ways)
        yield Finding(
            "bank-conflict", facts.name, line,
            f"{len(bad)} accesses to shared memory meet in one bank up to {worst.ways} times a"
            f" request: {worst.instruction.text}",
            "pad the rows by one element, or permute the columns by the row (swizzle)",
        )  # fmt: skip


def program_order(facts: KernelFacts) -> Iterator[Finding]:
    """Blocks that run together and share little: the L2 cache sees many different tiles."""
    if facts.code is None or not facts.count(MATRIX, loop=True):
        return
    if not facts.blocks and any("SR_CTAID.Y" in i.text for i in facts.code.code):
        return  # a grid of two dimensions, of unknown shape
    blocks = min(facts.hardware.processors, facts.blocks or 128)
    counts = block_addresses(facts.code, blocks, threads=facts.threads)
    lines: dict[tuple[str, int], int] = {}
    for access in facts.accesses:
        if access.space == "global" and not access.store and access.index in counts:
            i = access.instruction
            key = (i.file, i.line)
            lines[key] = max(lines.get(key, 0), counts[access.index])
    tiles = sorted(lines.values(), reverse=True)[:2]
    if len(tiles) < 2 or sum(tiles) < 2.5 * 2 * sqrt(blocks):
        return
    if not facts.blocks and tiles[0] == blocks and tiles[1] > 1:
        return  # the grid may be smaller than what was looked at
    yield Finding(
        "program-order", facts.name, facts.file or facts.name,
        f"the first {blocks} blocks read {tiles[0]} + {tiles[1]} different tiles; walked in groups"
        f" of rows they would share about {2 * sqrt(blocks):.0f}",
        "map program ids to tiles in groups of 8 rows or so (grouped order), so that tiles are"
        " found in the L2 cache",
    )  # fmt: skip


def _by_line(facts: KernelFacts, space: str) -> dict[str, list[MemoryAccess]]:
    found: dict[str, list[MemoryAccess]] = defaultdict(list)
    for access in facts.accesses:
        if access.space == space:
            found[line_of(facts, access.instruction)].append(access)
    return found


RULES: Sequence[Rule] = (
    spills, low_occupancy, uncoalesced, narrow, missing_pipeline, conversions, bank_conflicts,
    program_order,
)  # fmt: skip
