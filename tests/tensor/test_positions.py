"""Positions along axes, argmax and argmin: the reference, both code generators, Triton's source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planish as pl
from planish.base.errors import UsageError
from planish.codegen.triton.lower import lower_program
from planish.tensor.program import lower
from planish.tensor.reference import evaluate


@given(st.integers(1, 5000))
@settings(max_examples=25, deadline=None)
def test_a_table_of_positions_counts_up(length: int) -> None:
    (k,) = pl.axes(f"k={length}")
    program = lower([pl.define("Y", [k], pl.position(k) * 3)])
    assert np.array_equal(evaluate(program, {})["Y"], 3 * np.arange(length))


@pytest.mark.parametrize("path", ["x86", "llvm"])
@pytest.mark.parametrize("type", ["f32", "i8", "f16", "i64"])
def test_the_first_of_equal_ones_is_found(path: str, type: str) -> None:
    values = np.random.default_rng(1).integers(-4, 5, (6, 5, 37))
    m, n, k = pl.axes("m n k")
    x = pl.tensor("X", values.shape, type)
    most = pl.define("most", [n], pl.argmax([m, k], x[m, n, k]))
    least = pl.define("least", [m, n], pl.argmin(k, x[m, n, k]), "i64")
    given = values.astype("float16" if type == "f16" else x.type.numpy)
    found = pl.compile([most, least], path=path)(given)
    assert np.array_equal(found[0], values.transpose(1, 0, 2).reshape(5, -1).argmax(1))
    assert np.array_equal(found[1], values.argmin(2))


@pytest.mark.parametrize("path", ["x86", "llvm"])
def test_the_first_nan_is_found_as_numpy_has_it(path: str) -> None:
    x = np.random.default_rng(2).standard_normal((9, 50)).astype(np.float32)
    x[1, 7] = x[1, 30] = x[2] = np.nan
    x[3, 5] = np.inf
    x[4, 5] = -np.inf
    m, k = pl.axes("m k")
    given = pl.tensor("X", x.shape)
    for ours, theirs in ((pl.argmax, np.argmax), (pl.argmin, np.argmin)):
        kernel = pl.compile(pl.define("Y", [m], ours(k, given[m, k])), path=path)
        assert np.array_equal(kernel(x), theirs(x, 1))


def test_what_is_computed_is_computed_once() -> None:
    m, k = pl.axes("m k")
    x, y = pl.tensor("X", (9, 300)), pl.tensor("Z", (9, 300))
    out = pl.define("Y", [m], pl.argmax(k, x[m, k] * 0.1 + y[m, k] * 0.7))
    program = lower([out])
    assert sum("X[" in str(s.body) for s in program.stages) == 1
    assert sum("tl.load(X" in k.text for k in lower_program(program).kernels) == 1
    a, b = np.random.default_rng(3).standard_normal((2, 9, 300)).astype(np.float32)
    wanted = evaluate(program, {"X": a, "Z": b})["Y"]
    found = pl.compile(out)(a, b)
    values = a * np.float32(0.1) + b * np.float32(0.7)
    rows = np.arange(9)
    assert np.allclose(values[rows, found], values[rows, wanted], rtol=1e-6)


def test_kernels_know_positions_and_read_no_table() -> None:
    m, k = pl.axes("m k")
    out = pl.define("Y", [m], pl.argmax(k, pl.tensor("X", (9, 300))[m, k]))
    found = lower_program(lower([out]))
    assert [kernel.form for kernel in found.kernels] == ["rows"]
    assert "position" not in found.source and not found.temporaries


@pytest.mark.parametrize("path", ["x86", "llvm"])
def test_boolean_reductions(path: str) -> None:
    x = np.random.default_rng(4).random((40, 23)) < 0.9
    m, k = pl.axes("m k")
    given = pl.tensor("X", x.shape, "bool")
    every = pl.define("every", [m], pl.all_(k, given[m, k]))
    some = pl.define("some", [m], pl.any_(k, ~given[m, k]))
    first = pl.define("first", [m], pl.argmin(k, given[m, k]))
    found = pl.compile([every, some, first], path=path)(x)
    for ours, theirs in zip(found, (x.all(1), (~x).any(1), x.argmin(1)), strict=True):
        assert np.array_equal(ours, theirs)


def test_mistakes_are_told() -> None:
    m, k = pl.axes("m k")
    x = pl.tensor("X", (3, 0))
    with pytest.raises(UsageError, match="one element at least"):
        pl.argmax(k, x[m, k])
    with pytest.raises(UsageError, match="does not depend"):
        pl.argmax(k, pl.tensor("Z", (3, 3))[m, m])
    with pytest.raises(UsageError, match="one axis at least"):
        pl.argmax([], x[m, k])
    with pytest.raises(UsageError, match="32 bits"):
        pl.argmax([m, k], pl.tensor("Z", (1 << 16, 1 << 16), "i8")[m, k])
    with pytest.raises(UsageError, match="how long"):
        pl.position(k)


@pytest.mark.parametrize("over", ["k", ["k"], ("m", "k")])
@pytest.mark.parametrize("reduction", [pl.sum, pl.max, pl.any_, pl.argmax, pl.argmin])
def test_the_name_of_an_axis_is_no_axis(reduction: Any, over: Any) -> None:
    m, k = pl.axes("m k")
    with pytest.raises(UsageError, match=r"'(m|k)' is no axis"):
        reduction(over, pl.tensor("X", (3, 4))[m, k])
