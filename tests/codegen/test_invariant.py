"""What does not change in a loop is computed before it, as far as registers go."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pl
from planish.codegen import vir
from planish.codegen.invariant import looped
from planish.codegen.lower import lower_nest
from planish.codegen.native import build_image
from planish.tune.tensors import Kernel


def _layernorm() -> Kernel:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (8, 256))
    mean = pl.define("mean", [m], pl.sum(n, x[m, n]) * (1 / 256))
    centred = x[m, n] - mean[m]
    variance = pl.define("variance", [m], pl.sum(n, centred * centred) * (1 / 256))
    y = pl.define("y", [m, n], centred * pl.rsqrt(variance[m] + 1e-5))
    return pl.compile(y, store=False)


def _kernels(items: list[vir.Item]) -> list[vir.Kernel]:
    found: list[vir.Kernel] = []
    for item in items:
        if isinstance(item, vir.Kernel):
            found.append(item)
        elif isinstance(item, vir.Stage):
            found += _kernels(item.body)
        elif isinstance(item, vir.Loop):
            for segment in item.segments:
                found += _kernels(list(segment.body))
    return found


def _names(runs: object) -> list[str]:
    return [ins.op for ins in vir.instructions(runs)]  # type: ignore[arg-type]


def test_the_root_of_a_row_stands_before_its_loop() -> None:
    kernel = _layernorm()
    [phase] = lower_nest(kernel.loops, 64).phases
    body = next(k for k in _kernels(phase.function.body) if k.looped).body
    before, loop = body.runs
    assert isinstance(before, list) and isinstance(loop, vir.Loop)
    assert {"sqrt", "div", "bcast"} <= set(_names([before]))
    assert set(_names([loop])) == {"load", "sub", "mul", "store"}
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(kernel(x), wanted, atol=1e-5)


def test_equal_expressions_of_a_reduction_are_computed_once() -> None:
    [phase] = lower_nest(_layernorm().loops, 64).phases
    variance = next(k for k in _kernels(phase.function.body) if k.name == "variance")
    names = _names(variance.body.runs)
    # One difference for every vector of the row that is multiplied by itself.
    assert names.count("sub") == names.count("fma")


@pytest.mark.parametrize("room", (4, 6, 8, 31))
def test_no_more_is_kept_in_registers_than_there_are(room: int) -> None:
    items = [vir.Ins("load", "f32", 0, (), 0, 0, 8, "f32")]
    for at in range(10):
        items.append(vir.Ins("const", "f32", 2 * at + 1, n=8, imm=float(at)))
        items.append(vir.Ins("add", "f32", 2 * at + 2, (2 * at, 2 * at + 1), n=8))
    items.append(vir.Ins("store", "f32", -1, (20,), 1, 0, 8, "f32"))
    body = looped(vir.Body(8, [items], 21), 5, ((0, 32), (1, 32)), room)
    loop = body.runs[-1]
    assert isinstance(loop, vir.Loop)
    kept = len(body.runs[0]) if len(body.runs) == 2 else 0  # type: ignore[arg-type]
    assert kept + _names([loop]).count("const") == 10
    assert kept == (10 if room == 31 else max(0, room - 5))


def test_zeros_of_both_signs_stay_apart() -> None:
    items = [
        vir.Ins("load", "f32", 0, (), 0, 0, 8, "f32"),
        vir.Ins("const", "f32", 1, n=8, imm=0.0),
        vir.Ins("const", "f32", 2, n=8, imm=-0.0),
        vir.Ins("fma", "f32", 3, (0, 1, 2), n=8),
        vir.Ins("store", "f32", -1, (3,), 1, 0, 8, "f32"),
    ]
    before, _ = looped(vir.Body(8, [items], 4), 3, ((0, 32), (1, 32)), 31).runs
    assert [str(ins.imm) for ins in before] == ["0.0", "-0.0"]  # type: ignore[union-attr]


@pytest.mark.parametrize("width", (32, 64))
def test_many_constants_fit_either_vector(width: int) -> None:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (3, 150))
    body = pl.exp(x[m, n]) + pl.tanh(x[m, n]) * pl.erf(x[m, n]) + pl.log(x[m, n])
    image = build_image(pl.compile(body, store=False).loops, width)
    assert image.origin.startswith("x86")
