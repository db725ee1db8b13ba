"""Who is to blame for a stall: def-use slicing through registers, predicates, barriers, counters.

GPA's rules (arXiv 2009.04061, section 4): the instruction that stalls waits for the ones that
define what it reads, along all paths of the control flow. Of these the impossible ones are
pruned, and the stalls are shared among the others by inverse distance and by how often they
issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planish.gpu.sass import Function, Instruction

_FARTHEST = 2000  # instructions looked back along one path
# Names of HPCToolkit, of Nsight Compute, and of rocprofiler's samples
MEMORY_REASONS = frozenset({
    "GMEM", "LMEM", "CMEM", "TMEM", "long_scoreboard", "lg_throttle", "WAITCNT",
})  # fmt: skip
EXECUTION_REASONS = frozenset({
    "IDEP", "wait", "short_scoreboard", "math_pipe_throttle", "ALU_DEPENDENCY",
})  # fmt: skip
# A stall at the instruction itself: nothing that it reads is late.
OWN_REASONS = frozenset({
    "PIPE", "MTHR", "IFET", "SYNC", "NSEL", "OTHR", "no_instruction", "BARRIER_WAIT",
    "NO_INSTRUCTION_AVAILABLE", "ARBITER_NOT_WIN", "ARBITER_WIN_EX_STALL", "INTERNAL_INSTRUCTION",
    "SLEEP_WAIT",
})  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A definition that reaches a use, `distance` instructions before it on the shortest path."""

    index: int
    register: str
    distance: int


@dataclass(frozen=True)
class Share:
    """`amount` of the stalls of instruction `use` with this reason, blamed on `source`."""

    use: int
    source: int
    reason: str
    amount: float


def reaching(function: Function, use: int) -> list[Source]:
    """For each register that `use` reads, the nearest definitions on every path before it.

    A definition under a predicate may not happen: the search goes on behind it.
    """
    before = function.predecessors()
    found: dict[tuple[int, str], int] = {}
    for register in sorted(function.code[use].uses):
        seen: set[int] = set()
        front = list(before[use])
        for distance in range(1, _FARTHEST):
            if not front:
                break
            following: list[int] = []
            for index in front:
                if index in seen:
                    continue
                seen.add(index)
                instruction = function.code[index]
                if register in instruction.defines:
                    found.setdefault((index, register), distance)
                    if not instruction.conditional:
                        continue
                following += before[index]
            front = following
    return [Source(index, register, distance) for (index, register), distance in found.items()]


def awaited(function: Function, use: int) -> list[Source]:
    """What an instruction waits for through counters, on every path before it.

    Instructions that a counter counts come back in order, so that a wait for `n` waits for all
    but the last n. An earlier wait for m has left at most m of those before it under way.
    """
    before = function.predecessors()
    found: dict[tuple[int, str], int] = {}
    for counter, left in function.code[use].waits:
        # (instruction, skipped so far, how many more can be under way): by breadth, nearest first
        front = [(index, left, _MANY) for index in before[use]]
        seen: dict[int, tuple[int, int]] = {}
        for distance in range(1, _FARTHEST):
            following: list[tuple[int, int, int]] = []
            for index, skip, more in front:
                if index in seen and seen[index][0] <= skip and seen[index][1] >= more:
                    continue
                seen[index] = (skip, more)
                instruction = function.code[index]
                for name, allowed in instruction.waits:
                    if name == counter:
                        more = min(more, allowed)
                if counter in instruction.raises:
                    if not skip:
                        found.setdefault((index, counter), distance)
                    skip, more = max(0, skip - 1), more - 1
                if more > 0:
                    following += [(other, skip, more) for other in before[index]]
            if not following:
                break
            front = following
    return [Source(index, counter, distance) for (index, counter), distance in found.items()]


_MANY = 1 << 16


def possible(function: Function, use: int, source: Source, reason: str) -> bool:
    """GPA's pruning: by opcode, by barrier, by latency."""
    consumer, producer = function.code[use], function.code[source.index]
    if consumer.waits and source.register in producer.raises:
        return True
    if reason in MEMORY_REASONS and not producer.is_memory:
        return False
    if reason in EXECUTION_REASONS and producer.is_memory and producer.opcode not in _SHARED:
        return False
    if producer.variable_latency and consumer.control.wait:
        # an earlier consumer has waited already, or this one waits for another barrier
        return producer.control.write_barrier in consumer.control.wait
    return _cycles(function, source, use) <= producer.latency


_SHARED = frozenset({"LDS", "LDSM", "ATOMS", "LDC", "ULDC"})


def _cycles(function: Function, source: Source, use: int) -> int:
    """A lower bound of the cycles between them: the stall counts of straight code, else 1 each."""
    if source.index < use and use - source.index == source.distance:
        part = function.code[source.index : use]
        return sum(max(1, instruction.control.stall) for instruction in part)
    return source.distance


def blame_stalls(
    function: Function,
    stalls: Mapping[int, Mapping[str, float]],
    issued: Mapping[int, float] | None = None,
) -> list[Share]:
    """Share every stall among its sources; what has none stays with the instruction itself.

    stalls  index of an instruction, to reason, to samples
    issued  index to samples in which it issued (1 where nothing is known)
    The amounts sum to the stalls.
    """
    shares: list[Share] = []
    counts = issued or {}
    for use, reasons in sorted(stalls.items()):
        sources = None
        for reason, amount in sorted(reasons.items()):
            if amount <= 0:
                continue
            if reason in OWN_REASONS:
                shares.append(Share(use, use, reason, amount))
                continue
            if sources is None:
                sources = awaited(function, use) or reaching(function, use)
            shares += _share(function, use, reason, amount, sources, counts)
    return shares


def _share(
    function: Function, use: int, reason: str, amount: float, sources: list[Source],
    issued: Mapping[int, float],
) -> list[Share]:  # fmt: skip
    weights: dict[int, float] = {}
    for source in sources:
        if possible(function, use, source, reason):
            weight = max(issued.get(source.index, 1.0), 1.0) / source.distance
            weights[source.index] = max(weights.get(source.index, 0.0), weight)
    if not weights:
        return [Share(use, use, reason, amount)]
    whole = sum(weights.values())
    return [Share(use, index, reason, amount * w / whole) for index, w in sorted(weights.items())]


def loops(function: Function) -> list[frozenset[int]]:
    """Natural loops, innermost (smallest) first: the body of each back edge."""
    before = function.predecessors()
    found: dict[int, set[int]] = {}
    for index, after in enumerate(function.successors):
        for header in after:
            if header > index:
                continue
            body = {header, index}
            todo = [index] if index != header else []
            while todo:
                for other in before[todo.pop()]:
                    if other not in body and other >= header:
                        body.add(other)
                        todo.append(other)
            found.setdefault(header, set()).update(body)
    return sorted((frozenset(body) for body in found.values()), key=len)


def by_line(function: Function, shares: list[Share]) -> dict[str, float]:
    """Blamed stalls by source line (by offset where no line is known), the most first."""
    sums: dict[str, float] = {}
    for share in shares:
        name = line_of(function.code[share.source])
        sums[name] = sums.get(name, 0.0) + share.amount
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def line_of(instruction: Instruction) -> str:
    """`file:line`, or the offset."""
    if instruction.file:
        return f"{instruction.file.rsplit('/', 1)[-1]}:{instruction.line}"
    return f"+{instruction.offset:#x}"
