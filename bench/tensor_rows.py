"""Cases of several statements, reductions and elementwise chains."""

from __future__ import annotations

import numpy as np
from tensor_case import Array, Case, floats

import planish as pl


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
        "rows", f"softmax {m_}x{n_}", tensor, [floats(m_, n_)], numpy,
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
        "rows", f"layernorm {m_}x{n_}", tensor, [floats(m_, n_)], numpy,
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

    arrays = [floats(*shape) for _ in range(3)]
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
    arrays = [floats(batch, width), floats(width, inner), floats(inner), floats(inner, width),
              floats(width)]  # fmt: skip

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
        "reduction", f"{name} {shape[0]}x{shape[1]}", tensor, [floats(*shape)],
        lambda x: np.asarray(x.sum(axis)), lambda t, x: x.sum() if axis is None else x.sum(axis),
    )  # fmt: skip


def elementwise(name: str, shape: tuple[int, int]) -> Case:
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
    arrays = [floats(*shape), floats(*shape)]
    return Case("elementwise", f"{name} {shape[0]}x{shape[1]}", tensor, arrays, numpy, torch)
