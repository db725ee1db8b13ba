"""A good schedule without any search: each stage by its rules, stages of one outer axis fused."""

from __future__ import annotations

import math
from collections.abc import Mapping

from planish.base.errors import UsageError
from planish.tensor.expr import Op, walk
from planish.tensor.loops import Nest, path_of
from planish.tensor.program import Program, Stage
from planish.tensor.schedule import Schedule, Step, step
from planish.tune.fusing import absorb, apply, rules_of, stage_steps
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import HEAVY, Target

# Microseconds of work below which waking other threads costs more than it gives.
_WORTH_SHARING = 100


def default_nest(
    program: Program,
    target: Target,
    threads: int = 1,
    strides: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[Schedule, Nest]:
    """The rules' schedule with the nest that it makes, so that it is made once; every step applies.

    strides  bytes by tensor name, where an argument is not contiguous
    """
    rules = {s.name: StageRules(s, target, strides or {}) for s in program.stages}
    return assemble(program, rules, {}, threads)


def smallest_nest(
    program: Program, target: Target, threads: int, strides: Mapping[str, tuple[int, ...]]
) -> Nest:
    """The rules' nest with one vector and one row at a time: it needs the fewest registers."""
    rules = {s.name: StageRules(s, target, strides) for s in program.stages}
    small = {"rows": 1, "vectors": 1, "unroll": 1, "second": 1}
    choices = {name: {k: small[k] for k in r.choices() if k in small} for name, r in rules.items()}
    return assemble(program, rules, choices, threads)[1]


def assemble(
    program: Program,
    rules: Mapping[str, StageRules],
    choices: Mapping[str, Mapping[str, int]],
    threads: int = 1,
) -> tuple[Schedule, Nest]:
    """The schedule (and its nest) for choices by stage, the rules' own where none are given.

    Raises UsageError where a choice cannot be taken.
    """
    nest, steps = absorb(program, choices)
    program = nest.program
    own = stage_steps(program, rules_of(program, rules), choices)
    for stage in program.stages:
        nest, added = apply(nest, own[stage.name])
        steps += added
    nest, added = _fusions(nest, program, choices)
    steps += added
    if threads > 1:
        nest, added = _threads(nest, program, threads)
        steps += added
    return Schedule(tuple(steps)), nest


def _fusions(
    nest: Nest, program: Program, choices: Mapping[str, Mapping[str, int]]
) -> tuple[Nest, list[Step]]:
    """Stages computed row by row together, where their outermost loops are the same.

    A producer's choice `fuse` says in how many loops it is to lie with its consumer: 0 for none,
    1 (the outermost one) where nothing is said. What is asked for and cannot be is a UsageError.
    """
    done: list[Step] = []
    for producer, consumer in zip(program.stages, program.stages[1:], strict=False):
        if not may_fuse(program, producer, consumer):
            continue
        asked = choices.get(producer.name, {}).get("fuse")
        if asked is None and producer.extents[producer.axes[0]] < 2:
            continue
        around = path_of(nest, consumer.name)
        named = [loop.name for loop in around[:asked]] if asked is not None else consumer.axes[:1]
        for loop in named:
            one = step("fuse", producer.name, consumer.name, loop)
            try:
                nest = one.apply(nest)
            except UsageError:
                if asked is not None:
                    raise
                break
            done.append(one)
    return nest, done


def may_fuse(program: Program, producer: Stage, consumer: Stage) -> bool:
    """Whether the one is used after it was computed, and both have rows."""
    reads = [a.tensor for s in program.stages for a in s.reads if s is not producer]
    return producer.out.tensor in reads and bool(producer.axes and consumer.axes)


def _threads(nest: Nest, program: Program, threads: int) -> tuple[Nest, list[Step]]:
    """Every outermost loop over an output axis is shared among threads, if it takes long enough."""
    done: list[Step] = []
    for stage in program.stages:
        path = path_of(nest, stage.name)
        if not stage.axes or path[0].kind == "parallel":
            continue
        if sum(_microseconds(nest.program.stage(name)) for name in path[0].stages) < _WORTH_SHARING:
            continue
        for axis in stage.axes:
            length = stage.extents[axis]
            # Whole blocks for each thread: packed operands lie in blocks of that size.
            block = max((loop.step for loop in path if loop.axis == axis), default=1)
            share = -(-length // (threads * block)) * block
            if share >= length:
                continue
            whole = [] if share == block else [step("split", stage.name, axis, share)]
            wanted = [*whole, step("parallel", stage.name, f"{axis}/{share}".removesuffix("/1"))]
            try:
                nest, added = apply(nest, wanted)
            except UsageError:
                continue
            done += added
            break
    return nest, done


def _microseconds(stage: Stage) -> float:
    """About how long one thread takes: 25 multiply-adds in a nanosecond, 6 elements of a stream."""
    points = math.prod(stage.extents[axis] for axis in stage.all_axes)
    if stage.reduce and len(stage.reads) > 1:
        return points / 25e3
    parts = [part for part in (stage.body, stage.post) if part is not None]
    heavy = sum(isinstance(e, Op) and e.name in HEAVY for part in parts for e in walk(part))
    return points * (1 + 4 * heavy) / 6e3
