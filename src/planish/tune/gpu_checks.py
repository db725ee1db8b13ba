"""Kernels checked without a GPU: inputs, what the interpreter is asked, and the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planish.base.records import Grade, Verdict
from planish.codegen.triton.lower import Lowered
from planish.tensor.expr import Tensor
from planish.tensor.program import Program
from planish.tensor.reference import evaluate, store
from planish.tensor.reference import load as as_values
from planish.tune.gpu_worker import Interpret

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Checked:
    """What the interpreter said.

    verdict  tested, or refuted with the reason
    worst    the largest difference from the reference, relative to the tolerance
    """

    verdict: Verdict
    worst: float = 0.0


def interpret_request(program: Program, lowered: Lowered, arrays: Mapping[str, Array]) -> Interpret:
    """What a worker needs to run a program's kernels."""
    tensors = dict.fromkeys((*program.inputs, *program.outputs, *lowered.temporaries))
    return Interpret(
        tuple((k.text, k.name, tuple(t.name for t in k.tensors), k.grid) for k in lowered.kernels),
        tuple((t.name, t.shape, t.type.name) for t in tensors),
        {t.name: np.ascontiguousarray(arrays[t.name]) for t in program.inputs},
        tuple(t.name for t in program.outputs),
    )  # fmt: skip


def random_inputs(program: Program, seed: int) -> dict[str, Array]:
    """Inputs of every type: small whole numbers for whole numbers, standard normal floats."""
    numbers = np.random.default_rng(seed)
    found = {}
    for t in program.inputs:
        if t.type.is_float:
            found[t.name] = store(numbers.standard_normal(t.shape).astype(np.float32), t.type)
        else:
            low, high = (0, 2) if t.type.name == "bool" else (-3 if t.type.signed else 0, 4)
            found[t.name] = numbers.integers(low, high, t.shape).astype(t.type.numpy)
    return found


# Relative to the largest value of an output: what a rounding of its type, or of the 16-bit
# operands inside, may come to.
_TOLERANCE = {
    "f16": 4e-3, "bf16": 3e-2, "f32": 2e-4, "f64": 2e-4, "f8e4m3": 6.5e-2, "f8e5m2": 0.13,
}  # fmt: skip  # fmt: skip


def compare(program: Program, arrays: Mapping[str, Array], found: Mapping[str, Array]) -> Checked:
    """Outputs against the reference."""
    wanted = evaluate(program, arrays)
    worst = 0.0
    # Every f8 is an f16: what is read as such is not rounded.
    inner = {t.type.name for t in program.temporaries}
    inner |= {t.type.name for t in program.inputs if t.type.size > 1}
    for tensor in program.outputs:
        a, b = as_values(found[tensor.name], tensor.type), as_values(
            wanted[tensor.name], tensor.type
        )  # fmt: skip
        if not tensor.type.is_float:
            if not np.array_equal(a, b):
                return Checked(Verdict(Grade.REFUTED, _where(tensor, a, b)), float("inf"))
            continue
        allowed = max(_TOLERANCE[n] for n in {tensor.type.name, *inner} if n in _TOLERANCE)
        finite = np.isfinite(b)
        if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(
            a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)]
        ):
            return Checked(Verdict(Grade.REFUTED, _where(tensor, a, b)), float("inf"))
        scale = max(float(np.abs(b[finite]).max(initial=0.0)), 1e-6)
        error = float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / (scale * allowed)
        worst = max(worst, error)
        if error > 1:
            return Checked(Verdict(Grade.REFUTED, _where(tensor, a, b)), error)
    return Checked(Verdict(Grade.TESTED, "on 1 input by Triton's interpreter"), worst)


def _where(tensor: Tensor, a: Array, b: Array) -> str:
    with np.errstate(all="ignore"):
        far = np.abs(a.astype(np.float64) - b.astype(np.float64))
    far = np.where(np.isnan(far), np.inf, far)
    at = np.unravel_index(int(np.argmax(far)), far.shape) if far.shape else ()
    place = ", ".join(map(str, map(int, at)))
    return f"{tensor.name}[{place}] is {a[at]} and should be {b[at]}"
