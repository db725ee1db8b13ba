"""f8, argmax and boolean reductions in Triton's interpreter, against the reference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish.proc.pool import Pool
from planish.tensor import functions as f
from planish.tensor.expr import axes
from planish.tensor.positions import argmax, argmin
from planish.tune.gpu_kernels import GpuKernel, gpu_kernel, workers

pytest.importorskip("triton")


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Pool]:
    with workers("interpret") as pool:
        yield pool


def must_hold(kernel: GpuKernel, pool: Pool) -> None:
    checked = kernel.check(pool=pool)
    assert checked.verdict.grade.value == "tested", checked.verdict.detail


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])  # widened to f16, and as they are
@pytest.mark.parametrize(
    ("left", "right", "out"),
    [("f8e4m3", "f8e4m3", "f32"), ("f8e5m2", "f8e5m2", "bf16"), ("f8e4m3", "f8e5m2", "f16"),
     ("f8e4m3", "bf16", "f8e4m3"), ("i8", "f8e5m2", "f8e5m2")],
)  # fmt: skip
def test_products_of_f8(left: str, right: str, out: str, target: str, interpreter: Pool) -> None:
    m, n, k = axes("m n k")
    a, b = f.tensor("A", (35, 70), left), f.tensor("B", (70, 19), right)
    product = f.define("C", [m, n], f.sum(k, a[m, k] * b[k, n]), out)
    kernel = gpu_kernel(product, target=target, configs={"C": "m=32 n=32 k=32"})
    native = "bitcast=True), acc" in kernel.source or "tl.float8" in kernel.source
    assert native == (left == right and target == "cuda:sm_90")
    must_hold(kernel, interpreter)


def test_every_f8_is_read_and_written_as_the_reference_has_it(interpreter: Pool) -> None:
    m, n = axes("m n")
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    wide = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    wide *= np.float32(10) ** np.arange(-32, 32).astype(np.float32) / 6
    wide[0, :3] = np.inf, -np.inf, np.nan
    for name in ("f8e4m3", "f8e5m2"):
        x, y = f.tensor("X", (4, 64), name), f.tensor("W", (4, 64))
        read = f.define("Y", [n, m], x[m, n] * 1.0, "f32")
        kernel = gpu_kernel([read, f.define("Z", [m, n], y[m, n], name)])
        checked = kernel.check({"X": codes, "W": wide}, interpreter)
        assert checked.verdict.grade.value == "tested", checked.verdict.detail
        assert checked.worst == 0.0


def test_argmax_argmin_and_boolean_reductions(interpreter: Pool) -> None:
    m, n = axes("m n")
    x, flags = f.tensor("X", (7, 99), "f16"), f.tensor("B", (7, 99), "bool")
    values = np.random.default_rng(0).integers(-3, 4, (7, 99)).astype(np.float16)
    values[2, 40] = values[2, 60] = values[3] = np.nan
    given = {"X": values, "B": values > 0}
    for tiles in ({}, {"most": "k=32", "least": "k=32"}):
        outputs = [f.define("most", [m], argmax(n, x[m, n])),
                   f.define("least", [m], argmin(n, x[m, n]), "i64")]  # fmt: skip
        kernel = gpu_kernel(outputs, configs=tiles)
        checked = kernel.check(given, interpreter)
        assert checked.verdict.grade.value == "tested", checked.verdict.detail
    reductions = [f.define("every", [n], f.all_(m, flags[m, n])),
                  f.define("some", [m], f.any_(n, flags[m, n])),
                  f.define("first", [], argmax([m, n], flags[m, n]))]  # fmt: skip
    checked = gpu_kernel(reductions).check(given, interpreter)
    assert checked.verdict.grade.value == "tested", checked.verdict.detail


@pytest.mark.parametrize("axis", ["m", "part"])
def test_long_reductions_in_parts(axis: str, interpreter: Pool) -> None:
    m, n = axes(f"{axis} n")
    x, flags = f.tensor("X", (3, 777), "f16"), f.tensor("B", (777, 3), "bool")
    outputs = [f.define("top", [m], f.max(n, x[m, n]) * 2.0, "f16"),
               f.define("every", [m], f.all_(n, flags[n, m])),
               f.define("first", [], argmin([m, n], x[m, n])),
               f.define("total", [], f.sum([m, n], x[m, n]))]  # fmt: skip
    tiles = {"top": "n=1 k=64 split=3", "every": "n=4 k=32 split=8", "first": "k=128 split=4",
             "total": "k=64 split=7"}  # fmt: skip
    kernel = gpu_kernel(outputs, configs=tiles)
    assert sum(k.name.endswith("_add") for k in kernel.kernels) == 4
    must_hold(kernel, interpreter)


@pytest.mark.parametrize("around", [0, 1])
def test_padded_convolutions_of_f8(around: int, interpreter: Pool) -> None:
    n, h, w, r, s, c, o = axes("n h=9 w=9 r s c o")
    x, k = f.tensor("X", (1, 9, 9, 5), "f8e4m3"), f.tensor("K", (3, 3, 5, 20), "f8e4m3")
    padded = f.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), around)
    total = f.sum([r, s, c], padded[n, h + r, w + s, c] * k[r, s, c, o])
    kernel = gpu_kernel(f.define("Y", [n, h, w, o], total), configs={"Y": "m=32 n=32 k=32"})
    must_hold(kernel, interpreter)
