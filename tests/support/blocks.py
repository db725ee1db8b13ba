"""Blocks of networks as programs of several statements, of any size, type and way of writing.

Values are small whole numbers, so that sums are exact in any order; a softmax is near enough.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

import planish as pl
from planish.tensor.expr import Axis, Expr, Tensor
from planish.tensor.program import Program
from planish.tensor.types import BF16


def statements(
    name: str, over: list[Axis], value: Expr, then: list[Callable[[Expr], Expr]], apart: bool,
    kind: str,
) -> Tensor:  # fmt: skip
    """A value and what is done to it, one after the other: in one statement, or in one each."""
    for at, part in enumerate(then):
        value = part(pl.define(f"{name}_{at}", over, value, kind)[tuple(over)] if apart else value)
    return pl.define(name, over, value, kind)


def mlp(batch: int, width: int, inner: int, *, kind: str = "f32", apart: bool = False) -> Tensor:
    """Two products with a bias and a ReLU between them."""
    b, i, j, o = pl.axes("b i j o")
    x, w1 = pl.tensor("x", (batch, width), kind), pl.tensor("w1", (width, inner), kind)
    w2, bias = pl.tensor("w2", (inner, width), kind), pl.tensor("bias", (inner,), kind)
    product = pl.sum(i, x[b, i] * w1[i, j])
    hidden = statements("hidden", [b, j], product, [lambda v: v + bias[j], pl.relu], apart, kind)
    return pl.define("y", [b, o], pl.sum(j, hidden[b, j] * w2[j, o]), kind)


def resnet(
    size: int, channels: int, inner: int, *, kind: str = "f32", apart: bool = False
) -> Tensor:
    """Two 3x3 convolutions around a skip connection."""
    h, w, c, o, p, r, s = pl.axes("h w c o p r s")
    x = pl.tensor("x", (size, size + 1, channels), kind)
    k1 = pl.tensor("k1", (3, 3, channels, inner), kind)
    k2 = pl.tensor("k2", (3, 3, inner, channels), kind)
    b1, b2 = pl.tensor("b1", (inner,), kind), pl.tensor("b2", (channels,), kind)
    first = pl.pad(x, ((1, 1), (1, 1), (0, 0)))
    product = pl.sum([r, s, c], first[h + r, w + s, c] * k1[r, s, c, o])
    middle = statements("middle", [h, w, o], product, [lambda v: v + b1[o], pl.relu], apart, kind)
    second = pl.pad(middle, ((1, 1), (1, 1), (0, 0)))
    product = pl.sum([r, s, o], second[h + r, w + s, o] * k2[r, s, o, p])
    then = [lambda v: v + b2[p], lambda v: v + x[h, w, p], pl.relu]
    return statements("y", [h, w, p], product, then, apart, kind)


def normed(rows: int, depth: int, width: int, *, kind: str = "f32", apart: bool = False) -> Tensor:
    """A product, its scaled rows less their greatest element."""
    m, k, n = pl.axes("m k n")
    a, b = pl.tensor("a", (rows, depth), kind), pl.tensor("b", (depth, width), kind)
    product = pl.sum(k, a[m, k] * b[k, n])
    s = statements("S", [m, n], product, [lambda v: v + v, pl.relu], apart, kind)
    return pl.define("Y", [m, n], s[m, n] - pl.max(n, s[m, n]), kind)


def softmax(rows: int, depth: int, width: int, *, kind: str = "f32", apart: bool = False) -> Tensor:
    """A softmax behind a product."""
    m, k, n = pl.axes("m k n")
    a, b = pl.tensor("a", (rows, depth), kind), pl.tensor("b", (depth, width), kind)
    product = pl.sum(k, a[m, k] * b[k, n])
    s = statements("S", [m, n], product, [lambda v: v * 0.125, pl.tanh], apart, kind)
    e = pl.define("E", [m, n], pl.exp(s[m, n] - pl.max(n, s[m, n])))
    return pl.define("Y", [m, n], e[m, n] / pl.sum(n, e[m, n]), kind)


BLOCKS = {"mlp": mlp, "resnet": resnet, "normed": normed, "softmax": softmax}


def draw_block(draw: random.Random, sizes: dict[str, tuple[int, ...]], kinds: list[str]) -> Tensor:
    """A block of random lengths up to those given for it."""
    name = draw.choice(sorted(sizes))
    lengths = [draw.randint(1, most) for most in sizes[name]]
    kind = draw.choice(kinds if name != "softmax" else ["f32"])
    return BLOCKS[name](*lengths, kind=kind, apart=draw.random() < 0.7)


def draw_inputs(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers for its inputs."""
    numbers = np.random.default_rng(seed)
    found = {}
    for t in program.inputs:
        whole = numbers.integers(-2, 3, t.shape)
        if t.type is BF16:
            found[t.name] = (whole.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:
            found[t.name] = whole.astype(t.type.numpy)
    return found
