"""Where elements lie: bytes that a step along an axis moves, for arrays and temporaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from planish.base.errors import UsageError
from planish.tensor.expr import Access, Tensor
from planish.tensor.loops import Block, For, Nest, shared_loops


@dataclass(frozen=True)
class Place:
    """How a tensor lies in memory.

    strides  bytes for each dimension (arrays and plain temporaries)
    blocks   for a temporary with a layout: axis to its blocks and their bytes, largest first
    local    axes along which it is kept for the present range only: `shared` does not move it
    shared   for a temporary, the loops around all its uses
    size     bytes it takes in the workspace (0 for arguments)
    """

    strides: tuple[int, ...] = ()
    blocks: Mapping[str, tuple[tuple[int, int], ...]] | None = None
    local: frozenset[str] = field(default_factory=frozenset)
    shared: tuple[For, ...] = ()
    size: int = 0

    @property
    def parallel(self) -> For | None:
        """The parallel loop in one iteration of which a temporary is made and used up."""
        return self.shared[0] if self.shared and self.shared[0].kind == "parallel" else None

    def stays(self, loop: For) -> bool:
        """Whether the loop lies around all that happens to what is kept for one iteration."""
        return loop.axis in self.local and any(loop is around for around in self.shared)


def move(access: Access, place: Place, axis: str, count: int) -> int:
    """Bytes from an element to the one `count` further along the axis (from an aligned start)."""
    if place.blocks is None:
        step = 0
        for index, stride in zip(access.indices, place.strides, strict=True):
            for name, coefficient in index.terms:
                if name == axis:
                    step += coefficient * stride
        return count * step
    total, limit = 0, 0
    for step, stride in place.blocks.get(axis, ()):
        inside = count % limit if limit else count
        total += inside // step * stride
        limit = step
    return total


def start(access: Access, place: Place) -> int:
    """Bytes from the tensor's first element to the access at the origin of all axes."""
    if place.blocks is not None:
        return 0
    return sum(
        index.constant * stride for index, stride in zip(access.indices, place.strides, strict=True)
    )


def row_major(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides in bytes of a contiguous array."""
    found: list[int] = []
    for length in reversed(shape):
        found.append(size)
        size *= length
    return tuple(reversed(found))


def place_temporary(nest: Nest, tensor: Tensor, paths: Mapping[str, tuple[For, ...]]) -> Place:
    """The layout of a temporary: only as much of it is kept as the loops around all its uses need.

    paths  by stage, the loops around it
    Raises UsageError where a layout does not fit the loops.
    """
    users = nest.program.users(tensor)
    uses = [
        access for stage in users for access in (stage.out, *stage.reads) if access.tensor == tensor
    ]
    shared = paths[users[0].name]
    for stage in users[1:]:
        shared = shared_loops(shared, paths[stage.name])
    shape = list(tensor.shape)
    local: set[str] = set()
    for dimension in range(len(shape)):
        index = uses[0].indices[dimension]
        if (
            len(index.terms) != 1
            or index.constant
            or any(use.indices[dimension] != index for use in uses)
        ):
            continue
        axis, coefficient = index.terms[0]
        around = [loop.step for loop in shared if loop.axis == axis]
        if coefficient == 1 and around:
            shape[dimension] = min(shape[dimension], around[-1])
            local.add(axis)
    blocks = nest.layout(tensor.name)
    if blocks is None:
        strides = row_major(shape, tensor.type.size)
        size = prod(shape) * tensor.type.size
        return Place(strides, None, frozenset(local), shared, size)
    exact, size = _blocked(tensor, uses, shape, blocks)
    for stage in users:
        _check_steps(tensor, paths[stage.name], exact)
    return Place((), exact, frozenset(local), shared, size)


def _blocked(
    tensor: Tensor, uses: Sequence[Access], shape: Sequence[int], blocks: Sequence[Block]
) -> tuple[dict[str, tuple[tuple[int, int], ...]], int]:
    """By axis, its blocks and their bytes; and the bytes of all."""
    lengths: dict[str, int] = {}
    for dimension, index in enumerate(uses[0].indices):
        if (
            len(index.terms) != 1
            or index.terms[0][1] != 1
            or index.constant
            or any(use.indices[dimension] != index for use in uses)
        ):
            raise UsageError(f"{tensor.name} has a layout but is not read as it is written")
        lengths[index.axes[0]] = shape[dimension]
    steps = {axis: [b.step for b in blocks if b.axis == axis] for axis in lengths}
    for axis, own in steps.items():
        if own != sorted(own, reverse=True) or not own or own[-1] != 1:
            raise UsageError(f"the layout of {tensor.name} has the blocks {own} of {axis}")
        if any(a % b for a, b in pairwise(own)):
            raise UsageError(f"the layout of {tensor.name}: blocks of {axis} do not divide")
    if {b.axis for b in blocks} != set(lengths):
        raise UsageError(f"the layout of {tensor.name} names other axes than it has")
    found: dict[str, list[tuple[int, int]]] = {axis: [] for axis in lengths}
    stride = tensor.type.size
    for block in reversed(blocks):
        found[block.axis].insert(0, (block.step, stride))
        own = steps[block.axis]
        at = own.index(block.step)
        outer = own[at - 1] if at else lengths[block.axis]
        stride *= -(-outer // block.step)
    return {axis: tuple(pairs) for axis, pairs in found.items()}, stride


def _check_steps(
    tensor: Tensor, path: Sequence[For], blocks: Mapping[str, Sequence[tuple[int, int]]]
) -> None:
    for loop in path:
        for block, _ in blocks.get(loop.axis, ()):
            if loop.step % block and block % loop.step:
                raise UsageError(
                    f"{tensor.name} lies in blocks of {block} along {loop.axis}, and the loop "
                    f"{loop.name} steps across them"
                )
