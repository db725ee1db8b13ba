"""Calling contexts of GPU code, made of flat samples and the call instructions.

Profilers sample the program counter on a GPU, not the stack. HPCToolkit's reconstruction (Zhou,
Krentel, Mellor-Crummey, "Tools for top-down performance analysis of GPU-accelerated
applications", ICS 2020) is followed:

1. the static call graph has an edge for each call instruction, weighted by its samples;
2. where a function has samples and none of its call sites has, each site weighs one;
3. edges that then weigh nothing, and what only they reach, are pruned;
4. functions that call one another in a circle are one node;
5. the graph is split into a tree: what a function cost is shared among the sites that call it by
   their weight, as gprof does.

The tree's own samples sum to all samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.gpu.sass import Function

_LARGEST = 100_000  # nodes: call graphs split exponentially at worst


@dataclass(frozen=True)
class GpuContext:
    """A node: function (a circle's functions joined by commas) and the site that calls it.

    parent  number of the node above, -1 for kernels
    site    index of the calling instruction in the parent's function, -1 for kernels
    own     samples of the function in this context; `total` with what it calls
    """

    parent: int
    function: str
    caller: str
    site: int
    own: float
    total: float


def gpu_contexts(
    functions: Sequence[Function], samples: Mapping[str, Mapping[int, float]]
) -> list[GpuContext]:
    """The tree, parents first, of flat samples: function's name to instruction to samples."""
    by_name = {function.name: function for function in functions}
    own = {name: sum(samples.get(name, {}).values()) for name in by_name}
    edges = _edges(by_name, samples, own)
    circle = _circles(by_name, edges)
    weights: dict[str, float] = defaultdict(float)
    below: dict[str, list[tuple[str, int, str, float]]] = defaultdict(list)
    for (caller, site), (callee, weight) in sorted(edges.items()):
        if circle[caller] == circle[callee] or not weight:
            continue
        weights[circle[callee]] += weight
        below[circle[caller]].append((caller, site, circle[callee], weight))
    amounts: dict[str, float] = defaultdict(float)
    for name, amount in own.items():
        amounts[circle[name]] += amount
    nodes: list[GpuContext] = []

    def grow(parent: int, group: str, caller: str, site: int, share: float) -> float:
        number = len(nodes)
        nodes.append(GpuContext(parent, group, caller, site, amounts[group] * share, 0.0))
        total = nodes[number].own
        for where, at, callee, weight in below[group]:
            if len(nodes) < _LARGEST:
                total += grow(number, callee, where, at, share * weight / weights[callee])
        node = nodes[number]
        nodes[number] = GpuContext(parent, group, caller, site, node.own, total)
        return total

    for group in dict.fromkeys(circle[name] for name in by_name):
        if group not in weights and (amounts[group] or below[group]):
            grow(-1, group, "", -1, 1.0)
    return nodes


_Edges = dict[tuple[str, int], tuple[str, float]]


def _edges(
    by_name: Mapping[str, Function], samples: Mapping[str, Mapping[int, float]],
    own: Mapping[str, float],
) -> _Edges:  # fmt: skip
    """Call site to callee and weight. A callee that only calls others counts what they cost."""
    sites: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, function in by_name.items():
        for index, instruction in enumerate(function.code):
            if instruction.calls in by_name:
                sites[instruction.calls].append((name, index))
    active = {name for name, amount in own.items() if amount}
    grown = True
    while grown:  # a caller of something active is active itself
        callers = {where for callee in active for where, _ in sites[callee]} - active
        grown = bool(callers)
        active |= callers
    edges: _Edges = {}
    for callee, places in sites.items():
        counts = [samples.get(name, {}).get(index, 0.0) for name, index in places]
        if callee in active and not any(counts):
            counts = [1.0] * len(places)
        for place, count in zip(places, counts, strict=True):
            edges[place] = (callee, count if callee in active else 0.0)
    return edges


def _circles(by_name: Mapping[str, Function], edges: _Edges) -> dict[str, str]:
    """Function to the name of its strongly connected part (Tarjan, without recursion)."""
    after: dict[str, list[str]] = {name: [] for name in by_name}
    for (caller, _), (callee, weight) in sorted(edges.items()):
        if weight:
            after[caller].append(callee)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: dict[str, str] = {}
    for root in by_name:
        if root in order:
            continue
        work = [(root, 0)]
        while work:
            name, place = work.pop()
            if place == 0:
                order[name] = low[name] = len(order)
                stack.append(name)
            if place < len(after[name]):
                work.append((name, place + 1))
                callee = after[name][place]
                if callee not in order:
                    work.append((callee, 0))
                elif callee not in found:
                    low[name] = min(low[name], order[callee])
                continue
            for callee in after[name]:
                if callee not in found:
                    low[name] = min(low[name], low[callee])
            if low[name] == order[name]:
                members: list[str] = []
                while not members or members[-1] != name:
                    members.append(stack.pop())
                for member in members:
                    found[member] = ", ".join(sorted(members))
    return found
