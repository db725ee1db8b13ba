"""Control flow: natural loops, and an order in which unrolled blocks can be met.

Every loop is contracted to one node of the loop around it, so that each level is free of cycles
and has a topological order. A visit of a block is then ordered by its places from the outside in,
with the number of the round at each loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from planish.verify.ir import Function, Unsupported


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header and all its blocks."""

    header: int
    body: frozenset[int]


@dataclass(frozen=True)
class Shape:
    """A function's control flow.

    loops   by block, the loops around it from the outside in
    places  by block, its place at each level: one for each loop around it and one within
    """

    successors: tuple[tuple[int, ...], ...]
    loops: tuple[tuple[Loop, ...], ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def has_loops(self) -> bool:
        return any(self.loops)


def shape_of(function: Function) -> Shape:
    """Find the loops and the order; raises Unsupported for irreducible control flow."""
    successors = tuple(block.instructions[-1].targets for block in function.blocks)
    order = _reverse_postorder(successors)
    dominators = _dominators(successors, order)
    bodies: dict[int, set[int]] = {}
    predecessors = _predecessors(successors, order)
    rank = {block: at for at, block in enumerate(order)}
    for block in order:
        for following in successors[block]:
            if rank[following] > rank[block]:
                continue
            if following not in dominators[block]:
                raise Unsupported("irreducible control flow")
            bodies.setdefault(following, {following}).update(
                _reaching(block, following, predecessors)
            )
    loops = [Loop(header, frozenset(body)) for header, body in bodies.items()]
    loops.sort(key=lambda loop: -len(loop.body))
    around = tuple(
        tuple(loop for loop in loops if block in loop.body) for block in range(len(successors))
    )
    places: list[list[int]] = [[] for _ in successors]
    _place(order, successors, around, 0, None, places)
    return Shape(successors, around, tuple(map(tuple, places)))


def _reverse_postorder(successors: tuple[tuple[int, ...], ...]) -> list[int]:
    seen, order = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, following = stack[-1]
        step = next((s for s in following if s not in seen), None)
        if step is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(successors[step])))
    return order[::-1]


def _predecessors(
    successors: tuple[tuple[int, ...], ...], order: list[int]
) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for following in successors[block]:
            found[following].append(block)
    return found


def _dominators(successors: tuple[tuple[int, ...], ...], order: list[int]) -> dict[int, set[int]]:
    predecessors = _predecessors(successors, order)
    found = {block: set(order) for block in order}
    found[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new = set.intersection(*(found[p] for p in predecessors[block])) | {block}
            if new != found[block]:
                found[block], changed = new, True
    return found


def _reaching(block: int, header: int, predecessors: dict[int, list[int]]) -> set[int]:
    """The blocks from which `block` is reached without passing the header."""
    found, stack = {block}, [block]
    while stack:
        now = stack.pop()
        if now == header:
            continue
        for before in predecessors[now]:
            if before not in found:
                found.add(before)
                stack.append(before)
    return found


def _place(
    blocks: list[int],
    successors: tuple[tuple[int, ...], ...],
    around: tuple[tuple[Loop, ...], ...],
    depth: int,
    loop: Loop | None,
    places: list[list[int]],
) -> None:
    """Give the blocks of one level their places; a loop within has one for all its blocks."""

    def node(block: int) -> int:
        return around[block][depth].header if len(around[block]) > depth else block

    members: dict[int, list[int]] = {}
    for block in blocks:
        members.setdefault(node(block), []).append(block)
    edges: dict[int, set[int]] = {name: set() for name in members}
    for block in blocks:
        for following in successors[block]:
            back = loop is not None and following == loop.header
            if not back and _belongs(following, blocks) and node(following) != node(block):
                edges[node(block)].add(node(following))
    for at, name in enumerate(_topological(list(members), edges)):
        for block in members[name]:
            places[block].append(at)
        inner = [block for block in members[name] if len(around[block]) > depth]
        if inner:
            _place(inner, successors, around, depth + 1, around[inner[0]][depth], places)


def _belongs(block: int, blocks: list[int]) -> bool:
    """Whether a block belongs to the level."""
    return block in blocks


def _topological(nodes: list[int], edges: dict[int, set[int]]) -> list[int]:
    waiting = dict.fromkeys(nodes, 0)
    for targets in edges.values():
        for node in targets:
            waiting[node] += 1
    ready = [node for node in nodes if waiting[node] == 0]
    found = []
    while ready:
        node = ready.pop(0)
        found.append(node)
        for following in sorted(edges[node]):
            waiting[following] -= 1
            if waiting[following] == 0:
                ready.append(following)
    assert len(found) == len(nodes), "a level has a cycle"
    return found
