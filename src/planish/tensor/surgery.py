"""Parts of nests found and exchanged: what the transformations share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planish.base.errors import unknown
from planish.tensor.expr import Access
from planish.tensor.loops import For, Nest, Node, parse_block, path_of, verify, with_body
from planish.tensor.program import Program, Stage, exchange


def stage_of(nest: Nest, name: str) -> Stage:
    """The stage of that name. Raises UsageError where there is none."""
    names = [stage.name for stage in nest.program.stages]
    if name not in names:
        raise unknown("stage", name, names)
    return nest.program.stage(name)


def path_to(nest: Nest, stage: str) -> tuple[For, ...]:
    """The loops around a stage, outermost first."""
    stage_of(nest, stage)
    return path_of(nest, stage)


def loop_named(path: Sequence[For], stage: str, name: str) -> For:
    """The loop of a path that is called so, such as `m/64`."""
    block = parse_block(name)
    for loop in path:
        if (loop.axis, loop.step) == (block.axis, block.step):
            return loop
    raise unknown(f"loop of {stage}", name, [loop.name for loop in path])


def is_private(loop: For) -> bool:
    """Whether only one stage lies inside."""
    return len(loop.stages) == 1


def mark(nest: Nest, stage: str, name: str, kind: str, *, check: bool = True) -> Nest:
    """The nest with a loop of another kind."""
    loop = loop_named(path_to(nest, stage), stage, name)
    return exchange_node(nest, loop, (For(loop.axis, loop.step, kind, loop.body),), check=check)


def exchange_node(nest: Nest, old: Node, new: Sequence[Node], *, check: bool = True) -> Nest:
    """The nest with one node exchanged for others."""

    def walk(nodes: Sequence[Node]) -> tuple[Node, ...]:
        found: list[Node] = []
        for node in nodes:
            if node is old:
                found.extend(new)
            elif isinstance(node, For):
                body = walk(node.body)
                same = len(body) == len(node.body) and all(
                    a is b for a, b in zip(body, node.body, strict=True)
                )
                if body:
                    found.append(node if same else with_body(node, body))
            else:
                found.append(node)
        return tuple(found)

    changed = Nest(nest.program, walk(nest.body), nest.layouts, nest.prefetch)
    return checked(changed) if check else changed


def checked(nest: Nest) -> Nest:
    """The nest, verified."""
    verify(nest)
    return nest


def with_copy(program: Program, stage: Stage, copy: Stage, read: Access, copied: Access) -> Program:
    """The program in which a stage reads a copy, made by another stage just before it."""
    changed = replace(
        stage,
        body=exchange(stage.body, read, copied),
        post=exchange(stage.post, read, copied) if stage.post else None,
    )
    stages: list[Stage] = []
    for old in program.stages:
        stages += [copy, changed] if old.name == stage.name else [old]
    return replace(program, stages=tuple(stages))
