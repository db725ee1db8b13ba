"""What programs compute, in NumPy, at the speed of NumPy's own kernels.

`reference.evaluate` visits every point of a stage at once, which for a matrix product takes as
much memory as it has multiplications. Here sums of products become `einsum` over strided views,
and other stages are taken a slice at a time. No generated code takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from planish.tensor.expr import Access, Axis, Cast, Expr, Op, with_indices
from planish.tensor.program import Program, Stage
from planish.tensor.reference import (
    apply_post,
    computed,
    convert,
    load,
    places,
    stage_values,
    store,
)

Array = np.ndarray[Any, Any]
Memory = Mapping[str, Array]

# Points of a stage that are computed at once.
_POINTS = 1 << 22


def evaluate_quick(program: Program, arrays: Memory) -> dict[str, Array]:
    """All outputs for inputs by name, as `reference.evaluate` gives them.

    Floating-point sums are taken in another order, so that only whole numbers agree to the bit.
    """
    memory = {t.name: arrays[t.name] for t in program.inputs}
    for stage in program.stages:
        out = stage.out.tensor
        if out.name not in memory:
            memory[out.name] = np.zeros(out.shape, out.type.numpy)
        with np.errstate(all="ignore"):
            _compute(stage, memory)
    return {t.name: memory[t.name] for t in program.outputs}


def _compute(stage: Stage, memory: Memory) -> None:
    factors = _factors(stage)
    if factors is None:
        _in_slices(stage, memory)
        return
    values = _sum_of_products(stage, factors, memory)
    if stage.post is not None:
        values = apply_post(stage, values, memory)
    memory[stage.out.tensor.name][places(stage.out, stage.axes, stage)] = store(
        values, stage.out.tensor.type
    )


def _factors(stage: Stage) -> list[Expr] | None:
    """The factors of a sum of products of elements; None for any other stage."""
    if stage.reduce != "sum" or stage.modulo is not None or 0 in stage.extents.values():
        return None
    found: list[Expr] = []

    def collect(expr: Expr) -> bool:
        if isinstance(expr, Op) and expr.name == "mul":
            return all(collect(part) for part in expr.arguments)
        found.append(expr)
        return isinstance(expr.argument if isinstance(expr, Cast) else expr, Access)

    return found if collect(stage.body) and len(found) <= 4 else None


def _sum_of_products(stage: Stage, factors: Sequence[Expr], memory: Memory) -> Array:
    numbers = {axis: at for at, axis in enumerate(stage.all_axes)}
    operands: list[Any] = []
    for factor in factors:
        access = factor.argument if isinstance(factor, Cast) else factor
        assert isinstance(access, Access)
        view, axes = _view(access, memory[access.tensor.name], stage.extents)
        values = load(view, access.tensor.type)
        if isinstance(factor, Cast):
            values = convert(values, access.type, factor.type)
        operands += [values, [numbers[axis] for axis in axes]]
    wanted = [numbers[axis] for axis in stage.axes]
    missing = set(wanted) | {numbers[a] for a in stage.bound}
    for labels in operands[1::2]:
        missing -= set(labels)
    dtype = computed(stage.body.type)
    for number in sorted(missing):  # an axis that no operand has: every element counts
        operands += [np.ones(stage.extents[stage.all_axes[number]], dtype), [number]]
    return np.asarray(np.einsum(*operands, wanted, optimize=True), dtype)


def _view(
    access: Access, array: Array, extents: Mapping[str, int]
) -> tuple[Array, tuple[str, ...]]:
    """The elements that an access reads, one dimension an axis, without a copy."""
    axes = tuple(dict.fromkeys(name for index in access.indices for name in index.axes))
    strides = [
        sum(i.coefficient(axis) * s for i, s in zip(access.indices, array.strides, strict=True))
        for axis in axes
    ]
    origin = array[tuple(slice(index.constant, None) for index in access.indices)]
    shape = [extents[axis] for axis in axes]
    return np.lib.stride_tricks.as_strided(origin, shape, strides, writeable=False), axes


def _in_slices(stage: Stage, memory: Memory) -> None:
    """A stage as it is, over its longest output axis a part at a time."""
    points = prod(stage.extents.values())
    axis = max(stage.axes, key=lambda name: stage.extents[name], default="")
    if points <= _POINTS or not axis:
        _write(stage, memory)
        return
    length = stage.extents[axis]
    part = max(1, length * _POINTS // points)
    for start in range(0, length, part):
        moved = {axis: Axis(axis).index + start}
        here = replace(
            stage, out=with_indices(stage.out, moved), body=with_indices(stage.body, moved),
            post=with_indices(stage.post, moved) if stage.post is not None else None,
            extents={**stage.extents, axis: min(part, length - start)},
        )  # fmt: skip
        _write(here, memory)


def _write(stage: Stage, memory: Memory) -> None:
    values = stage_values(stage, memory)
    out = stage.out.tensor
    memory[out.name][places(stage.out, stage.axes, stage)] = store(values, out.type)
