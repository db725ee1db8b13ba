"""Loops around straight-line kernels: what each trip would compute anew is computed before them.

Constants, elements that stand for a whole row and what follows from them (the square root and the
quotient of a layernorm) move in front of the loop, for as long as there are registers. What costs
most goes first; the rest stays where it is and is read from memory.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from planish.codegen import vir

# Operations whose result depends on their sources alone.
_PURE = frozenset((
    "add", "sub", "mul", "div", "mod", "min", "max", "and", "or", "xor", "shl", "sra", "srl",
    "fma", "fnma", "neg", "abs", "sqrt", "round", "floor", "lanes", "cmpsel", "cvt", "bitcast",
    "mov", "narrow", "const",
))  # fmt: skip
_READS = frozenset(("load", "bcast"))
_SLOW = frozenset(("div", "sqrt", "mod"))
# Registers that single instructions borrow for a moment, beyond the results that they hold.
_BORROWED = 2


def looped(body: vir.Body, trips: int, moves: Sequence[tuple[int, int]], room: int) -> vir.Body:
    """So many trips of a body without loops, pointers moving by bytes after each.

    room  vector registers of the target
    """
    items = [ins for run in body.runs if isinstance(run, list) for ins in run]
    fixed = _fixed(items, {pointer for pointer, _ in moves})
    uses: dict[int, int] = {}
    for ins in items:
        if ins.dst not in fixed:
            for source in ins.src:
                if source in fixed:
                    uses[fixed[source]] = uses.get(fixed[source], 0) + 1
    by_number = {ins.dst: ins for ins in items if ins.dst in fixed}
    wanted = sorted(uses, key=lambda value: _rank(by_number[value], uses[value]))
    count = len(wanted)
    while True:
        chosen = {value: body.registers + at for at, value in enumerate(wanted[:count])}
        inside = _inside(items, fixed, chosen)
        before, registers = _before(items, fixed, chosen, body.registers + count)
        stay = set(chosen.values())
        beyond = max(_pressure(inside) + count, _pressure(before, stay)) + _BORROWED - room
        if not count or beyond <= 0:
            break
        count -= min(count, beyond)
    loop = vir.Loop(tuple(moves), [vir.Segment(trips, [inside])])
    return vir.Body(body.lanes, [before, loop] if before else [loop], registers)


def _fixed(items: Sequence[vir.Ins], moving: set[int]) -> dict[int, int]:
    """Registers that are the same in each trip, each with the first one that has its value."""
    written = {ins.ptr for ins in items if ins.op in ("store", "stores")}
    defined: dict[int, int] = {}
    for ins in items:
        defined[ins.dst] = defined.get(ins.dst, 0) + 1
    fixed: dict[int, int] = {}
    numbers: dict[object, int] = {}
    for ins in items:
        reads = ins.op in _READS and ins.ptr not in moving and ins.ptr not in written
        if not (reads or ins.op in _PURE) or defined[ins.dst] > 1:
            continue
        if any(source not in fixed for source in ins.src):
            continue
        sources = tuple([fixed[source] for source in ins.src])
        # 0 and -0.0 are equal, and not the same constant.
        key = (ins.op, ins.type, sources, ins.ptr, ins.disp, ins.n, repr(ins.imm))
        fixed[ins.dst] = numbers.setdefault(key, ins.dst)
    return fixed


def _rank(ins: vir.Ins, uses: int) -> tuple[int, int]:
    """Slow ones first, then other arithmetic, then what is read most often."""
    if ins.op in _SLOW:
        return 0, -uses
    return (2, -uses) if ins.op == "const" or ins.op in _READS else (1, -uses)


def _inside(
    items: Sequence[vir.Ins], fixed: dict[int, int], chosen: dict[int, int]
) -> list[vir.Ins]:
    """The body of the loop: without what is computed before it."""
    needed: set[int] = set()
    kept: list[vir.Ins] = []
    for ins in reversed(items):
        if ins.dst in fixed and ins.dst not in needed:
            continue
        sources = []
        for source in ins.src:
            taken = chosen.get(fixed.get(source, source))
            if taken is None and source in fixed:
                # Each use keeps a constant of its own, which its instruction reads from memory.
                needed.add(source)
            sources.append(source if taken is None else taken)
        kept.append(ins if tuple(sources) == ins.src else ins._replace(src=tuple(sources)))
    kept.reverse()
    return kept


def _before(
    items: Sequence[vir.Ins], fixed: dict[int, int], chosen: dict[int, int], registers: int
) -> tuple[list[vir.Ins], int]:
    """What computes the chosen values, and how many registers there are then.

    Results of several instructions come first, as long as the others' registers are free.
    """
    simple = {ins.dst for ins in items if ins.dst in chosen and not ins.src}
    needed = set(chosen) - simple
    kept = []
    for ins in reversed(items):
        if ins.dst in needed:
            needed.update([fixed[source] for source in ins.src])
            kept.append(ins)
    kept.reverse()
    kept += [ins for ins in items if ins.dst in simple and ins.dst not in needed]
    names = dict(chosen)
    found = []
    for ins in kept:
        if ins.dst not in names:
            names[ins.dst] = registers
            registers += 1
        sources = tuple([names[fixed[source]] for source in ins.src])
        found.append(ins._replace(dst=names[ins.dst], src=sources))
    return found, registers


def _pressure(items: Sequence[vir.Ins], stay: Set[int] = frozenset()) -> int:
    """The most values alive at once, of those computed here; `stay` are needed to the end."""
    last: dict[int, int] = {}
    for at, ins in enumerate(items):
        for source in ins.src:
            last[source] = at
    own = {ins.dst for ins in items if ins.dst >= 0} - stay
    alive: set[int] = set()
    most = 0
    for at, ins in enumerate(items):
        if ins.dst >= 0:
            alive.add(ins.dst)
        most = max(most, len(alive))
        alive.difference_update([s for s in ins.src if s in own and last[s] == at])
    return most
