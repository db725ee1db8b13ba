"""Rules over the memory accesses of compiled GPU kernels: scattered, narrow, in conflict."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from planish.advise.finding import Finding, line_of
from planish.advise.kernel_facts import MATRIX, KernelFacts
from planish.gpu.lanes import MemoryAccess

_WASTE = 2.0  # sectors fetched over sectors needed
_WAYS = 4  # of a bank conflict
_REPEATED = 4  # narrow accesses of one line, side by side


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


def _by_line(facts: KernelFacts, space: str) -> dict[str, list[MemoryAccess]]:
    found: dict[str, list[MemoryAccess]] = defaultdict(list)
    for access in facts.accesses:
        if access.space == space:
            found[line_of(facts, access.instruction)].append(access)
    return found
