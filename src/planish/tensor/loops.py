"""The loop tree: loops, and leaves that run a stage at one point.

`for m by 64` walks the range that `m` has at that place, 64 at a time; inside, the range of `m`
is those 64 (or what is left, at the end). `for m` walks it one by one. So a split with its tail
is two loops over one axis, and the text says everything:

    for m by 8
      for n by 48
        for k
          for m unroll
            for n vector
              do C
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from planish.base.errors import UsageError
from planish.tensor.program import Program, Stage

KINDS = ("", "unroll", "vector", "parallel")


@dataclass(frozen=True)
class Do:
    """A leaf: run the stage at the point that the loops around it have reached."""

    stage: str


@dataclass(frozen=True)
class For:
    """A loop over an axis' range at this place, `step` at a time.

    kind  "" serial; "unroll" written out; "vector" in lanes; "parallel" among threads
    """

    axis: str
    step: int
    kind: str
    body: tuple[Node, ...]

    @property
    def name(self) -> str:
        """How schedules call it: `m/64`, or `m` at step 1."""
        return self.axis if self.step == 1 else f"{self.axis}/{self.step}"

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages that run inside, in order."""
        return tuple(name for node in self.body for name in stages_of(node))


Node = For | Do


@dataclass(frozen=True)
class Block:
    """One dimension of a temporary's layout: an axis of its stage, in blocks of `step`."""

    axis: str
    step: int

    def __str__(self) -> str:
        return self.axis if self.step == 1 else f"{self.axis}/{self.step}"


@dataclass(frozen=True)
class Nest:
    """A program and the order in which its points are visited.

    layouts   how temporaries lie in memory, outermost first; row-major where nothing is said
    prefetch  (stage, tensor): touch what the stage will update before it computes
    """

    program: Program
    body: tuple[Node, ...]
    layouts: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    prefetch: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    def layout(self, tensor: str) -> tuple[Block, ...] | None:
        """The layout given to a temporary."""
        return dict(self.layouts).get(tensor)

    def __str__(self) -> str:
        return print_nest(self)


def plain(program: Program) -> Nest:
    """The nest with one loop an axis, outputs outside, reductions inside; no two stages share."""
    return Nest(program, tuple(map(plain_tree, program.stages)))


def plain_tree(stage: Stage) -> Node:
    """One loop an axis around the stage."""
    node: Node = Do(stage.name)
    for axis in reversed(stage.all_axes):
        node = For(axis, 1, "", (node,))
    return node


def leaves(
    nodes: Sequence[Node], path: tuple[For, ...] = ()
) -> Iterator[tuple[str, tuple[For, ...]]]:
    """Every leaf's stage with the loops around it, outermost first."""
    for node in nodes:
        if isinstance(node, Do):
            yield node.stage, path
        else:
            yield from leaves(node.body, (*path, node))


def stages_of(node: Node) -> tuple[str, ...]:
    """The stages that run at or below a node, in order."""
    return (node.stage,) if isinstance(node, Do) else node.stages


def path_of(nest: Nest, stage: str) -> tuple[For, ...]:
    """The loops around a stage, outermost first."""
    return next(path for name, path in leaves(nest.body) if name == stage)


def print_nest(nest: Nest) -> str:
    """The canonical text."""
    lines = [f"store {tensor} as {' '.join(map(str, blocks))}" for tensor, blocks in nest.layouts]
    lines += [f"prefetch {tensor} in {stage}" for stage, tensor in sorted(nest.prefetch)]

    def show(nodes: Sequence[Node], depth: int) -> None:
        for node in nodes:
            if isinstance(node, Do):
                lines.append("  " * depth + f"do {node.stage}")
                continue
            step = f" by {node.step}" if node.step != 1 else ""
            kind = f" {node.kind}" if node.kind else ""
            lines.append("  " * depth + f"for {node.axis}{step}{kind}")
            show(node.body, depth + 1)

    show(nest.body, 0)
    return "\n".join(lines)


_LOOP = re.compile(r"for (\w+)(?: by (\d+))?(?: (unroll|vector|parallel))?")


def parse_nest(text: str, program: Program) -> Nest:
    """Read the canonical text of a nest of this program; refuses what `verify` refuses."""
    rows: list[tuple[int, str]] = []
    layouts: list[tuple[str, tuple[Block, ...]]] = []
    prefetch = set()
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if match := re.fullmatch(r"store (\S+) as (.+)", words):
            layouts.append((match[1], tuple(parse_block(w) for w in match[2].split())))
        elif match := re.fullmatch(r"prefetch (\S+) in (\S+)", words):
            prefetch.add((match[2], match[1]))
        else:
            indent = len(line) - len(line.lstrip())
            if indent % 2:
                raise UsageError(f"'{line}' is indented by {indent}", hint="indent by two spaces")
            rows.append((indent // 2, words))
    body, rest = _parse_nodes(rows, 0)
    if rest:
        raise UsageError(f"'{rest[0][1]}' is indented too deep")
    nest = Nest(program, body, tuple(layouts), frozenset(prefetch))
    verify(nest)
    return nest


def parse_block(word: str) -> Block:
    """`m/8` or `m`."""
    match = re.fullmatch(r"(\w+)(?:/([1-9]\d*))?", word)
    if match is None:
        raise UsageError(f"'{word}' is no loop", hint="write m or m/8")
    return Block(match[1], int(match[2] or 1))


def _parse_nodes(
    rows: list[tuple[int, str]], depth: int
) -> tuple[tuple[Node, ...], list[tuple[int, str]]]:
    nodes: list[Node] = []
    while rows and rows[0][0] == depth:
        words = rows[0][1]
        rows = rows[1:]
        if match := re.fullmatch(r"do (\S+)", words):
            nodes.append(Do(match[1]))
            continue
        loop = _LOOP.fullmatch(words)
        if loop is None:
            raise UsageError(
                f"cannot read '{words}'", hint="write: for m by 64 unroll|vector|parallel, or do C"
            )
        body, rows = _parse_nodes(rows, depth + 1)
        nodes.append(For(loop[1], int(loop[2] or 1), loop[3] or "", body))
    return tuple(nodes), rows


def verify(nest: Nest) -> None:
    """Refuse (UsageError) a nest that does not compute its program.

    Every stage has one leaf, after those it reads; its loops come down to single points; loops
    that it shares with a stage it reads from walk the same part of what is read.
    """
    program = nest.program
    every = list(leaves(nest.body))
    paths = dict(every)
    order = [name for name, _ in every]
    known = {stage.name for stage in program.stages}
    for name in order:
        if name not in known:
            raise UsageError(f"the nest runs '{name}', which the program does not have")
    for stage in program.stages:
        if order.count(stage.name) != 1:
            raise UsageError(
                f"the nest runs {stage.name} {order.count(stage.name)} times, not once"
            )
        _verify_loops(stage, paths[stage.name])
    for consumer in program.stages:
        for producer in program.stages:
            if producer.name != consumer.name and producer.out.tensor in consumer.tensors:
                _verify_order(producer, consumer, paths, order)


def _verify_loops(stage: Stage, path: tuple[For, ...]) -> None:
    for axis in stage.all_axes:
        own = [loop for loop in path if loop.axis == axis]
        steps = [loop.step for loop in own]
        if not steps or steps[-1] != 1 or any(a <= b for a, b in pairwise(steps)):
            raise UsageError(
                f"the loops of {stage.name} over {axis} have the steps {steps}",
                hint="they must fall, outermost first, and end in 1",
            )
    vectors = [at for at, loop in enumerate(path) if loop.kind == "vector"]
    if len(vectors) > 1 or (vectors and (vectors[0] != len(path) - 1 or path[-1].step != 1)):
        raise UsageError(f"{stage.name}: a vector loop is innermost, alone, and has step 1")
    for loop in path[1:]:
        if loop.kind == "parallel":
            raise UsageError(f"{stage.name}: only an outermost loop is parallel")
    if path and path[0].kind == "parallel" and path[0].axis not in stage.axes:
        raise UsageError(
            f"{stage.name}: the parallel loop over {path[0].axis} is not of its output"
        )


def _verify_order(
    producer: Stage, consumer: Stage, paths: dict[str, tuple[For, ...]], order: list[str]
) -> None:
    """That what the consumer reads (or overwrites) of the producer's tensor is there by then."""
    tensor = producer.out.tensor
    reads = [access for access in consumer.reads if access.tensor == tensor]
    overwrites = consumer.out.tensor == tensor and order.index(consumer.name) > order.index(
        producer.name
    )
    if overwrites:
        reads = [consumer.out]
    if not reads:
        return
    if order.index(producer.name) > order.index(consumer.name):
        raise UsageError(f"{consumer.name} reads {tensor.name} before it is computed")
    for loop in shared_loops(paths[producer.name], paths[consumer.name]):
        if loop.axis in producer.bound or (loop.axis in consumer.bound and overwrites):
            raise UsageError(
                f"{consumer.name} reads {tensor.name} inside the loop {loop.name} that sums it up"
            )
        for read in reads:
            for dimension, index in enumerate(producer.out.indices):
                if loop.axis in index.axes and read.indices[dimension] != index:
                    raise UsageError(
                        f"{consumer.name} reads {read} in the loop {loop.name}, which computes "
                        f"{producer.out}",
                        hint="computing it at an outer place is always right",
                    )


def shared_loops(a: tuple[For, ...], b: tuple[For, ...]) -> tuple[For, ...]:
    """The loops around both leaves (the same loops, not equal ones)."""
    shared = []
    for left, right in zip(a, b, strict=False):
        if left is not right:
            break
        shared.append(left)
    return tuple(shared)


def with_body(loop: For, body: Sequence[Node]) -> For:
    """The loop around other nodes."""
    return For(loop.axis, loop.step, loop.kind, tuple(body))
