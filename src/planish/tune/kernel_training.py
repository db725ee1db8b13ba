"""Tensor programs to learn from: contractions, convolutions, reductions, row-wise fusions.

Drawn from a seed. Shapes that a bench holds out are told by their programs' hashes and skipped.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from planish.base.hashing import digest
from planish.tensor import functions as f
from planish.tensor.expr import Axis, Tensor
from planish.tensor.program import Program, lower

Draw = random.Random

_SIDES = (16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768)
_MOST = 400e6  # operations: larger ones take too long to learn from
_LEAST = 2e5
_FRUITLESS = 300  # draws in a row without a new program


@dataclass(frozen=True)
class Example:
    """One program with the group it belongs to."""

    group: str
    program: Program

    @property
    def identity(self) -> str:
        """See `shape_identity`."""
        return shape_identity(self.program)


def shape_identity(program: Program) -> str:
    """Hash of what is reduced over which lengths: the same for all programs of equal shapes,
    however their tensors are called and lie in memory.
    """
    stages = [
        (s.reduce, [s.extents[a] for a in s.axes], [s.extents[a] for a in s.bound])
        for s in program.stages
    ]
    return digest(str(stages))


def training_examples(
    count: int, seed: int = 0, held_out: Collection[str] = (), groups: Collection[str] = ()
) -> Iterator[Example]:
    """So many different programs, group after group in turn.

    held_out  identities that must not be among them
    groups    only these; all where none is given
    A group that has no more new ones is left out from there on; fewer come where none has.
    """
    draw = Draw(seed)
    chosen = [name for name in GROUPS if not groups or name in groups]
    seen = set(held_out)
    found = fruitless = 0
    while found < count and chosen:
        group = chosen[found % len(chosen)]
        example = Example(group, lower([GROUPS[group](draw)]))
        work = example.program.flops()
        if example.identity in seen or not _LEAST <= work <= _MOST:
            fruitless += 1
            if fruitless == _FRUITLESS:
                chosen.remove(group)
                fruitless = 0
            continue
        seen.add(example.identity)
        found += 1
        fruitless = 0
        yield example


def _side(draw: Draw, most: int = 800) -> int:
    """A length on or off multiples of 16, even on a logarithmic scale."""
    if draw.random() < 0.5:
        return draw.choice([side for side in _SIDES if side <= most])
    return round(2 ** draw.uniform(4, math.log2(most)))


def matmul(m_: int, n_: int, k_: int, *, transposed: bool = False) -> Tensor:
    """C = A B, or A B^T."""
    m, n, k = Axis("m"), Axis("n"), Axis("k")
    a = f.tensor("A", (m_, k_))
    b = f.tensor("B", (n_, k_) if transposed else (k_, n_))
    right = b[n, k] if transposed else b[k, n]
    return f.define("C", [m, n], f.sum(k, a[m, k] * right))


def _matmul(draw: Draw) -> Tensor:
    sides = [_side(draw) for _ in range(3)]
    return matmul(*sides, transposed=draw.random() < 0.2)


def _thin(draw: Draw) -> Tensor:
    sides = [_side(draw, 32), _side(draw, 1024), _side(draw, 512)]
    draw.shuffle(sides)
    return matmul(*sides)


def _vector(draw: Draw) -> Tensor:
    m, k = Axis("m"), Axis("k")
    rows, depth = _side(draw, 2048), _side(draw, 2048)
    x = f.tensor("x", (depth,))
    if draw.random() < 0.5:
        a = f.tensor("A", (rows, depth))
        return f.define("y", [m], f.sum(k, a[m, k] * x[k]))
    a = f.tensor("A", (depth, rows))
    return f.define("y", [m], f.sum(k, x[k] * a[k, m]))


def _batched(draw: Draw) -> Tensor:
    b, m, n, k = (Axis(x) for x in "bmnk")
    count = draw.choice((4, 8, 16, 32, 64, 128))
    shape = [_side(draw, 128) for _ in range(3)]
    x = f.tensor("A", (count, shape[0], shape[2]))
    y = f.tensor("B", (count, shape[2], shape[1]))
    return f.define("C", [b, m, n], f.sum(k, x[b, m, k] * y[b, k, n]))


def conv(
    size: int, cin: int, cout: int, kernel: int, stride: int, *, channels_first: bool
) -> Tensor:
    """A square convolution of an input that is padded already; size is the output's."""
    r, s, c, o = (Axis(x) for x in "rsco")
    h, w = Axis("h", size), Axis("w", size)
    edge = (size - 1) * stride + kernel
    if channels_first:
        x, y = f.tensor("x", (cin, edge, edge)), f.tensor("f", (cout, cin, kernel, kernel))
        body = x[c, stride * h + r, stride * w + s] * y[o, c, r, s]
        return f.define("y", [o, h, w], f.sum([c, r, s], body))
    x, y = f.tensor("x", (edge, edge, cin)), f.tensor("f", (kernel, kernel, cin, cout))
    body = x[stride * h + r, stride * w + s, c] * y[r, s, c, o]
    return f.define("y", [h, w, o], f.sum([r, s, c], body))


def _conv(draw: Draw) -> Tensor:
    channels = (8, 16, 20, 32, 48, 64, 96, 128, 192)
    return conv(
        draw.choice((7, 10, 14, 20, 28, 40, 56)), draw.choice((3, *channels)),
        draw.choice(channels), draw.choice((1, 3, 3, 5)), draw.choice((1, 1, 2)),
        channels_first=draw.random() < 0.5,
    )  # fmt: skip


def _depthwise(draw: Draw) -> Tensor:
    r, s, c = Axis("r"), Axis("s"), Axis("c")
    size, channels = draw.choice((14, 20, 28, 40, 56, 80)), draw.choice((16, 24, 48, 96, 144, 192))
    h, w = Axis("h", size), Axis("w", size)
    x, y = f.tensor("x", (size + 2, size + 2, channels)), f.tensor("f", (3, 3, channels))
    return f.define("y", [h, w, c], f.sum([r, s], x[h + r, w + s, c] * y[r, s, c]))


def _reduction(draw: Draw) -> Tensor:
    m, n = Axis("m"), Axis("n")
    x = f.tensor("x", (_side(draw, 2048), _side(draw, 2048)))
    kept, gone = (m, n) if draw.random() < 0.5 else (n, m)
    how = draw.choice((f.sum, f.max, f.sum))
    body = x[m, n] * x[m, n] if draw.random() < 0.3 else x[m, n]
    return f.define("y", [kept], how(gone, body))


def softmax(rows: int, columns: int) -> Tensor:
    """Of each row."""
    m, n = Axis("m"), Axis("n")
    x = f.tensor("x", (rows, columns))
    e = f.define("e", [m, n], f.exp(x[m, n] - f.max(n, x[m, n])))
    scale = f.define("scale", [m], 1.0 / f.sum(n, e[m, n]))
    return f.define("y", [m, n], e[m, n] * scale[m])


def layernorm(rows: int, columns: int) -> Tensor:
    """Of each row, without gain and bias."""
    m, n = Axis("m"), Axis("n")
    x = f.tensor("x", (rows, columns))
    mean = f.define("mean", [m], f.sum(n, x[m, n]) * (1 / columns))
    centred = x[m, n] - mean[m]
    variance = f.define("variance", [m], f.sum(n, centred * centred) * (1 / columns))
    return f.define("y", [m, n], centred * f.rsqrt(variance[m] + 1e-5))


def _rows(draw: Draw) -> Tensor:
    make = draw.choice((softmax, layernorm))
    return make(_side(draw, 512), _side(draw, 2048))


def _elementwise(draw: Draw) -> Tensor:
    m, n = Axis("m"), Axis("n")
    shape = (_side(draw, 1024), _side(draw, 1024))
    x, y = f.tensor("x", shape), f.tensor("y", shape)
    a, b = x[m, n], y[m, n]
    body = draw.choice(
        (a * 2.0 + b, f.gelu(a, approximate=True) + b, f.sigmoid(a) * b, f.relu(a - b))
    )
    return f.define("z", [m, n], body)


def _min_plus(draw: Draw) -> Tensor:
    m, n, k = Axis("m"), Axis("n"), Axis("k")
    sides = [_side(draw, 192) for _ in range(3)]
    a, b = f.tensor("A", (sides[0], sides[2])), f.tensor("B", (sides[2], sides[1]))
    return f.define("C", [m, n], f.min(k, a[m, k] + b[k, n]))


GROUPS: dict[str, Callable[[Draw], Tensor]] = {
    "contraction": _matmul, "conv": _conv, "thin": _thin, "batched": _batched, "rows": _rows,
    "reduction": _reduction, "vector": _vector, "depthwise": _depthwise,
    "elementwise": _elementwise, "min-plus": _min_plus,
}  # fmt: skip
