"""Blocks of networks as programs of several statements, to compile and to tune.

planish tune-kernel examples/blocks.py:mlp --budget 10s -o mlp.txt
planish compile     examples/blocks.py:mlp --schedule mlp.txt
"""

from __future__ import annotations

import planish as pl


def mlp(batch: int = 32, width: int = 256, inner: int = 1024) -> pl.Tensor:
    """Two layers with a ReLU between them."""
    b, i, j, o = pl.axes("b i j o")
    x = pl.tensor("x", (batch, width))
    w1, w2 = pl.tensor("w1", (width, inner)), pl.tensor("w2", (inner, width))
    b1, b2 = pl.tensor("b1", (inner,)), pl.tensor("b2", (width,))
    hidden = pl.define("hidden", [b, j], pl.relu(pl.sum(i, x[b, i] * w1[i, j]) + b1[j]))
    return pl.define("y", [b, o], pl.sum(j, hidden[b, j] * w2[j, o]) + b2[o])


def attention(heads: int = 4, length: int = 128, width: int = 32) -> pl.Tensor:
    """Scaled dot products, a softmax over them, and the values weighted by it."""
    h, q, k, d = pl.axes("h q k d")
    queries, keys, values = (pl.tensor(name, (heads, length, width)) for name in "QKV")
    scores = pl.sum(d, queries[h, q, d] * keys[h, k, d]) * width**-0.5
    s = pl.define("S", [h, q, k], scores)
    e = pl.define("E", [h, q, k], pl.exp(s[h, q, k] - pl.max(k, s[h, q, k])))
    total = pl.define("total", [h, q], pl.sum(k, e[h, q, k]))
    return pl.define("O", [h, q, d], pl.sum(k, e[h, q, k] * values[h, k, d]) / total[h, q])


def resnet(size: int = 14, channels: int = 64) -> pl.Tensor:
    """Two 3x3 convolutions (NHWC, folded batch normalisation) around a skip connection."""
    h, w, c, o, p, r, s = pl.axes("h w c o p r s")
    x = pl.tensor("x", (size, size, channels))
    k1, k2 = (pl.tensor(name, (3, 3, channels, channels)) for name in ("k1", "k2"))
    b1, b2 = (pl.tensor(name, (channels,)) for name in ("b1", "b2"))
    around = ((1, 1), (1, 1), (0, 0))
    first = pl.pad(x, around)
    product = first[h + r, w + s, c] * k1[r, s, c, o]
    middle = pl.define("middle", [h, w, o], pl.relu(pl.sum([r, s, c], product) + b1[o]))
    second = pl.pad(middle, around)
    product = second[h + r, w + s, o] * k2[r, s, o, p]
    return pl.define("y", [h, w, p], pl.relu(pl.sum([r, s, o], product) + b2[p] + x[h, w, p]))
