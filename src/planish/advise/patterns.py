"""Advice from patterns of instructions with blamed stalls: the optimisers of GPA that need code.

Each pattern picks instructions and says how many of the samples blamed on them would go away (by
stall elimination) or be hidden by others of the same loop (by latency hiding); the estimators and
the list are GPA's (arXiv 2009.04061, tables 2 and 3).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planish.advise.advice import Advice, Confidence
from planish.advise.blamed import Blamed, Found
from planish.advise.latency import code_to_reorder, loops_to_unroll
from planish.advise.memory import spills, uncoalesced
from planish.gpu.sass import Instruction
from planish.gpu.slicing import line_of

_SHOWN = 3
_WIDEST = 16  # bytes that one thread loads at once, at most
_SLOW_MATH = re.compile(r"__internal_|slowpath|__nv_|_(div|sqrt|rsqrt|rcp|fdivide|trig|sin|cos|pow|"
                        r"exp|log)(f|_|\d|$)|ocml")  # fmt: skip
_SLOW_OPCODES = re.compile(
    r"^(MUFU\.(RCP64H|RSQ64H)|FCHK|v_div_(scale|fmas|fixup)|v_(rcp|rsq|sqrt)_f64|v_trig_preop)"
)
_EXPENSIVE = re.compile(
    r"^(DADD|DMUL|DFMA|DSETP|DMNMX|I2F|F2I|F2F\.(F64|F32\.F64)|I2I|FRND|v_\w+_f64|v_cvt_|"
    r"v_mul_(lo|hi)_[ui]32|v_mad_[ui]64)"
)
_WAITS_FOR_MEMORY = frozenset({"GMEM", "long_scoreboard", "WAITCNT"})
_ADDRESS = re.compile(r"\[(?P<base>U?R\d+)(?:\.\w+)*(?:\+(?P<offset>-?0x[0-9a-f]+))?\]")
_GLOBAL_LOADS = re.compile(r"^(LDG|LD|global_load|flat_load|buffer_load)")


@dataclass(frozen=True)
class Pattern:
    """A rule: which instructions, and how their stalls go. `hides` bounds them by what issues."""

    rule: str
    title: str
    find: Callable[[Blamed], Found]
    source: str
    confidence: Confidence = Confidence.MEDIUM
    hides: bool = False


def advise_patterns(blamed: Blamed, whole: float) -> Iterator[Advice]:
    """What each pattern finds in a function; `whole` is all samples of the profile."""
    for pattern in PATTERNS:
        found = {index: amount for index, amount in pattern.find(blamed).items() if amount > 0}
        if not found:
            continue
        saved = _hidden(blamed, found) if pattern.hides else sum(found.values())
        worst = sorted(found, key=lambda i: (-found[i], i))[:_SHOWN]
        places = "; ".join(
            f"{blamed.code[i].text} at {line_of(blamed.code[i])} ({found[i] / whole:.1%})"
            for i in worst
        )
        share = sum(found.values()) / whole
        yield Advice(
            pattern.rule, pattern.title, f"{blamed.function.name} {line_of(blamed.code[worst[0]])}",
            f"{len(found)} instructions, {share:.1%} of all samples: {places}",
            saved, whole, pattern.confidence, pattern.source,
        )  # fmt: skip


def _hidden(blamed: Blamed, found: Found) -> float:
    """GPA's latency hiding: at most what issues in the same loop, and in all."""
    by_region: dict[frozenset[int], float] = defaultdict(float)
    for index, amount in found.items():
        by_region[blamed.loop_of(index)] += amount
    everything = frozenset(range(len(blamed.code)))
    active = sum(blamed.issued.values())
    part = sum(
        min(sum(blamed.issued.get(i, 0.0) for i in region or everything), amount)
        for region, amount in by_region.items()
    )
    return min(active, part)


def slow_math(blamed: Blamed) -> Found:
    """Exact division, square roots and functions; the whole of a function that is such a one."""
    if _SLOW_MATH.search(blamed.function.name):
        return {i: blamed.samples(i) for i in range(len(blamed.code))}
    chosen = {
        index
        for index, i in enumerate(blamed.code)
        if _SLOW_OPCODES.match(i.text.split()[0]) or _SLOW_MATH.search(i.calls)
    }
    return {i: blamed.by_source.get(i, 0.0) for i in chosen}


def expensive_arithmetic(blamed: Blamed) -> Found:
    """Double precision, conversions and wide products that others wait for."""
    return {
        index: blamed.by_source.get(index, 0.0)
        for index, instruction in enumerate(blamed.code)
        if _EXPENSIVE.match(_bare(instruction))
    }


def _bare(instruction: Instruction) -> str:
    """Opcode with modifiers, without the guard."""
    words = instruction.text.split()
    return words[1] if words[0].startswith("@") and len(words) > 1 else words[0]


def calls(blamed: Blamed) -> Found:
    """Calls and returns with what waits for them, and fetches at their targets."""
    found: Found = {}
    for index, instruction in enumerate(blamed.code):
        if instruction.opcode in ("CALL", "RET", "s_swappc_b64", "s_setpc_b64"):
            own = sum(blamed.stalls.get(index, {}).values())
            others = sum(
                s.amount for s in blamed.shares if s.source == index and s.use != index
            )  # fmt: skip
            found[index] = own + others
            if index + 1 < len(blamed.code):  # what runs when the call returns
                fetch = blamed.stalls.get(index + 1, {})
                found[index] += fetch.get("IFET", 0.0) + fetch.get("no_instruction", 0.0)
    return found


def narrow_loads(blamed: Blamed) -> Found:
    """Loads of neighbouring bytes from one base register: one wide load does the same."""
    groups: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    version: dict[str, int] = defaultdict(int)
    for index, instruction in enumerate(blamed.code):
        address = _ADDRESS.search(instruction.text)
        width = _width(instruction)
        if _GLOBAL_LOADS.match(instruction.opcode) and address and width < _WIDEST:
            key = (address["base"], version[address["base"]], width)
            groups[key].append((int(address["offset"] or "0", 16), index))
        for register in instruction.defines:
            version[register] += 1
        if instruction.target is not None:  # another block: another time
            for register in [*version]:
                version[register] += 1
    found: Found = {}
    for (_, _, width), places in groups.items():
        for run in _neighbours(sorted(places), width):
            merged = min(len(run), _WIDEST // width)
            for _, index in run:
                found[index] = blamed.by_source.get(index, 0.0) * (1 - 1 / merged)
    return found


def _neighbours(places: list[tuple[int, int]], width: int) -> Iterator[list[tuple[int, int]]]:
    run = places[:1]
    for place in places[1:]:
        if place[0] != run[-1][0] + width:
            if len(run) > 1:
                yield run
            run = []
        run.append(place)
    if len(run) > 1:
        yield run


def _width(instruction: Instruction) -> int:
    for modifier, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if modifier in instruction.modifiers:
            return size
    return 4


def invariant_loads(blamed: Blamed) -> Found:
    """Loads in a loop whose address does not change there: keep the value, or share it."""
    found: Found = {}
    for index, instruction in enumerate(blamed.code):
        if not _GLOBAL_LOADS.match(instruction.opcode) or not instruction.uses:
            continue
        loop = blamed.loop_of(index)
        if not loop:
            continue
        written = frozenset().union(*(blamed.code[i].defines for i in loop if i != index))
        stored = any(blamed.code[i].opcode.startswith(("ST", "RED", "ATOM", "global_store"))
                     for i in loop)  # fmt: skip
        address = instruction.uses - {"exec", instruction.guard}
        if not (address & written) and not (address & instruction.defines) and not stored:
            found[index] = blamed.by_source.get(index, 0.0)
    return found


def staged_copies(blamed: Blamed) -> Found:
    """Global loads that only a store to shared memory waits for."""
    found: Found = defaultdict(float)
    for share in blamed.shares:
        use, source = blamed.code[share.use], blamed.code[share.source]
        stores = use.opcode == "STS" or use.opcode.startswith(("ds_write", "ds_store"))
        loads = _GLOBAL_LOADS.match(source.opcode)
        if stores and loads and share.reason in _WAITS_FOR_MEMORY and source.defines & use.uses:
            found[share.source] += share.amount
    return dict(found)


def divergent_branches(blamed: Blamed) -> Found:
    """If-else whose sides both run: at worst one after the other in the same warp."""
    found: Found = {}
    offsets = {instruction.offset: index for index, instruction in enumerate(blamed.code)}
    for index, instruction in enumerate(blamed.code):
        if not instruction.conditional or instruction.opcode not in ("BRA", "BRX"):
            continue
        after = [s for s in blamed.function.successors[index] if s != index + 1]
        if not after or after[0] <= index + 1:
            continue
        other = after[0]
        leaves = blamed.code[other - 1]
        ends = blamed.function.successors[other - 1]
        if leaves.opcode != "BRA" or leaves.conditional or not ends or ends[0] <= other:
            continue
        first = sum(blamed.samples(i) for i in range(index + 1, other))
        second = sum(blamed.samples(i) for i in range(other, ends[0]))
        found[offsets[instruction.offset]] = min(first, second)
    return found


PATTERNS = (
    Pattern("fast-math", "compute approximately where that is enough: fast math, reciprocals,"
            " intrinsics for division and functions", slow_math, "GPA: fast math"),
    Pattern("cheaper-arithmetic", "use cheaper arithmetic: single precision constants, no"
            " conversions, shifts and narrow products in addresses", expensive_arithmetic,
            "GPA: strength reduction"),
    Pattern("function-inlining", "inline the called functions, or call them outside of loops",
            calls, "GPA: function inlining"),
    Pattern("wide-loads", "load neighbouring values at once (float4, 128 bits a thread)",
            narrow_loads, "GPA: memory coalescing (stall elimination)"),
    Pattern("coalescing", "let neighbouring threads access neighbouring addresses: exchange the"
            " axes, transpose the data, or go through shared memory", uncoalesced,
            "GPA: memory coalescing (stall elimination of the sectors fetched in vain)"),
    Pattern("register-pressure", "stop spilling: smaller tiles, fewer values alive at once, or more"
            " registers a thread", spills, "GPA: register reuse (stall elimination)"),
    Pattern("loop-unrolling", "unroll the loop, so that several rounds are under way at once",
            loops_to_unroll, "GPA: loop unrolling (latency hiding within the loop)", hides=True),
    Pattern("code-reordering", "move independent instructions between a value and its first use"
            " (load earlier, use later)", code_to_reorder,
            "GPA: code reordering (latency hiding by independent instructions of the block)"),
    Pattern("shared-memory", "keep what is loaded again in each round: in a register, in shared"
            " memory, or hoisted out of the loop", invariant_loads, "GPA: shared memory use"),
    Pattern("async-copy", "copy from global to shared memory asynchronously (cp.async, TMA,"
            " buffer_load lds), a stage ahead", staged_copies, "GPA: asynchronous copy",
            hides=True),
    Pattern("divergence", "let whole warps take one side: sort the work, or compute both sides"
            " without a branch", divergent_branches, "GPA: warp divergence", Confidence.LOW),
)  # fmt: skip
