"""Hand-written Triton kernels, the rivals of ours: our own versions of Triton's tutorials.

After the tutorials 02 (fused softmax), 03 (matrix multiplication), 05 (layer norm) and 06 (fused
attention), with their order of programs, masks, specialisation of arguments and, for the product,
their list of tiles to tune over. Imports Triton: import this file only where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl


@triton.jit
def softmax(y, x, x_stride, y_stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    start = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(start, n_rows, step, num_stages=STAGES):
        at = tl.arange(0, BLOCK)
        mask = at < n_cols
        v = tl.load(x + row * x_stride + at, mask=mask, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(y + row * y_stride + at, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    pid = tl.program_id(axis=0)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    group = pid // in_group
    first = group * GROUP
    size = min(tiles_m - first, GROUP)
    pid_m = first + (pid % in_group) % size
    pid_n = (pid % in_group) // size
    am = (pid_m * BM + tl.arange(0, BM)) % M
    bn = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    ap = a + (am[:, None] * sam + k[None, :] * sak)
    bp = b + (k[:, None] * sbk + bn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(tl.cdiv(K, BK)):
        x = tl.load(ap, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    out = acc.to(tl.float16)
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    cp = c + scm * cm[:, None] + scn * cn[None, :]
    tl.store(cp, out, mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def layernorm(x, y, w, b, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        at = off + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        at = off + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < N, other=0.0).to(tl.float32)
        v = tl.where(at < N, v - mean, 0.0)
        square += v * v
    rstd = 1 / tl.sqrt(tl.sum(square, axis=0) / N + eps)
    for off in range(0, N, BLOCK):
        at = off + tl.arange(0, BLOCK)
        mask = at < N
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        out = (v - mean) * rstd * tl.load(w + at, mask=mask) + tl.load(b + at, mask=mask)
        tl.store(y + at, out, mask=mask)


@triton.jit
def attention(q, k, v, o, sm_scale, sz, sh, sm, sk, H, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    start = tl.program_id(0)
    hz = tl.program_id(1)
    base = (hz // H).to(tl.int64) * sz + (hz % H).to(tl.int64) * sh
    m = start * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    high = tl.zeros([BM], dtype=tl.float32) - float("inf")
    total = tl.zeros([BM], dtype=tl.float32) + 1.0
    acc = tl.zeros([BM, D], dtype=tl.float32)
    scale = sm_scale * 1.44269504
    x = tl.load(q + base + m[:, None] * sm + d[None, :] * sk)
    for at in range(0, N, BN):
        kt = tl.load(k + base + (at + n)[None, :] * sm + d[:, None] * sk)
        s = tl.dot(x, kt)
        grown = tl.maximum(high, tl.max(s, 1) * scale)
        p = tl.math.exp2(s * scale - grown[:, None])
        alpha = tl.math.exp2(high - grown)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        vt = tl.load(v + base + (at + n)[:, None] * sm + d[None, :] * sk)
        acc = tl.dot(p.to(tl.float16), vt, acc)
        high = grown
    acc = acc / total[:, None]
    tl.store(o + base + m[:, None] * sm + d[None, :] * sk, acc.to(tl.float16))


# Tiles of the tutorial on products: m, n, k, warps, stages.
MATMUL_TILES = (
    (128, 256, 64, 8, 3), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 2, 5), (32, 64, 32, 2, 5),
)  # fmt: skip


class Matmul:
    """C = A B in f16; the tiles are those that Triton's autotuner finds fastest, or the given."""

    def __init__(self, tiles: tuple[int, int, int, int, int] | None = None) -> None:
        self._tiles = tiles
        configs = [
            triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=w, num_stages=s)
            for m, n, k, w, s in MATMUL_TILES
        ]
        self._tuned = triton.autotune(configs=configs, key=["M", "N", "K"])(matmul)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        (a, b), (c,) = inputs, outputs
        (m, k), n = a.shape, b.shape[1]
        given = (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
        if self._tiles is None:
            self._tuned[lambda t: (triton.cdiv(m, t["BM"]) * triton.cdiv(n, t["BN"]),)](*given)
            return
        bm, bn, bk, warps, stages = self._tiles
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        matmul[grid](*given, bm, bn, bk, 8, num_warps=warps, num_stages=stages)


def run_softmax(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Softmax along rows; persistent, as many programs as a large GPU holds at once."""
    (x,), (y,) = inputs, outputs
    rows, length = x.shape
    block = triton.next_power_of_2(length)
    programs = min(rows, 132 * (4 if block <= 4096 else 1))
    softmax[(programs,)](
        y, x, x.stride(0), y.stride(0), rows, length, block, 2, num_warps=8, num_stages=2
    )


def run_layernorm(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Layer norm along rows, with weight and bias."""
    (x, w, b), (y,) = inputs, outputs
    rows, length = x.shape
    block = min(triton.next_power_of_2(length), 65536 // x.element_size())
    warps = min(max(block // 256, 1), 8)
    layernorm[(rows,)](x, y, w, b, x.stride(0), length, 1e-5, block, num_warps=warps)


def run_attention(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Attention without a mask; lengths must be multiples of the tiles, as in the tutorial."""
    (q, k, v), (o,) = inputs, outputs
    batch, heads, length, head = q.shape
    bm, bn = (128, 64) if head <= 64 else (128, 32)
    if length % bm or length % bn:
        raise ValueError(f"the tutorial's attention takes lengths that {bm} divides")
    attention[(length // bm, batch * heads)](
        q, k, v, o, head**-0.5, q.stride(0), q.stride(1), q.stride(2), q.stride(3), heads, length,
        head, bm, bn, num_warps=4 if head <= 64 else 8, num_stages=3,
    )  # fmt: skip
