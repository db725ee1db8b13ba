"""The table of shapes that the tensor benches run: ours, NumPy's and PyTorch's way of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import planish as pl

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One row: a tensor to compile, its arrays, and the peers (torch gets tensors)."""

    group: str
    name: str
    tensor: Any
    arrays: list[Array]
    numpy: Callable[..., Array]
    torch: Callable[..., Any] | None


_NUMBERS = np.random.default_rng(0)


def _floats(*shape: int, kind: str = "f32") -> Array:
    return _NUMBERS.standard_normal(shape).astype("float32" if kind == "f32" else "float64")


def matmul(group: str, m_: int, n_: int, k_: int, kind: str = "f32") -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_), kind), pl.tensor("B", (k_, n_), kind)
    tensor = pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))
    arrays = [_floats(m_, k_, kind=kind), _floats(k_, n_, kind=kind)]
    name = f"{m_}x{n_}x{k_}" + ("" if kind == "f32" else f" {kind}")
    return Case(group, name, tensor, arrays, lambda x, y: x @ y, lambda t, x, y: x @ y)


def matrix_vector(m_: int, k_: int, transposed: bool) -> Case:
    m, k = pl.axes("m k")
    if transposed:
        a, x = pl.tensor("A", (k_, m_)), pl.tensor("x", (k_,))
        tensor = pl.define("y", [m], pl.sum(k, x[k] * a[k, m]))
        arrays = [_floats(k_), _floats(k_, m_)]
        return Case("gemv", f"{k_} @ {k_}x{m_}", tensor, arrays, _at, lambda t, p, q: p @ q)
    a, x = pl.tensor("A", (m_, k_)), pl.tensor("x", (k_,))
    tensor = pl.define("y", [m], pl.sum(k, a[m, k] * x[k]))
    arrays = [_floats(m_, k_), _floats(k_)]
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
        "batched", f"{b_} of {size}^3", tensor, [_floats(*shape), _floats(*shape)], _at,
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
        arrays = [_floats(cin, edge, edge), _floats(cout, cin, kernel, kernel)]
    else:
        x, f = pl.tensor("x", (edge, edge, cin)), pl.tensor("f", (kernel, kernel, cin, cout))
        body = x[stride * hh + r, stride * ww + s, c] * f[r, s, c, o]
        tensor = pl.define("y", [hh, ww, o], pl.sum([r, s, c], body))
        arrays = [_floats(edge, edge, cin), _floats(kernel, kernel, cin, cout)]

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

    arrays = [_floats(size + 2, size + 2, channels), _floats(3, 3, channels)]
    return Case("conv", f"depthwise {size}x{size}x{channels}", tensor, arrays, numpy, torch)


def softmax(m_: int, n_: int) -> Case:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (m_, n_))
    e = pl.define("e", [m, n], pl.exp(x[m, n] - pl.max(n, x[m, n])))
    scale = pl.define("scale", [m], 1.0 / pl.sum(n, e[m, n]))
    tensor = pl.define("y", [m, n], e[m, n] * scale[m])

    def numpy(x: Array) -> Array:
        e = np.exp(x - x.max(1, keepdims=True))
        result: Array = e / e.sum(1, keepdims=True)
        return result

    return Case(
        "rows", f"softmax {m_}x{n_}", tensor, [_floats(m_, n_)], numpy,
        lambda t, x: t.softmax(x, 1),
    )  # fmt: skip


def layernorm(m_: int, n_: int) -> Case:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (m_, n_))
    mean = pl.define("mean", [m], pl.sum(n, x[m, n]) * (1 / n_))
    centred = x[m, n] - mean[m]
    variance = pl.define("variance", [m], pl.sum(n, centred * centred) * (1 / n_))
    tensor = pl.define("y", [m, n], centred * pl.rsqrt(variance[m] + 1e-5))

    def numpy(x: Array) -> Array:
        c = x - x.mean(1, keepdims=True)
        result: Array = c / np.sqrt((c * c).mean(1, keepdims=True) + np.float32(1e-5))
        return result

    return Case(
        "rows", f"layernorm {m_}x{n_}", tensor, [_floats(m_, n_)], numpy,
        lambda t, x: t.nn.functional.layer_norm(x, (n_,)),
    )  # fmt: skip


def attention(heads: int, length: int, width: int) -> Case:
    h, q, k, d = pl.axes("h q k d")
    shape = (heads, length, width)
    a, b, v = (pl.tensor(name, shape) for name in "QKV")
    scale = width**-0.5
    s = pl.define("S", [h, q, k], pl.sum(d, a[h, q, d] * b[h, k, d]) * scale)
    e = pl.define("E", [h, q, k], pl.exp(s[h, q, k] - pl.max(k, s[h, q, k])))
    total = pl.define("total", [h, q], pl.sum(k, e[h, q, k]))
    tensor = pl.define("O", [h, q, d], pl.sum(k, e[h, q, k] * v[h, k, d]) / total[h, q])

    def numpy(a: Array, b: Array, v: Array) -> Array:
        s = a @ b.transpose(0, 2, 1) * np.float32(scale)
        e = np.exp(s - s.max(2, keepdims=True))
        result: Array = (e / e.sum(2, keepdims=True)) @ v
        return result

    arrays = [_floats(*shape) for _ in range(3)]
    return Case(
        "attention", f"{heads} heads {length}x{width}", tensor, arrays, numpy,
        lambda t, *x: t.nn.functional.scaled_dot_product_attention(*(y[None] for y in x))[0],
    )  # fmt: skip


def mlp(batch: int, width: int, inner: int) -> Case:
    b, i, j, o = pl.axes("b i j o")
    x = pl.tensor("x", (batch, width))
    w1, w2 = pl.tensor("w1", (width, inner)), pl.tensor("w2", (inner, width))
    b1, b2 = pl.tensor("b1", (inner,)), pl.tensor("b2", (width,))
    hidden = pl.define("hidden", [b, j], pl.relu(pl.sum(i, x[b, i] * w1[i, j]) + b1[j]))
    tensor = pl.define("y", [b, o], pl.sum(j, hidden[b, j] * w2[j, o]) + b2[o])
    arrays = [_floats(batch, width), _floats(width, inner), _floats(inner), _floats(inner, width),
              _floats(width)]  # fmt: skip

    def numpy(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
        result: Array = np.maximum(x @ w1 + b1, 0) @ w2 + b2
        return result

    return Case(
        "mlp", f"{batch}x{width}x{inner}", tensor, arrays, numpy,
        lambda t, x, w1, b1, w2, b2: t.relu(x @ w1 + b1) @ w2 + b2,
    )  # fmt: skip


def reduction(name: str, shape: tuple[int, ...], axis: int | None) -> Case:
    m, n = pl.axes("m n")
    x = pl.tensor("x", shape)
    if axis is None:
        tensor = pl.define("y", [], pl.sum([m, n], x[m, n]))
    else:
        kept, gone = (m, n) if axis == 1 else (n, m)
        tensor = pl.define("y", [kept], pl.sum(gone, x[m, n]))
    return Case(
        "reduction", f"{name} {shape[0]}x{shape[1]}", tensor, [_floats(*shape)],
        lambda x: np.asarray(x.sum(axis)), lambda t, x: x.sum() if axis is None else x.sum(axis),
    )  # fmt: skip


def _elementwise(name: str, shape: tuple[int, int]) -> Case:
    m, n = pl.axes("m n")
    x, y = pl.tensor("x", shape), pl.tensor("y", shape)
    a, b = x[m, n], y[m, n]
    built, numpy, torch = {
        "axpy": (a * 2.0 + b, lambda x, y: x * np.float32(2) + y, lambda t, x, y: x * 2 + y),
        "gelu": (
            pl.gelu(a, approximate=True) + b,
            lambda x, y: np.float32(0.5) * x * (1 + np.tanh(
                np.float32(0.7978845608) * (x + np.float32(0.044715) * x * x * x))) + y,
            lambda t, x, y: t.nn.functional.gelu(x, approximate="tanh") + y,
        ),
        "chain": (
            pl.sqrt(pl.absolute(a * b + 1.0)) / (pl.exp(-pl.absolute(a)) + 1.0),
            lambda x, y: np.sqrt(np.abs(x * y + 1)) / (np.exp(-np.abs(x)) + 1),
            lambda t, x, y: t.sqrt(t.abs(x * y + 1)) / (t.exp(-t.abs(x)) + 1),
        ),
        "sigmoid": (
            pl.sigmoid(a) * b, lambda x, y: 1 / (1 + np.exp(-x)) * y,
            lambda t, x, y: t.sigmoid(x) * y,
        ),
    }[name]  # fmt: skip
    tensor = pl.define("z", [m, n], built)
    arrays = [_floats(*shape), _floats(*shape)]
    return Case("elementwise", f"{name} {shape[0]}x{shape[1]}", tensor, arrays, numpy, torch)


def min_plus(size: int) -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (size, size)), pl.tensor("B", (size, size))
    tensor = pl.define("C", [m, n], pl.min(k, a[m, k] + b[k, n]))

    def numpy(a: Array, b: Array) -> Array:
        return np.stack([(row[:, None] + b).min(0) for row in a])

    return Case(
        "min-plus", f"{size}^3", tensor, [_floats(size, size), _floats(size, size)], numpy,
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

    arrays = [_floats(n_), _floats(half), _floats(n_), _floats(half)]
    return Case("fft", f"stage of {n_}", tensor, arrays, numpy, lambda t, *x: numpy(*x))


def _int8_dot(m_: int, n_: int, k_: int) -> Case:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_), "i8"), pl.tensor("B", (k_, n_), "i8")
    product = pl.cast(a[m, k], "i32") * pl.cast(b[k, n], "i32")
    tensor = pl.define("C", [m, n], pl.sum(k, product))
    arrays = [_NUMBERS.integers(-100, 100, s).astype(np.int8) for s in ((m_, k_), (k_, n_))]
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
        yield _elementwise(name, (256, 1024))
    for size in (64, 128, 256):
        yield min_plus(size)
    yield _fft_stage(4096)
    yield _int8_dot(128, 128, 128)
    yield _int8_dot(256, 512, 256)
