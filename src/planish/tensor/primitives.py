"""The transformations of a nest: each takes a nest and gives one that computes the same.

Loops are named `m/64` (the loop over m in steps of 64) and `m` (one by one). Every function
checks what it needs and raises UsageError; `verify` is run on every result as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planish.base.errors import UsageError, unknown
from planish.tensor.expr import Access, Axis, Tensor, with_indices
from planish.tensor.loops import (
    Block,
    Do,
    For,
    Nest,
    Node,
    plain_tree,
    stages_of,
    with_body,
)
from planish.tensor.program import Stage
from planish.tensor.surgery import (
    checked,
    exchange_node,
    is_private,
    loop_named,
    mark,
    path_to,
    stage_of,
    with_copy,
)


def split(nest: Nest, stage: str, axis: str, step: int) -> Nest:
    """Walk an axis in blocks; the last block is shorter where the length is no multiple.

    before          after `split C m 64`
      for m           for m by 64
        do C            for m
                          do C
    """
    return checked(_split(nest, stage, axis, step))


def _split(nest: Nest, stage: str, axis: str, step: int) -> Nest:
    path = path_to(nest, stage)
    own = [loop for loop in path if loop.axis == axis]
    if not own:
        raise unknown("axis", axis, list(dict.fromkeys(loop.axis for loop in path)))
    if step < 2:
        raise UsageError(f"a block of {step} is none", hint="split by 2 or more")
    if any(loop.step == step for loop in own):
        raise UsageError(f"{stage} has the loop {axis}/{step} already")
    inner = next(loop for loop in own if loop.step < step)
    kind = "parallel" if inner.kind == "parallel" else ""
    below = replace(inner, kind="") if kind else inner
    return exchange_node(nest, inner, (For(axis, step, kind, (below,)),), check=False)


def reorder(nest: Nest, stage: str, names: Sequence[str]) -> Nest:
    """Put loops that lie directly in one another into another order, outermost first.

    before          after `reorder C n m`
      for m           for n
        for n           for m
          do C            do C
    """
    return checked(_reorder(nest, stage, names))


def _reorder(nest: Nest, stage: str, names: Sequence[str]) -> Nest:
    path = path_to(nest, stage)
    chosen = [loop_named(path, stage, name) for name in names]
    if len(set(map(id, chosen))) != len(chosen):
        raise UsageError(f"reorder {stage}: a loop is named twice")
    places = sorted(path.index(loop) for loop in chosen)
    if not places:
        return nest
    chain = path[places[0] : places[-1] + 1]
    if len(chain) != len(chosen):
        missing = next(loop for loop in chain if loop not in chosen)
        raise UsageError(f"reorder {stage}: {missing.name} lies between and is not named")
    if any(len(loop.body) > 1 for loop in chain[:-1]):
        raise UsageError(f"reorder {stage}: other stages are computed between these loops")
    body = chain[-1].body
    for loop in reversed(chosen):
        body = (with_body(loop, body),)
    return exchange_node(nest, chain[0], body, check=False)


def unroll(nest: Nest, stage: str, name: str) -> Nest:
    """Write a loop out.

    before          after `unroll C m`
      for m           for m unroll
        do C            do C
    """
    return mark(nest, stage, name, "unroll")


def vectorise(nest: Nest, stage: str, axis: str) -> Nest:
    """Take the innermost loop in vector lanes; what is left at the end is masked.

    before          after `vectorise C n`
      for n           for n vector
        do C            do C
    """
    return mark(nest, stage, axis, "vector")


def parallel(nest: Nest, stage: str, name: str) -> Nest:
    """Share an outermost loop over an output axis among threads.

    before              after `parallel C m/64`
      for m by 64         for m by 64 parallel
        ..                  ..
    """
    return mark(nest, stage, name, "parallel")


def tile(nest: Nest, stage: str, sizes: Mapping[str, int], vector: str) -> Nest:
    """Compute a tile of outputs in registers: blocks outside, reductions, the tile inside.

    before              after `tile C m=8 n=48 vector n`
      for m               for m by 8
        for n               for n by 48
          for k               for k
            do C                for m unroll
                                  for n vector
                                    do C
    """
    found = stage_of(nest, stage)
    for axis, size in sizes.items():
        if axis not in found.axes:
            raise unknown("output axis", axis, list(found.axes))
        if size > 1 and found.extents[axis] > size:
            nest = _split(nest, stage, axis, size)
    path = path_to(nest, stage)
    inner = [loop_named(path, stage, axis) for axis in sizes if axis != vector]
    lanes = [loop_named(path, stage, vector)] if vector else []
    private = [loop for loop in path if is_private(loop)]
    outer = [
        loop
        for loop in private
        if loop not in inner and loop not in lanes and loop.axis not in found.bound
    ]
    sums = [loop for loop in private if loop.axis in found.bound and loop not in lanes]
    order = [loop.name for loop in (*outer, *sums, *inner, *lanes)]
    nest = _reorder(nest, stage, order)
    kinds = [(axis, "unroll") for axis in sizes if axis != vector]
    for axis, kind in [*kinds, (vector, "vector")] if vector else kinds:
        nest = mark(nest, stage, axis, kind, check=False)
    return checked(nest)


def pack(nest: Nest, stage: str, tensor: str, at: str, blocks: Sequence[Block]) -> Nest:
    """Copy what the loop `at` reads of a tensor into a block of memory of its own, in its order.

    before              after `pack C B at k/256 as n/48 k n`
      for k by 256        for k by 256
        for n by 48         for n by 48
          ..                  for k
            do C                for n vector
                                  do B_packed_C
                            for n by 48
                              ..
                                do C            (reads B_packed_C)
    Bytes may lie in fours, for machines that multiply them so: `as n/32 k/4 n k`.
    `at` is empty for all that is read, before everything. What is read through windows or strides
    (`x[2*h + r]`) is spread out: the copy has one dimension for each axis.
    """
    found = stage_of(nest, stage)
    reads = [a for a in found.reads if a.tensor.name == tensor]
    if not reads:
        raise unknown("operand", tensor, [a.tensor.name for a in found.reads])
    if len(set(reads)) > 1:
        raise UsageError(f"pack {stage} {tensor}: it is read in {len(set(reads))} ways")
    read = reads[0]
    axes = tuple(dict.fromkeys(axis for index in read.indices for axis in index.axes))
    if {b.axis for b in blocks} != set(axes):
        raise UsageError(f"pack {stage} {tensor}: the layout is to name the axes {list(axes)}")
    name = f"{tensor}_packed_{stage}"
    extents = {axis: found.extents[axis] for axis in axes}
    packed = Tensor(name, tuple(extents.values()), read.tensor.type)
    copied = Access(packed, tuple(Axis(axis).index for axis in axes))
    copy = Stage(name, copied, axes, (), "", read, None, extents)
    program = with_copy(nest.program, found, copy, read, copied)
    path = path_to(nest, stage)
    around = path[: path.index(loop_named(path, stage, at)) + 1] if at else ()
    node: Node = Do(name)
    order = list(reversed(blocks))
    quads = read.type.size == 1 and len(blocks) > 2 and Block(blocks[-1].axis, 4) in blocks[:-2]
    if quads and blocks[-1].step == blocks[-2].step == 1:
        # Bytes in fours: written four at a time, the next dimension in lanes.
        node = For(order[1].axis, 1, "vector", (node,))
        node = For(order[0].axis, 1, "unroll", (node,))
        order = order[2:]
    for place, block in enumerate(order):
        if any(loop.axis == block.axis and loop.step <= block.step for loop in around):
            continue  # walked by the loops around it already
        lanes = place == 0 and block.step == 1 and isinstance(node, Do)
        node = For(block.axis, block.step, "vector" if lanes else "", (node,))
    layouts = (*nest.layouts, (name, tuple(blocks)))
    nest = Nest(program, nest.body, layouts, nest.prefetch)
    if not at:
        return checked(replace(nest, body=(node, *nest.body)))
    loop = loop_named(path_to(nest, stage), stage, at)
    return exchange_node(nest, loop, (with_body(loop, (node, *loop.body)),))


def prefetch(nest: Nest, stage: str, tensor: str) -> Nest:
    """Touch memory ahead of its use; changes no value.

    Of the stage's output: before a kernel computes. Of an operand that is read in vectors: some
    iterations of the reduction ahead.
    """
    found = stage_of(nest, stage)
    names = [found.out.tensor.name, *(a.tensor.name for a in found.reads)]
    if tensor not in names:
        raise unknown(f"tensor of {stage}", tensor, names)
    return replace(nest, prefetch=nest.prefetch | {(stage, tensor)})


def fuse(nest: Nest, producer: str, consumer: str, at: str) -> Nest:
    """Compute a stage inside the consumer's loop `at`, just before it is used there.

    The producer's outer loops must be those of the consumer down to `at`; it keeps the others.
    Stages that were fused with the producer at `at` before come along.

    before          after `fuse S Y m`
      for m           for m
        for n           for n
          do S            do S
      for m             for n
        for n             do Y
          do Y
    """
    target = path_to(nest, consumer)
    stop = target.index(loop_named(target, consumer, at))
    source = path_to(nest, producer)
    if stop >= len(source):
        raise UsageError(f"fuse {producer} {consumer}: {producer} has too few loops")
    for mine, theirs in zip(source[: stop + 1], target[: stop + 1], strict=True):
        if mine is not theirs and (mine.axis, mine.step) != (theirs.axis, theirs.step):
            raise UsageError(
                f"fuse {producer} {consumer}: {producer} has the loop {mine.name} where "
                f"{consumer} has {theirs.name}",
                hint="reorder or split one of them first",
            )
    shared = next((d for d in range(stop + 1) if source[d] is not target[d]), None)
    if shared is None:
        raise UsageError(f"{producer} and {consumer} share {at} already")
    for loop in source[shared:stop]:
        if len(loop.body) != 1:
            raise UsageError(f"fuse {producer} {consumer}: {loop.name} holds other stages as well")
    moved = source[stop].body
    without = exchange_node(nest, source[shared], (), check=False)
    loop = target[stop]
    # The subtree that holds the consumer stands behind what is moved in.
    position = next(at for at, node in enumerate(loop.body) if consumer in stages_of(node))
    body = (*loop.body[:position], *moved, *loop.body[position:])
    return exchange_node(without, loop, (with_body(loop, body),))


def split_reduction(nest: Nest, stage: str, axis: str, parts: int) -> Nest:
    """Sum up in parts that are then joined: more independent work, another order of operations.

    `split_reduction C k 4` makes a stage C_parts with the axis k_part, and C joins its results.
    Reassociates; the length must be a multiple of the parts. It has to come first.
    """
    found = stage_of(nest, stage)
    if axis not in found.bound:
        raise unknown("reduction axis", axis, list(found.bound))
    length = found.extents[axis]
    if parts < 2 or length % parts:
        raise UsageError(f"{axis} has the length {length}, which is no multiple of {parts} parts")
    if any(loop.step != 1 or loop.kind for loop in path_to(nest, stage)):
        raise UsageError(f"split_reduction {stage}: it has to come before other steps")
    outer, size = f"{axis}_part", length // parts
    moved = Axis(outer).index * size + Axis(axis).index
    tensors = Tensor(
        f"{stage}_parts", (*(found.extents[a] for a in found.axes), parts), found.body.type
    )
    body = with_indices(found.body, {axis: moved})
    inner_out = Access(tensors, tuple(Axis(a).index for a in (*found.axes, outer)))
    inner = Stage(
        f"{stage}_parts", inner_out, (*found.axes, outer), found.bound, found.reduce, body, None,
        {**found.extents, outer: parts, axis: size}, found.modulo,
    )  # fmt: skip
    rest = {a: found.extents[a] for a in found.axes}
    final = replace(found, bound=(outer,), body=inner_out, extents={**rest, outer: parts})
    others = [s.extents.get(axis, size) for s in nest.program.stages if s.name != stage]
    if any(n != size for n in others):
        raise UsageError(f"split_reduction {stage}: other stages use the axis {axis}, too")
    stages: list[Stage] = []
    for old in nest.program.stages:
        stages += [inner, final] if old.name == stage else [old]
    program = replace(nest.program, stages=tuple(stages))
    trees = [plain_tree(made) for made in (inner, final)]
    top = path_to(nest, stage)
    first: Node = top[0] if top else Do(stage)
    return exchange_node(replace(nest, program=program), first, trees)
