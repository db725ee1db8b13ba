"""The meaning of programs and nests, in NumPy.

`evaluate` computes whole stages at once and defines what a program means. `interpret` walks a
nest point by point in its own order and shows that a schedule keeps that meaning; it is slow and
for tests and verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from planish.tensor.expr import Access, Cast, Const, Expr, Op
from planish.tensor.loops import Do, Nest, Node
from planish.tensor.program import Accumulator, Program, Stage
from planish.tensor.small_floats import LAYOUTS, decode, encode
from planish.tensor.types import BF16, BOOL, Type, identity

Array = np.ndarray[Any, Any]

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def computed(type: Type) -> np.dtype[Any]:
    """NumPy's dtype that values of the type are computed in."""
    if type.is_float:
        return np.dtype("float64" if type.computed == "f64" else "float32")
    return np.dtype(type.numpy)


def load(stored: Array, type: Type) -> Array:
    """Stored elements as values."""
    if type is BF16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if type.name in LAYOUTS:
        return decode(stored, type.name)
    return stored.astype(computed(type))


def store(values: Array, type: Type) -> Array:
    """Values as stored elements: floats rounded to nearest even, integers wrapped."""
    if type is BF16:
        bits = np.asarray(values, np.float32, order="C").view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        quiet = ((bits >> 16) | 0x40).astype(np.uint16)
        return np.where(np.isnan(values), quiet, rounded)
    if type.name in LAYOUTS:
        return encode(values, type.name)
    return values.astype(type.numpy)


def evaluate(program: Program, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs for inputs by name."""
    memory = {t.name: arrays[t.name] for t in program.inputs}
    for stage in program.stages:
        out = stage.out.tensor
        if out.name not in memory:
            memory[out.name] = np.zeros(out.shape, out.type.numpy)
        with np.errstate(all="ignore"):
            values = stage_values(stage, memory)
        memory[out.name][places(stage.out, stage.axes, stage)] = store(values, out.type)
    return {t.name: memory[t.name] for t in program.outputs}


def stage_values(stage: Stage, memory: Mapping[str, Array]) -> Array:
    """What a stage computes for all points of its output axes, as values."""
    order = stage.all_axes
    full = tuple(stage.extents[a] for a in order)

    def read(axes: Sequence[str]) -> Callable[[Access], Array]:
        return lambda a: load(memory[a.tensor.name][places(a, axes, stage)], a.tensor.type)

    body = np.broadcast_to(_value(stage.body, read(order), None), full)
    if not stage.reduce:
        return body
    over = tuple(range(len(stage.axes), len(order)))
    values = _reduced(stage, body, over)
    return values if stage.post is None else apply_post(stage, values, memory)


def apply_post(stage: Stage, values: Array, memory: Mapping[str, Array]) -> Array:
    """The stage's `post` on what its reduction came to."""
    assert stage.post is not None

    def read(access: Access) -> Array:
        return load(
            memory[access.tensor.name][places(access, stage.axes, stage)], access.tensor.type
        )

    shape = tuple(stage.extents[a] for a in stage.axes)
    return np.broadcast_to(_value(stage.post, read, values), shape)


def _reduced(stage: Stage, body: Array, over: tuple[int, ...]) -> Array:
    start = identity(stage.reduce, stage.body.type)
    dtype = computed(stage.body.type)
    if stage.modulo is not None:
        exact = np.sum(np.mod(body.astype(object), stage.modulo), axis=over)
        return np.asarray(np.mod(exact, stage.modulo)).astype(dtype)
    ufuncs = {
        "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }  # fmt: skip
    found = ufuncs[stage.reduce].reduce(body, axis=over, dtype=dtype, initial=start)
    return np.asarray(found, dtype)


def places(access: Access, axes: Sequence[str], stage: Stage) -> tuple[Any, ...]:
    """Index arrays of an access over all points of the axes."""
    found: list[Any] = []
    for index in access.indices:
        at = np.full((1,) * len(axes), index.constant, np.intp)
        for name, coefficient in index.terms:
            shape = [1] * len(axes)
            shape[axes.index(name)] = stage.extents[name]
            at = at + coefficient * np.arange(stage.extents[name]).reshape(shape)
        found.append(at)
    if not found:
        return ()
    return tuple(np.broadcast_arrays(*found))


def _value(expr: Expr, read: Callable[[Access], Array], accumulator: Array | None) -> Array:
    if isinstance(expr, Access):
        return read(expr)
    if isinstance(expr, Const):
        return np.asarray(expr.value, computed(expr.type))
    if isinstance(expr, Accumulator):
        assert accumulator is not None
        return accumulator
    if isinstance(expr, Cast):
        return convert(_value(expr.argument, read, accumulator), expr.argument.type, expr.type)
    assert isinstance(expr, Op)
    arguments = [_value(a, read, accumulator) for a in expr.arguments]
    result = elementwise(expr.name, arguments)
    return np.asarray(result, computed(expr.type))


def convert(values: Array, source: Type, target: Type) -> Array:
    """A cast; a float outside an integer's range, or NaN, gives an unspecified integer."""
    if target is BOOL:
        return np.asarray(values != 0)
    if target.is_narrow_float:
        return load(store(values, target), target)
    if source.is_float and not target.is_float:
        return values.astype(np.int64).astype(computed(target))
    return values.astype(computed(target))


def elementwise(name: str, x: Sequence[Array]) -> Array:
    """One operation on arrays of one dtype."""
    if name in ("div", "mod") and x[0].dtype.kind in "iu":
        return _whole_division(name, x[0], x[1])
    found = _OPERATIONS[name](*x)
    return np.asarray(found)


def _whole_division(name: str, a: Array, b: Array) -> Array:
    """Quotients towards zero with the remainder's sign the dividend's, as in C; by zero gives 0."""
    safe = np.where(b == 0, 1, b)
    remainder = np.where(b == 0, 0, np.fmod(a, safe))
    if name == "mod":
        return remainder
    quotient = np.floor_divide(a - remainder, safe)
    return np.where(b == 0, 0, quotient)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.fmod,
    "min": lambda a, b: np.where(a < b, a, b), "max": lambda a, b: np.where(a > b, a, b),
    "neg": np.negative, "abs": np.abs, "not": np.invert,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "where": np.where,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh, "erf": lambda a: _ERF(a).astype(a.dtype), "floor": np.floor,
}  # fmt: skip


def interpret(nest: Nest, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs, visiting points in the order that the nest says."""
    program = nest.program
    memory = {t.name: arrays[t.name] for t in program.inputs}
    for stage in program.stages:
        out = stage.out.tensor
        # What no stage has written must not look right by chance.
        memory.setdefault(out.name, np.full(out.shape, 77, out.type.numpy))
    sums: dict[tuple[str, tuple[int, ...]], Array] = {}
    stages = {stage.name: stage for stage in program.stages}

    def run(nodes: Sequence[Node], ranges: dict[str, tuple[int, int]]) -> None:
        for node in nodes:
            if isinstance(node, Do):
                _point(stages[node.stage], {a: s for a, (s, _) in ranges.items()}, memory, sums)
                continue
            extent = program.extents.get(node.axis, 0)
            start, length = ranges.get(node.axis, (0, extent))
            for at in range(start, start + length, node.step):
                inside = (at, min(node.step, start + length - at))
                run(node.body, {**ranges, node.axis: inside})

    with np.errstate(all="ignore"):
        run(nest.body, {})
    return {t.name: memory[t.name] for t in program.outputs}


def _point(
    stage: Stage,
    at: Mapping[str, int],
    memory: Mapping[str, Array],
    sums: dict[tuple[str, tuple[int, ...]], Array],
) -> None:
    def read(access: Access) -> Array:
        return load(memory[access.tensor.name][_place(access, at)][...], access.tensor.type)

    out = stage.out.tensor
    value = _value(stage.body, read, None)
    if not stage.reduce:
        memory[out.name][_place(stage.out, at)] = store(value, out.type)
        return
    key = (stage.name, tuple(at[a] for a in stage.axes))
    first = all(at[b] == 0 for b in stage.bound)
    dtype = computed(stage.body.type)
    before = np.asarray(identity(stage.reduce, stage.body.type), dtype) if first else sums[key]
    names = {"sum": "add", "prod": "mul"}
    total = np.asarray(elementwise(names.get(stage.reduce, stage.reduce), [before, value]), dtype)
    if stage.modulo is not None:
        total = np.asarray(np.mod(total, stage.modulo), dtype)
    sums[key] = total
    if all(at[b] == stage.extents[b] - 1 for b in stage.bound):
        if stage.post is not None:
            total = _value(stage.post, read, total)
        memory[out.name][_place(stage.out, at)] = store(total, out.type)


def _place(access: Access, at: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(i.constant + sum(c * at[n] for n, c in i.terms) for i in access.indices)
