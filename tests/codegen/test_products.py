"""Products over semirings: every shape class, both paths, arrays in any order in memory."""

from __future__ import annotations

import contextlib
import random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_case

import planish as pl
from planish.base.errors import UsageError
from planish.codegen.native import Image, Native, build_image
from planish.codegen.units import Units
from planish.measure.machine import processor
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate
from planish.tensor.schedule import Schedule
from planish.tune.default_schedule import default_nest, smallest_nest
from planish.tune.stage_shape import Target
from planish.tune.tensors import Kernel

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")

_SEMIRINGS = ("sum-product", "min-plus", "max-plus", "max-times")


def _program(shape: tuple[int, int, int], type: str, semiring: str) -> Program:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (shape[0], shape[2]), type), pl.tensor("B", (shape[2], shape[1]), type)
    inner = a[m, k] + b[k, n] if semiring.endswith("plus") else a[m, k] * b[k, n]
    reduce = {"sum": pl.sum, "min": pl.min, "max": pl.max}[semiring.split("-")[0]]
    return lower([pl.define("C", [m, n], reduce(k, inner))])


def _arrays(inputs: tuple[Tensor, ...], seed: int) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(seed)
    return {t.name: numbers.integers(-4, 5, t.shape).astype(t.type.numpy) for t in inputs}


def _run(program: Program, image: Image, arrays: dict[str, np.ndarray]) -> np.ndarray:
    kernel = Kernel(program, store=False)
    kernel._compiled[kernel._plain] = Native(image)
    found: np.ndarray = kernel(*arrays.values())
    return found


@settings(max_examples=80, deadline=None)
@given(
    shape=st.tuples(*[st.sampled_from((0, 1, 2, 3, 6, 7, 8, 16, 17, 33, 70))] * 3),
    type=st.sampled_from(("f32", "f64", "i32")),
    semiring=st.sampled_from(_SEMIRINGS),
    target=st.sampled_from(("avx2", "avx512")),
)
def test_products_of_any_shape(
    shape: tuple[int, int, int], type: str, semiring: str, target: str
) -> None:
    if target == "avx512" and processor().vector < 64:
        target = "avx2"
    program = _program(shape, type, semiring)
    arrays = _arrays(program.inputs, sum(shape))
    kernel = Kernel(program, target=target, store=False)
    found = kernel(*arrays.values())
    assert np.array_equal(found, evaluate(program, arrays)["C"])
    assert kernel.ledger.path.startswith("x86"), kernel.ledger


@pytest.mark.parametrize(("rows", "vectors"), [(3, 2), (1, 1), (2, 3), (6, 1)])
@pytest.mark.parametrize("prefetch", ["", "\nprefetch C C", "\nprefetch C B"])
@pytest.mark.parametrize("unroll", ["", "\nsplit C k 4\nunroll C k"])
def test_tiles_are_the_same_through_llvm(
    rows: int, vectors: int, prefetch: str, unroll: str
) -> None:
    from planish.tune.tensor_llvm import llvm_image

    vector = processor().vector
    for semiring, type in (("sum-product", "f32"), ("max-plus", "f64")):
        program = _program((7, 50, 9), type, semiring)
        arrays = _arrays(program.inputs, 1)
        width = vectors * vector // (4 if type == "f32" else 8)
        steps = f"tile C m={rows} n={width} vector n{prefetch}{unroll}"
        nest = Schedule.parse(steps).apply(program)
        wanted = evaluate(program, arrays)["C"]
        for image in (build_image(nest, vector), llvm_image(nest, vector, None)):
            assert np.array_equal(_run(program, image, arrays), wanted), image.origin


@pytest.mark.parametrize("vector", [32, 64])
@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("body", ["a + b", "a - b", "b - a"])
@pytest.mark.parametrize("reduce", ["min", "max", "sum"])
def test_sums_made_as_products_by_one_are_the_same_to_the_last_bit(
    vector: int, type: str, body: str, reduce: str
) -> None:
    m, n, k = pl.axes("m n k")
    one, other = pl.tensor("A", (13, 29), type), pl.tensor("B", (29, 83), type)
    a, b = one[m, k], other[k, n]
    inner = {"a + b": a + b, "a - b": a - b, "b - a": b - a}[body]
    program = lower([pl.define("C", [m, n], getattr(pl, reduce)(k, inner))])
    nest = default_nest(program, Target(vector, 31 if vector == 64 else 15, 32 << 10, 1 << 20))[1]
    plain, apart = (build_image(nest, vector, units=Units(apart=x)) for x in (False, True))
    assert plain.code != apart.code
    if processor().vector < vector:
        pytest.skip("this machine cannot run it")
    numbers = np.random.default_rng(5)
    arrays = {t.name: numbers.normal(size=t.shape).astype(t.type.numpy) for t in program.inputs}
    for array in arrays.values():  # what rounding, signs and infinities could betray
        array[numbers.random(array.shape) < 0.2] = -0.0
        array[numbers.random(array.shape) < 0.1] = numbers.choice([np.inf, 1e30, 1e-30])
    found = [_run(program, image, arrays) for image in (plain, apart)]
    assert found[0].tobytes() == found[1].tobytes()
    if reduce != "sum":
        assert np.array_equal(found[0], evaluate(program, arrays)["C"])


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3)])
def test_nothing_is_prefetched_of_what_is_empty(shape: tuple[int, int, int]) -> None:
    program = _program(shape, "f32", "min-plus")
    arrays = _arrays(program.inputs, 0)
    nest = Schedule.parse("unroll C m\nvectorise C k\nprefetch C C").apply(program)
    image = build_image(nest, processor().vector)
    assert np.array_equal(_run(program, image, arrays), evaluate(program, arrays)["C"])


def _disordered(array: np.ndarray, how: int) -> np.ndarray:
    """The array, or one of its shape, in another order in memory."""
    if how == 1:
        return np.asfortranarray(array)
    if how == 2:
        return np.flip(array)
    if how == 3:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return np.broadcast_to(array[:1], array.shape) if how == 4 and array.ndim > 1 else array


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_einsums_of_arrays_in_any_order(seed: int) -> None:
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    letters = "abcd"[: draw.randint(1, 4)]
    terms = ["".join(draw.sample(letters, draw.randint(1, len(letters)))) for _ in range(2)]
    used = sorted(set("".join(terms)))
    spec = ",".join(terms) + "->" + "".join(draw.sample(used, draw.randint(0, min(3, len(used)))))
    lengths = {axis: draw.choice([0, 1, 2, 3, 5, 17, 33]) for axis in used}
    arrays = []
    for term in terms:
        values = numbers.integers(-3, 4, [lengths[axis] for axis in term]).astype(np.float32)
        arrays.append(_disordered(values, draw.randrange(5)))
    wanted = np.einsum(spec, *[a.astype(np.float64) for a in arrays]).astype(np.float32)
    for threads in (1, 2):
        with patch("planish.tune.default_schedule._WORTH_SHARING", 0):
            found = pl.einsum(spec, threads=threads)(*arrays)
        assert np.array_equal(found, wanted), (spec, lengths, [a.strides for a in arrays])


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 40), vector=st.sampled_from((16, 32, 64)))
def test_the_smallest_tiles_always_apply(seed: int, vector: int) -> None:
    target = Target.of(processor(), vector)
    programs = [
        _program((7, 33, 5), "i64", "min-plus"),
        _program((64, 512, 700), "f32", "max-plus"),
    ]
    with contextlib.suppress(UsageError):
        programs.append(make_case(seed).program)
    for program in programs:
        for threads in (1, 3):
            smallest_nest(program, target, threads, {})
