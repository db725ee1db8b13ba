"""The programs of the GPU table: odd shapes, all forms, all types. Small, for the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planish.tensor import functions as f
from planish.tensor.einsum import einsum_program, parse_spec
from planish.tensor.expr import Axis, Expr, Tensor, axes, cast
from planish.tensor.positions import argmax, argmin, position
from planish.tensor.types import type_of


@dataclass(frozen=True)
class Case:
    """A program with the tiles for the check (small) and the precision."""

    name: str
    outputs: tuple[Tensor, ...]
    configs: dict[str, str]
    precision: str = "ieee"


def _matmul(m: int, k: int, n: int, a: str, b: str, out: str, post: Callable[[Expr], Expr] | None = None) -> Tensor:  # fmt: skip
    i, j, x = axes("m n k")
    left, right = f.tensor("A", (m, k), a), f.tensor("B", (k, n), b)
    wide = "i32" if a == b == "i8" else "f32"
    total = f.sum(x, cast(left[i, x], wide) * cast(right[x, j], wide))
    return f.define("C", [i, j], post(total) if post else total, out)


def _einsum(spec: str, shapes: list[tuple[int, ...]], type: str, semiring: str = "sum-product") -> Tensor:  # fmt: skip
    return einsum_program(
        parse_spec(spec), shapes, [type_of(type)] * len(shapes), semiring=semiring
    )


def softmax(rows: int, length: int, type: str = "f32") -> Tensor:
    m, n = axes("m n")
    x = f.tensor("X", (rows, length), type)
    top = f.define("top", [m], f.max(n, x[m, n]), "f32")
    e = f.define("e", [m, n], f.exp(x[m, n] - top[m]))
    total = f.define("total", [m], f.sum(n, e[m, n]))
    return f.define("Y", [m, n], e[m, n] / total[m], type)


def layernorm(rows: int, length: int, type: str = "f32") -> Tensor:
    m, n = axes("m n")
    x = f.tensor("X", (rows, length), type)
    w, b = f.tensor("W", (length,)), f.tensor("b", (length,))
    mean = f.define("mean", [m], f.sum(n, cast(x[m, n], "f32")) / float(length))
    difference = f.define("d", [m, n], x[m, n] - mean[m])
    variance = f.define("var", [m], f.sum(n, difference[m, n] * difference[m, n]) / float(length))
    scaled = difference[m, n] * f.rsqrt(variance[m] + 1e-5)
    return f.define("Y", [m, n], scaled * w[n] + b[n], type)


def rmsnorm(rows: int, length: int, type: str) -> Tensor:
    m, n = axes("m n")
    x, w = f.tensor("X", (rows, length), type), f.tensor("W", (length,), type)
    square = f.define("ms", [m], f.sum(n, x[m, n] * x[m, n]) / float(length))
    return f.define("Y", [m, n], x[m, n] * f.rsqrt(square[m] + 1e-6) * w[n], type)


def attention(b: int, h: int, queries: int, keys: int, d: int, type: str, *, bias: bool = False, causal: bool = False) -> Tensor:  # fmt: skip
    i, j, q, k, x, e = axes("b h q k d e")
    query, key = f.tensor("Q", (b, h, queries, d), type), f.tensor("K", (b, h, keys, d), type)
    value = f.tensor("V", (b, h, keys, d), type)
    score: Expr = f.sum(x, query[i, j, q, x] * key[i, j, k, x]) * d**-0.5
    if bias:
        score = score + f.tensor("bias", (queries, keys))[q, k]
    if causal:
        seen = position(Axis("k", keys)) <= position(Axis("q", queries))
        score = f.where(seen, score, float("-inf"))
    s = f.define("S", [i, j, q, k], score)
    top = f.define("top", [i, j, q], f.max(k, s[i, j, q, k]))
    p = f.define("P", [i, j, q, k], f.exp(s[i, j, q, k] - top[i, j, q]))
    total = f.define("total", [i, j, q], f.sum(k, p[i, j, q, k]))
    body = f.sum(k, p[i, j, q, k] / total[i, j, q] * value[i, j, k, e])
    return f.define("O", [i, j, q, e], body, type)


def convolution(type: str, stride: int = 1) -> Tensor:
    n, h, w, r, s, c, o = axes(f"n h={13 // stride} w={11 // stride} r s c o")
    x = f.tensor("X", (2, 13, 11, 5), type)
    k = f.tensor("K", (3, 3, 5, 17), type)
    p = f.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    read = p[n, h * stride + r, w * stride + s, c]
    return f.define("Y", [n, h, w, o], f.relu(f.sum([r, s, c], read * k[r, s, c, o])), type)


def extremes(rows: int, length: int) -> tuple[Tensor, Tensor]:
    m, n = axes("m n")
    x = f.tensor("X", (rows, length))
    most = f.define("most", [m], argmax(n, x[m, n]))
    return most, f.define("least", [m], argmin(n, x[m, n]), "i64")


def mlp() -> Tensor:
    m, n, k, j = axes("m n k j")
    x = f.tensor("X", (33, 70), "f16")
    w1, w2 = f.tensor("W1", (70, 90), "f16"), f.tensor("W2", (90, 40), "f16")
    h = f.define("H", [m, j], f.gelu(f.sum(k, x[m, k] * w1[k, j]), approximate=True), "f16")
    return f.define("Y", [m, n], f.sum(j, h[m, j] * w2[j, n]), "f16")


def swiglu() -> Tensor:
    m, n, k = axes("m n k")
    x = f.tensor("X", (20, 45), "bf16")
    a, b = f.tensor("A", (45, 37), "bf16"), f.tensor("B", (45, 37), "bf16")
    gate = f.sum(k, x[m, k] * a[k, n])
    return f.define("Y", [m, n], gate * f.sigmoid(gate) * f.sum(k, x[m, k] * b[k, n]), "bf16")


def statistics() -> tuple[Tensor, Tensor]:
    m, n = axes("m n")
    x = f.tensor("X", (37, 211))
    mean = f.define("mean", [m], f.sum(n, x[m, n]) / 211.0)
    d = x[m, n] - mean[m]
    return mean, f.define("var", [m], f.sum(n, d * d) / 211.0)


def cases() -> list[Case]:
    """All of them."""
    small = {"C": "m=32 n=32 k=32"}
    m, n = axes("m n")
    x = f.tensor("X", (45, 83))
    t = f.tensor("X", (7, 45, 50), "f16")
    flags = f.tensor("X", (37, 130), "bool")
    whole = f.tensor("X", (37, 130), "i32")
    i, j, b = axes("i j b")

    def case(name: str, out: Tensor | tuple[Tensor, ...], configs: dict[str, str] | None = None, precision: str = "ieee") -> Case:  # fmt: skip
        return Case(name, out if isinstance(out, tuple) else (out,), configs or {}, precision)

    bias = f.tensor("bias", (45,))
    return [
        case("matmul f16 67x70x45", _matmul(67, 70, 45, "f16", "f16", "f16"), small),
        case("matmul bf16 33x129x47", _matmul(33, 129, 47, "bf16", "bf16", "bf16"), small),
        case("matmul f32 64x64x64", _matmul(64, 64, 64, "f32", "f32", "f32"), small),
        case("matmul f32 tf32 65x33x70", _matmul(65, 33, 70, "f32", "f32", "f32"), small, "tf32"),
        case("matmul i8 50x100x60", _matmul(50, 100, 60, "i8", "i8", "i32"), small),
        case("matmul i8 x bf16 33x65x40", _matmul(33, 65, 40, "i8", "bf16", "bf16"), small),
        case("matmul + bias + gelu", _matmul(40, 50, 45, "f16", "f16", "f16", lambda v: f.gelu(v + bias[axes("n")[0]])), small),
        case("split-K 33x500x20", _matmul(33, 500, 20, "f16", "f16", "f32"), {"C": "m=32 n=32 k=32 split=4"}),
        case("persistent 100x40x70", _matmul(100, 40, 70, "f16", "f16", "f32"), {"C": "m=32 n=32 k=32 persistent=3"}),
        case("grouped order 100x40x70", _matmul(100, 40, 70, "f16", "f16", "f32"), {"C": "m=16 n=32 k=32 group=4"}),
        case("batched bmk,bkn->bmn", _einsum("bmk,bkn->bmn", [(3, 33, 40), (3, 40, 21)], "f16"), {"out": "m=32 n=32 k=32"}),
        case("transposed km,nk->mn", _einsum("km,nk->mn", [(40, 33), (21, 40)], "f16"), {"out": "m=32 n=32 k=32"}),
        case("bhqd,bhkd->bhqk", _einsum("bhqd,bhkd->bhqk", [(2, 3, 20, 33), (2, 3, 17, 33)], "bf16"), {"out": "m=32 n=32 k=32"}),
        case("min-plus 33x40x50", _einsum("mk,kn->mn", [(33, 40), (40, 50)], "f32", "min-plus")),
        case("or-and 33x40x50", _einsum("mk,kn->mn", [(33, 40), (40, 50)], "bool", "or-and")),
        case("matrix x vector", _einsum("mk,k->m", [(77, 333), (333,)], "f32")),
        case("convolution 3x3, padded", convolution("f16"), {"Y": "m=64 n=32 k=32"}),
        case("convolution 3x3, stride 2", convolution("f32", 2), {"Y": "m=32 n=32 k=16"}),
        case("softmax 33x700", softmax(33, 700)),
        case("softmax, persistent 33x100", softmax(33, 100), {"Y": "m=2 k=128 persistent=3 stages=2"}),
        case("softmax bf16 online 5x3000", softmax(5, 3000, "bf16"), {"Y": "k=512"}),
        case("layernorm 17x1000", layernorm(17, 1000)),
        case("layernorm f16 in passes", layernorm(5, 1000, "f16"), {"Y": "k=256"}),
        case("rmsnorm bf16 9x513", rmsnorm(9, 513, "bf16")),
        case("attention f16 2x2x37x50x32", attention(2, 2, 37, 50, 32, "f16"), {"O": "m=32 n=32"}),
        case("attention bf16 + bias", attention(1, 2, 40, 33, 24, "bf16", bias=True), {"O": "m=32 n=32"}),
        case("f8 e4m3 x e4m3 67x70x45", _matmul(67, 70, 45, "f8e4m3", "f8e4m3", "f32"), small),
        case("f8 e5m2 x e5m2 33x129x47", _matmul(33, 129, 47, "f8e5m2", "f8e5m2", "bf16"), small),
        case("f8 e4m3 x bf16, f8 out", _matmul(40, 50, 45, "f8e4m3", "bf16", "f8e4m3"), small),
        case("softmax f8 in, f8 out 33x700", softmax(33, 700, "f8e5m2")),
        case("causal attention f16", attention(1, 2, 40, 40, 32, "f16", causal=True), {"O": "m=32 n=32"}),
        case("argmax and argmin 37x301", extremes(37, 301)),
        case("argmax 5x3000 in passes", (f.define("Y", [m], argmax(n, f.tensor("X", (5, 3000), "bf16")[m, n])),), {"Y": "k=512"}),
        case("argmin over all", (f.define("Y", [], argmin([m, n], x[m, n])),)),
        case("all over columns", (f.define("Y", [n], f.all_(m, flags[m, n])),)),
        case("any over rows", f.define("Y", [m], f.any_(n, flags[m, n]))),
        case("xor over columns", f.define("Y", [n], f.reduce("xor", m, whole[m, n]))),
        case("sum of everything, by rule", f.define("Y", [], f.sum([m, n], f.tensor("X", (300, 1001))[m, n]))),
        case("max of rows in parts", f.define("Y", [m], f.max(n, f.tensor("X", (3, 1000), "f16")[m, n]), "f16"), {"Y": "n=1 k=64 split=3"}),
        case("product of everything", f.define("Y", [], f.prod([m, n], x[m, n] * 0.1 + 1.0))),
        case("relu(x) + 1, one dimension", f.define("Y", [m, n], f.relu(x[m, n]) + 1.0)),
        case("transposition of a batch", f.define("Y", [b, j, i], t[b, i, j])),
        case("mlp: two products, gelu between", mlp(), {"H": "m=32 n=32 k=32", "Y": "m=32 n=32 k=32"}),
        case("swiglu", swiglu(), {"Y": "m=32 n=32 k=32"}),
        case("mean and variance, two outputs", statistics()),
    ]  # fmt: skip
