"""Index notation, inference of extents, einsum strings, lowering to stages."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pl
from planish.base.errors import PlanishError, UsageError
from planish.tensor.einsum import parse_spec
from planish.tensor.expr import Index, number
from planish.tensor.program import lower
from planish.tensor.reference import evaluate
from planish.tensor.types import TYPES, promote, type_of


def test_indices_are_affine_and_normalised() -> None:
    h, r = pl.axes("h r")
    assert 2 * h + r - 1 == r + h + h - 1
    assert str(2 * h + r - 1) == "2*h + r - 1"
    assert h - h == Index()


@pytest.mark.parametrize("text", ["1x", "a-b", ""])
def test_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        pl.tensor(text, (3,))


def test_windows_get_the_largest_extent_that_stays_inside() -> None:
    h, r = pl.axes("h r")
    x, w = pl.tensor("x", (11,)), pl.tensor("w", (3,))
    y = pl.define("y", [h], pl.sum(r, x[2 * h + r] * w[r]))
    assert y.shape == (5,)


def test_reading_outside_is_refused_with_a_way_out() -> None:
    (i,) = pl.axes("i=9")
    x = pl.tensor("x", (8,))
    with pytest.raises(UsageError, match="reaches from 1 to 9") as caught:
        pl.define("y", [i], x[1 * i + 1])
    assert "pad" in str(caught.value.hint)


def test_two_lengths_of_one_axis_are_refused() -> None:
    (i,) = pl.axes("i")
    with pytest.raises(UsageError, match="the axis 'i' is 8 long elsewhere and 9"):
        pl.define("y", [i], pl.tensor("a", (8,))[i] + pl.tensor("b", (9,))[i])


def test_an_open_axis_is_refused() -> None:
    i, j = pl.axes("i j")
    with pytest.raises(UsageError, match="leaves the axis 'j' open"):
        pl.define("y", [i], pl.tensor("a", (8, 4))[i, j])


def test_statements_may_use_one_name_at_two_lengths() -> None:
    (i,) = pl.axes("i")
    a, b = pl.tensor("a", (8,)), pl.tensor("b", (5,))
    first = pl.define("first", [i], a[i] + 1)
    second = pl.define("second", [i], b[i] + 1)
    program = lower([first, second])
    assert sorted(program.extents.values()) == [5, 8]


def test_inner_reductions_are_hoisted() -> None:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (4, 7))
    e = pl.exp(x[m, n] - pl.max(n, x[m, n]))
    program = lower([pl.define("y", [m, n], e / pl.sum(n, e))])
    assert [s.reduce for s in program.stages] == ["max", "sum", ""]
    data = np.random.default_rng(0).random((4, 7)).astype(np.float32)
    got = evaluate(program, {"x": data})["y"]
    assert np.allclose(got.sum(axis=1), 1)


def test_an_empty_reduction_is_its_identity() -> None:
    m, k = pl.axes("m k")
    x = pl.tensor("x", (3, 0))
    program = lower([pl.define("y", [m], pl.sum(k, x[m, k]) + 2.0)])
    assert np.array_equal(
        evaluate(program, {"x": np.zeros((3, 0), np.float32)})["y"], np.full(3, 2, np.float32)
    )


def test_padding_fills_around() -> None:
    i, j = pl.axes("i j")
    x = pl.tensor("x", (2, 3))
    padded = pl.pad(x, ((1, 0), (2, 1)), 7)
    program = lower([pl.define("y", [i, j], padded[i, j] + 0.0)])
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = np.pad(data, ((1, 0), (2, 1)), constant_values=7)
    assert np.array_equal(evaluate(program, {"x": data})["y"], wanted)


@pytest.mark.parametrize(
    ("text", "result"),
    [("mk,kn", "mn"), ("ii", ""), ("i,j->ji", "ji"), (" m k , k n -> m n", "mn")],
)
def test_einsum_strings(text: str, result: str) -> None:
    assert parse_spec(text).result == result


@pytest.mark.parametrize("text", ["mk;kn", "mk,kn->mm", "mk->q", "m1->m", "->->"])
def test_einsum_strings_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_spec(text)


def test_types_meet_and_numbers_fit() -> None:
    f32, i8, u8, i64, bf16 = (TYPES[n] for n in ("f32", "i8", "u8", "i64", "bf16"))
    assert promote(i8, u8).name == "i16"
    assert promote(f32, i8).name == "f32"
    assert promote(f32, i64).name == "f64"
    assert promote(bf16, i8).name == "f32"
    with pytest.raises(UsageError, match="does not fit"):
        number(200, i8)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x, i: pl.exp(x[i]), "exp is of floats"),
        (lambda x, i: x[i] + 0.5, "meets a float"),
        (lambda x, i: x[i, i], "has 1 dimensions"),
        (lambda x, i: x["i"], "is no index"),
    ],
)
def test_mistakes_say_what_is_wrong(build, words: str) -> None:
    (i,) = pl.axes("i")
    with pytest.raises(PlanishError, match=words):
        build(pl.tensor("x", (4,), "i32"), i)


def test_f8_alone_is_refused_and_numpys_dtypes_are_taken() -> None:
    with pytest.raises(UsageError, match="f8e4m3"):
        type_of("f8")
    assert type_of(np.dtype("float64")) is type_of("f64")
