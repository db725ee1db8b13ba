"""Products of bytes: exact whatever the signs, sizes and instructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planish as pl
from planish.codegen.native import Native, build_image
from planish.codegen.units import Units, has_dot4
from planish.measure.machine import processor
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate
from planish.tune.default_schedule import default_nest
from planish.tune.stage_shape import Target
from planish.tune.tensors import Kernel

_RANGES = {"i8": (-128, 128), "u8": (0, 256)}


def _product(m_: int, n_: int, k_: int, types: tuple[str, str]) -> Program:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_), types[0]), pl.tensor("B", (k_, n_), types[1])
    body = pl.cast(a[m, k], "i32") * pl.cast(b[k, n], "i32")
    return lower([pl.define("C", [m, n], pl.sum(k, body))])


def _arrays(program: Program, seed: int, extreme: bool) -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    found = []
    for tensor in program.inputs:
        low, high = _RANGES[tensor.type.name]
        values = numbers.integers(low, high, tensor.shape)
        if extreme:
            values = numbers.choice([low, high - 1], tensor.shape)
        found.append(values.astype(tensor.type.numpy))
    return found


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.tuples(*[st.sampled_from((1, 3, 8, 9, 16, 17, 31, 33, 64, 66))] * 3),
    types=st.sampled_from((("i8", "i8"), ("u8", "i8"), ("i8", "u8"), ("u8", "u8"))),
    seed=st.integers(0, 1 << 30),
    extreme=st.booleans(),
    target=st.sampled_from((("native", 32), ("avx2", 32), ("avx512", 64))),
)
def test_products_of_bytes_are_exact(
    sizes: tuple[int, int, int], types: tuple[str, str], seed: int, extreme: bool,
    target: tuple[str, int],
) -> None:  # fmt: skip
    if processor().vector < target[1]:
        pytest.skip(f"this machine has no vectors of {target[1]} bytes")
    program = _product(*sizes, types)
    arrays = _arrays(program, seed, extreme)
    wanted = evaluate(program, dict(zip("AB", arrays, strict=True)))["C"]
    assert np.array_equal(Kernel(program, target=target[0], store=False)(*arrays), wanted)


@pytest.mark.parametrize("vector", [32, 64])
@pytest.mark.parametrize("types", [("i8", "i8"), ("u8", "i8"), ("i8", "u8")])
def test_both_forms_of_the_instruction_compute_what_the_plain_ones_do(
    vector: int, types: tuple[str, str]
) -> None:
    program = _product(24, 64, 39, types)
    target = Target(vector, 31 if vector == 64 else 15, 32 << 10, 1 << 20, dot4=True)
    schedule, nest = default_nest(program, target)
    assert "k/4 n k" in str(schedule)
    image = build_image(nest, vector, units=Units(dot4=True))
    assert image.code != build_image(nest, vector, units=Units()).code
    if processor().vector < vector or not has_dot4(vector):
        pytest.skip("this machine cannot run it")
    arrays = _arrays(program, 3, extreme=True)
    wanted = evaluate(program, dict(zip("AB", arrays, strict=True)))["C"]
    for dot4 in (True, False):
        native = Native(build_image(nest, vector, units=Units(dot4=dot4)))
        found = np.empty_like(wanted)
        workspace = np.empty(native.image.workspace + 64, np.uint8)
        base = workspace.ctypes.data
        pointers = [x.ctypes.data for x in (*arrays, found)]
        native.run([*pointers, base + -base % 64])
        assert np.array_equal(found, wanted)
