"""The table of shapes that the tensor benches run: ours, NumPy's and PyTorch's way of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tensor_case import NUMBERS, Array, Case, floats
from tensor_rows import attention, elementwise, layernorm, mlp, reduction, softmax

import planish as pl


def matmul(group: str, m_: int, n_: int, k_: int, kind: str = "f32") -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_), kind), pl.tensor("B", (k_, n_), kind)
    tensor = pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))
    arrays = [floats(m_, k_, kind=kind), floats(k_, n_, kind=kind)]
    name = f"{m_}x{n_}x{k_}" + ("" if kind == "f32" else f" {kind}")
    return Case(group, name, tensor, arrays, lambda x, y: x @ y, lambda t, x, y: x @ y)


def matrix_vector(m_: int, k_: int, transposed: bool) -> Case:
    m, k = pl.axes("m k")
    if transposed:
        a, x = pl.tensor("A", (k_, m_)), pl.tensor("x", (k_,))
        tensor = pl.define("y", [m], pl.sum(k, x[k] * a[k, m]))
        arrays = [floats(k_), floats(k_, m_)]
        return Case("gemv", f"{k_} @ {k_}x{m_}", tensor, arrays, _at, lambda t, p, q: p @ q)
    a, x = pl.tensor("A", (m_, k_)), pl.tensor("x", (k_,))
    tensor = pl.define("y", [m], pl.sum(k, a[m, k] * x[k]))
    arrays = [floats(m_, k_), floats(k_)]
    return Case("gemv", f"{m_}x{k_} @ {k_}", tensor, arrays, _at, lambda t, p, q: p @ q)


def _at(a: Array, b: Array) -> Array:
    result: Array = a @ b
    return result


def batched(b_: int, size: int) -> Case:
    b, m, n, k = pl.axes("b m n k")
    shape = (b_, size, size)
    x, y = pl.tensor("A", shape), pl.tensor("B", shape)
    tensor = pl.define("C", [b, m, n], pl.sum(k, x[b, m, k] * y[b, k, n]))
    return Case(
        "batched", f"{b_} of {size}^3", tensor, [floats(*shape), floats(*shape)], _at,
        lambda t, p, q: p @ q,
    )  # fmt: skip


def conv(name: str, size: int, cin: int, cout: int, kernel: int, stride: int, nchw: bool) -> Case:
    """A square convolution with padding kernel // 2 already applied."""
    h, w, r, s, c, o = pl.axes("h w r s c o")
    edge = size + 2 * (kernel // 2)
    out = (edge - kernel) // stride + 1
    hh, ww = pl.axes(f"h={out} w={out}")
    if nchw:
        x, f = pl.tensor("x", (cin, edge, edge)), pl.tensor("f", (cout, cin, kernel, kernel))
        body = x[c, stride * hh + r, stride * ww + s] * f[o, c, r, s]
        tensor = pl.define("y", [o, hh, ww], pl.sum([c, r, s], body))
        arrays = [floats(cin, edge, edge), floats(cout, cin, kernel, kernel)]
    else:
        x, f = pl.tensor("x", (edge, edge, cin)), pl.tensor("f", (kernel, kernel, cin, cout))
        body = x[stride * hh + r, stride * ww + s, c] * f[r, s, c, o]
        tensor = pl.define("y", [hh, ww, o], pl.sum([r, s, c], body))
        arrays = [floats(edge, edge, cin), floats(kernel, kernel, cin, cout)]

    def numpy(x: Array, f: Array) -> Array:
        axes = (1, 2) if nchw else (0, 1)
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axes)
        if nchw:
            seen = windows[:, ::stride, ::stride]
            return np.einsum("chwrs,ocrs->ohw", seen, f, optimize=True)
        return np.einsum("hwcrs,rsco->hwo", windows[::stride, ::stride], f, optimize=True)

    def torch(t: Any, x: Any, f: Any) -> Any:
        if nchw:
            return t.nn.functional.conv2d(x[None], f, stride=stride)[0]
        moved = x.permute(2, 0, 1)[None]  # channels last in memory, as ours
        return t.nn.functional.conv2d(moved, f.permute(3, 2, 0, 1), stride=stride)[0].permute(
            1, 2, 0
        )

    layout = "NCHW" if nchw else "NHWC"
    del h, w
    return Case("conv", f"{name} {layout}", tensor, arrays, numpy, torch)


def depthwise(size: int, channels: int) -> Case:
    r, s, c = pl.axes("r s c")
    h, w = pl.axes(f"h={size} w={size}")
    x, f = pl.tensor("x", (size + 2, size + 2, channels)), pl.tensor("f", (3, 3, channels))
    tensor = pl.define("y", [h, w, c], pl.sum([r, s], x[h + r, w + s, c] * f[r, s, c]))

    def numpy(x: Array, f: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (0, 1))
        return np.einsum("hwcrs,rsc->hwc", windows, f)

    def torch(t: Any, x: Any, f: Any) -> Any:
        weights = f.permute(2, 0, 1)[:, None]
        moved = x.permute(2, 0, 1)[None]
        return t.nn.functional.conv2d(moved, weights, groups=channels)[0].permute(1, 2, 0)

    arrays = [floats(size + 2, size + 2, channels), floats(3, 3, channels)]
    return Case("conv", f"depthwise {size}x{size}x{channels}", tensor, arrays, numpy, torch)


def min_plus(size: int) -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (size, size)), pl.tensor("B", (size, size))
    tensor = pl.define("C", [m, n], pl.min(k, a[m, k] + b[k, n]))

    def numpy(a: Array, b: Array) -> Array:
        return np.stack([(row[:, None] + b).min(0) for row in a])

    return Case(
        "min-plus", f"{size}^3", tensor, [floats(size, size), floats(size, size)], numpy,
        lambda t, a, b: (a[:, :, None] + b[None]).amin(1),
    )  # fmt: skip


def _fft_stage(n_: int) -> Case:
    """A radix-2 stage on separate real and imaginary parts."""
    (i,) = pl.axes(f"i={n_ // 2}")
    re, im = pl.tensor("re", (n_,)), pl.tensor("im", (n_,))
    wr, wi = pl.tensor("wr", (n_ // 2,)), pl.tensor("wi", (n_ // 2,))
    half = n_ // 2
    tensor = pl.define("out", [i], (re[i] - re[i + half]) * wr[i] - (im[i] - im[i + half]) * wi[i])

    def numpy(re: Array, wr: Array, im: Array, wi: Array) -> Array:
        result: Array = (re[:half] - re[half:]) * wr - (im[:half] - im[half:]) * wi
        return result

    arrays = [floats(n_), floats(half), floats(n_), floats(half)]
    return Case("fft", f"stage of {n_}", tensor, arrays, numpy, lambda t, *x: numpy(*x))


def _int8_dot(m_: int, n_: int, k_: int) -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_), "i8"), pl.tensor("B", (k_, n_), "i8")
    product = pl.cast(a[m, k], "i32") * pl.cast(b[k, n], "i32")
    tensor = pl.define("C", [m, n], pl.sum(k, product))
    arrays = [NUMBERS.integers(-100, 100, s).astype(np.int8) for s in ((m_, k_), (k_, n_))]
    return Case(
        "int8", f"{m_}x{n_}x{k_}", tensor, arrays,
        lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
        lambda t, a, b: t._int_mm(a, b) if m_ > 16 else a.int() @ b.int(),
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """All rows."""
    for size in (8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048):
        yield matmul("square", size, size, size)
    for shape in (
        (1024, 16, 1024),
        (16, 1024, 1024),
        (1024, 1024, 16),
        (2048, 8, 512),
        (64, 4096, 64),
    ):
        yield matmul("thin", *shape)
    for shape in ((127, 129, 131), (33, 65, 17), (255, 257, 254), (100, 100, 100), (7, 511, 300)):
        yield matmul("odd", *shape)
    yield matmul("f64", 256, 256, 256, "f64")
    yield matmul("f64", 512, 512, 512, "f64")
    for shape in ((256, 256), (1024, 1024), (4096, 512)):
        yield matrix_vector(*shape, transposed=False)
        yield matrix_vector(*shape, transposed=True)
    for count, size in ((256, 8), (128, 16), (64, 32), (16, 64)):
        yield batched(count, size)
    for nchw in (False, True):
        yield conv("resnet 56x56 64>64 3x3", 56, 64, 64, 3, 1, nchw)
        yield conv("resnet 28x28 128>128 3x3", 28, 128, 128, 3, 1, nchw)
        yield conv("resnet 14x14 256>256 3x3", 14, 256, 256, 3, 1, nchw)
        yield conv("resnet 56x56 64>128 1x1/2", 56, 64, 128, 1, 2, nchw)
        yield conv("mobilenet 28x28 192>64 1x1", 28, 192, 64, 1, 1, nchw)
    yield depthwise(56, 64)
    yield depthwise(14, 384)
    for shape in ((128, 128), (512, 1024), (64, 4096)):
        yield softmax(*shape)
    for shape in ((128, 768), (512, 1024)):
        yield layernorm(*shape)
    yield attention(8, 128, 64)
    yield attention(4, 256, 32)
    yield mlp(32, 256, 1024)
    yield mlp(128, 512, 512)
    yield reduction("rows", (1000, 1000), 1)
    yield reduction("columns", (1000, 1000), 0)
    yield reduction("all", (1000, 1000), None)
    for name in ("axpy", "gelu", "chain", "sigmoid"):
        yield elementwise(name, (256, 1024))
    for size in (64, 128, 256):
        yield min_plus(size)
    yield _fft_stage(4096)
    yield _int8_dot(128, 128, 128)
    yield _int8_dot(256, 512, 256)
