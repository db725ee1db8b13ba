"""Random tensor programs, schedules and inputs, from a seed: for property tests and the fuzz bench.

Values are small whole numbers, so that any order of operations gives the same floats.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from planish.base.errors import UsageError
from planish.tensor import functions as f
from planish.tensor.expr import Access, Axis, Expr, Index, apply, cast
from planish.tensor.loops import Nest, leaves, plain
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule, Step, step
from planish.tensor.types import BF16, TYPES, Type

_EXTENTS = (1, 2, 3, 5, 7, 8, 16, 17, 33)
_EVERYWHERE = tuple(name for name in TYPES if not name.startswith("f8"))
_X86_TYPES = ("f32", "f64", "i32", "f32", "f32")


@dataclass(frozen=True)
class Case:
    """A program, arrays for its inputs and a schedule that applies."""

    program: Program
    arrays: dict[str, np.ndarray]
    schedule: Schedule


def same(type: Type, found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether all values are equal; -0.0 is 0.0 (which of them min gives is nobody's business)."""
    if type is BF16:
        found, wanted = ((a.astype(np.uint32) << 16).view(np.float32) for a in (found, wanted))
    return np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f")


def make_case(seed: int, *, steps: int = 5) -> Case:
    """The same case for the same seed."""
    draw = random.Random(seed)
    program = _program(draw)
    schedule = _schedule(draw, program, steps)
    numbers = np.random.default_rng(seed)
    arrays = {t.name: _array(numbers, t.shape, t.type) for t in program.inputs}
    return Case(program, arrays, schedule)


def _array(numbers: np.random.Generator, shape: tuple[int, ...], type: Type) -> np.ndarray:
    if type.name == "bool":
        return numbers.integers(0, 2, shape).astype(bool)
    low = 0 if not type.signed else -3
    whole = numbers.integers(low, 4, shape)
    if type is BF16:
        return (whole.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return whole.astype(type.numpy)


def _program(draw: random.Random) -> Program:
    names = ["i", "j", "k", "l"][: draw.randint(1, 4)]
    extents = {n: draw.choice(_EXTENTS) for n in names}
    if draw.random() < 0.04:
        extents[draw.choice(names)] = 0
    while np.prod([max(1, e) for e in extents.values()]) > 6000:
        extents[draw.choice(names)] = draw.choice((1, 2, 3))
    axes = {n: Axis(n, extents[n]) for n in names}
    chosen = draw.choice((*_X86_TYPES, *_EVERYWHERE))
    type = TYPES[chosen]
    kept = [n for n in names if draw.random() < 0.6]
    draw.shuffle(kept)
    bound = [n for n in names if n not in kept]
    reads = [_access(draw, at, names, extents, type) for at in range(draw.randint(1, 3))]
    body = _expression(draw, reads, type, 2)
    # Every axis has to occur.
    for name in names:
        if name not in {a for r in reads for i in r.indices for a in i.axes}:
            extra = f.tensor(f"X{name}", (extents[name],), type)
            body = _join(draw, body, extra[axes[name]])
    if bound:
        body = _reduction(draw, body, [axes[n] for n in bound])
    if draw.random() < 0.4 and kept:
        last = f.tensor(
            "P", (extents[kept[-1]],), body.type if body.type.name != "bool" else "bool"
        )
        body = _join(draw, body, last[axes[kept[-1]]])
    stored = body.type
    if draw.random() < 0.3 and not body.type.is_float:
        stored = TYPES[draw.choice(("i8", "u8", "i16", "i32", "i64", "bool"))]
    elif draw.random() < 0.3 and body.type.is_float:
        # An empty min is infinite, and what whole number that becomes is not said.
        whole = [] if 0 in extents.values() else ["i32"]
        stored = TYPES[draw.choice(["f16", "bf16", "f32", "f64", *whole])]
    out = f.define("S", [axes[n] for n in kept], cast(body, stored))
    outputs = [out]
    if draw.random() < 0.35 and kept:
        second = _second(draw, out, [axes[n] for n in kept])
        outputs = [second] if draw.random() < 0.6 else [out, second]
    return lower(outputs)


def _second(draw: random.Random, first: f.Tensor, axes: list[Axis]) -> f.Tensor:
    """A statement over the first one's result."""
    read = first[tuple(axes)]
    if draw.random() < 0.5 and first.type.name != "bool":
        return f.define("T", axes, apply("add", cast(read, first.type.computed), 1))
    order = axes[:]
    draw.shuffle(order)
    return f.define("T", order, read)


def _access(
    draw: random.Random, at: int, names: list[str], extents: dict[str, int], type: Type
) -> Access:
    own = [n for n in names if draw.random() < 0.7] or [draw.choice(names)]
    draw.shuffle(own)
    indices, shape = [], []
    while own:
        name = own.pop()
        index = Axis(name).index
        if own and draw.random() < 0.2:
            index = index * draw.choice((1, 2)) + Axis(own.pop()).index
        index = index + draw.choice((0, 0, 0, 1))
        reach = index.constant + sum(c * max(0, extents[n] - 1) for n, c in index.terms)
        indices.append(index)
        alone = len(index.terms) == 1 and not index.constant
        shape.append(reach + 1 + (0 if alone else draw.choice((0, 0, 2))))
    for name in names:
        if extents[name] == 0:
            shape = [0 if i.is_axis(name) else s for i, s in zip(indices, shape, strict=True)]
    tensor = f.tensor(f"A{at}", shape, type)
    return Access(tensor, tuple(Index(i.terms, i.constant) for i in indices))


def _join(draw: random.Random, a: Expr, b: Expr) -> Expr:
    if a.type.name == "bool" and b.type.name == "bool":
        return apply(draw.choice(("and", "or", "xor")), a, b)
    if a.type.name == "bool":
        a = cast(a, b.type)
    if b.type.name == "bool":
        b = cast(b, a.type)
    return apply(draw.choice(("add", "sub", "mul", "min", "max")), a, b)


def _expression(draw: random.Random, reads: list[Access], type: Type, depth: int) -> Expr:
    value: Expr = reads[0]
    for read in reads[1:]:
        value = _join(draw, value, read)
    if depth and draw.random() < 0.3 and type.name != "bool":
        other = draw.choice(reads)
        condition = apply(draw.choice(("lt", "ge", "eq", "ne")), other, 1)
        value = apply("where", condition, value, apply("neg", value) if type.signed else value)
    if draw.random() < 0.15 and type.name != "bool" and type.signed:
        value = apply("abs", value)
    if draw.random() < 0.15 and not type.is_float and type.name != "bool":
        value = apply(draw.choice(("div", "mod")), value, draw.choice((2, 3)))
    return value


def _reduction(draw: random.Random, body: Expr, bound: list[Axis]) -> Expr:
    if body.type.name == "bool":
        return f.reduce(draw.choice(("or", "and", "xor", "sum")), bound, body)
    names = ["sum", "sum", "sum", "min", "max"]
    if not body.type.is_float:
        names += ["xor", "or", "and"]
    if body.type.name == "i64" and draw.random() < 0.3:
        return f.reduce("sum", bound, body, modulo=7)
    return f.reduce(draw.choice(names), bound, body)


def _schedule(draw: random.Random, program: Program, steps: int) -> Schedule:
    """Steps drawn at random, those kept that may be taken."""
    nest = plain(program)
    taken: list[Step] = []
    first = [_absorbing(draw, program)] if draw.random() < 0.3 else []
    for at in range(draw.randint(0, steps)):
        one = first[at] if at < len(first) else _step(draw, nest)
        try:
            nest = one.apply(nest)
        except UsageError:
            continue
        taken.append(one)
    return Schedule(tuple(taken))


def _absorbing(draw: random.Random, program: Program) -> Step:
    """A step that takes a statement away; such steps come first."""
    one, other = (draw.choice(program.stages).name for _ in range(2))
    return step("inline", one) if draw.random() < 0.5 else step("epilogue", one, other)


def _step(draw: random.Random, nest: Nest) -> Step:
    name, path = draw.choice(list(leaves(nest.body)))
    stage = nest.program.stage(name)
    loops = [loop.name for loop in path] or ["none"]
    axis = draw.choice(stage.all_axes or ("none",))
    kind = draw.choice(
        ("split", "split", "reorder", "reorder", "unroll", "vectorise", "vectorise", "tile",
         "pack", "fuse", "prefetch", "split_reduction", "parallel")
    )  # fmt: skip
    if kind == "split":
        return step("split", name, axis, draw.choice((2, 3, 4, 8, 16)))
    if kind == "reorder":
        order = loops[:]
        draw.shuffle(order)
        return step("reorder", name, *order)
    if kind in ("unroll", "parallel"):
        return step(kind, name, draw.choice(loops))
    if kind == "vectorise":
        return step("vectorise", name, loops[-1])
    if kind == "tile":
        sizes = [f"{a}={draw.choice((2, 3, 4, 16))}" for a in stage.axes]
        vector = ["vector", stage.axes[-1]] if stage.axes and draw.random() < 0.7 else []
        return step("tile", name, *sizes, *vector)
    if kind == "pack":
        read = draw.choice(stage.reads) if stage.reads else stage.out
        own = [i.axes[0] if i.axes else "none" for i in read.indices]
        draw.shuffle(own)
        words = [f"{own[0]}/{draw.choice((2, 4, 8))}", *own] if own else []
        at = ["at", draw.choice(loops)] if draw.random() < 0.5 else []
        return step("pack", name, read.tensor.name, *at, "as", *words)
    if kind == "fuse":
        other = draw.choice([s.name for s in nest.program.stages])
        return step("fuse", name, other, draw.choice(loops))
    if kind == "prefetch":
        return step("prefetch", name, stage.out.tensor.name)
    return step("split_reduction", name, axis, draw.choice((2, 3)))
