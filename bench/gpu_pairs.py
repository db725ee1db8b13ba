"""Pairs of good and bad kernels: one planted fault each. Triton functions and CUDA C."""

from __future__ import annotations

import triton
import triton.language as tl

# name, (good, bad): (function or CUDA, signature, warps, stages), rule that has to speak
_MM = "*fp16:16, *fp16:16, *fp16:16, 2048, 2048, 2048, {m}, {n}, {k}"


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)


@triton.jit
def rows_along(x, y, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + 1.0)


@triton.jit
def rows_across(x, y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) + tl.arange(0, BLOCK) * STRIDE
    tl.store(y + at, tl.load(x + at) + 1.0)


@triton.jit
def transposed_order(x, y, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    # the result is written down its columns, as it is read
    tl.store(y + n[None, :] * M + m[:, None], tl.load(x + n[None, :] * M + m[:, None]) + 1.0)


@triton.jit
def wrong_axis(x, y, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for n in range(N):
        total += tl.load(x + m * N + n)
    tl.store(y + m, total)


@triton.jit
def right_axis(x, y, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for n in range(N):
        total += tl.load(x + n * M + m)
    tl.store(y + m, total)


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    group = pid // (8 * (N // BN)) * 8
    m = (group + pid % 8) * BM + tl.arange(0, BM)
    n = pid % (8 * (N // BN)) // 8 * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        acc = tl.dot(x.to(tl.float16), y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def product_row_order(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    pid = tl.program_id(0)
    m = pid // (N // BN) * BM + tl.arange(0, BM)
    n = pid % (N // BN) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def product_masked(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])  # fmt: skip


@triton.jit
def row_sum(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0))


@triton.jit
def row_exchange(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * BLOCK + at)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * BLOCK + at, e / tl.sum(e, 0))


CUDA = {
    "transpose": r"""
__global__ void k(const float* x, float* y, int n) {
  __shared__ float t[32][PAD];
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8) t[r][threadIdx.x] = x[(j + r) * n + i];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8)
    y[(blockIdx.x * 32 + r) * n + j + threadIdx.x] = t[threadIdx.x][r];
}""",
    "columns": r"""
__global__ void __launch_bounds__(256) k(const float* x, float* y) {
  int i = blockIdx.x * 256 + threadIdx.x;
  y[i] = x[i * STRIDE] * 2.0f;
}""",
    "structures": r"""
struct P { float a, b, c, d, e, f, g, h; };
__global__ void __launch_bounds__(256) k(const P* p, const float* x, float* y) {
  int i = blockIdx.x * 256 + threadIdx.x;
  y[i] = READ;
}""",
    "scalars": r"""
__global__ void __launch_bounds__(256) k(const float* x, float* y) {
  int i = (blockIdx.x * 256 + threadIdx.x) * 4;
  BODY
}""",
    "limit": r"""
__global__ void __launch_bounds__(256, BLOCKS) k(const float* x, float* y, int n) {
  float v[48];
  int i = blockIdx.x * 256 + threadIdx.x;
  #pragma unroll
  for (int j = 0; j < 48; j++) v[j] = x[i + j * n];
  for (int r = 0; r < n; r++) {
    #pragma unroll
    for (int j = 0; j < 48; j++) v[j] = v[j] * v[(j + 7) % 48] + 1.0f;
  }
  #pragma unroll
  for (int j = 0; j < 48; j++) y[i + j * n] = v[j];
}""",
    "many": r"""
__global__ void __launch_bounds__(256) k(const float* x, float* y, int n) {
  float v[COUNT];
  int i = blockIdx.x * 256 + threadIdx.x;
  #pragma unroll
  for (int j = 0; j < COUNT; j++) v[j] = x[i + j * n];
  for (int r = 0; r < n; r++) {
    #pragma unroll
    for (int j = 0; j < COUNT; j++) v[j] = v[j] * v[(j + 7) % COUNT] + 1.0f;
  }
  #pragma unroll
  for (int j = 0; j < COUNT; j++) y[i + j * n] = v[j];
}""",
    "shared": r"""
__global__ void __launch_bounds__(64) k(const float* x, float* y) {
  __shared__ float t[SIZE];
  int i = threadIdx.x;
  for (int j = i; j < SIZE; j += 64) t[j] = x[blockIdx.x * SIZE + j];
  __syncthreads();
  for (int j = i; j < SIZE; j += 64) y[blockIdx.x * SIZE + j] = t[SIZE - 1 - j];
}""",
    "gemm": r"""
__global__ void __launch_bounds__(256) k(const float* a, const float* b, float* c, int n) {
  __shared__ float s[2][16][17], t[2][16][17];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float acc = 0;
  LOOP
  c[row * n + col] = acc;
}""",
}
_PLAIN = r"""
  for (int k = 0; k < n; k += 16) {
    s[0][ty][tx] = a[row * n + k + tx]; t[0][ty][tx] = b[(k + ty) * n + col];
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 16; j++) acc += s[0][ty][j] * t[0][j][tx];
    __syncthreads();
  }"""
_BUFFERED = r"""
  float p = a[row * n + tx], q = b[ty * n + col];
  int w = 0;
  s[0][ty][tx] = p; t[0][ty][tx] = q;
  __syncthreads();
  for (int k = 16; k < n; k += 16) {
    p = a[row * n + k + tx]; q = b[(k + ty) * n + col];
    #pragma unroll
    for (int j = 0; j < 16; j++) acc += s[w][ty][j] * t[w][j][tx];
    w ^= 1;
    s[w][ty][tx] = p; t[w][ty][tx] = q;
    __syncthreads();
  }
  for (int j = 0; j < 16; j++) acc += s[w][ty][j] * t[w][j][tx];"""


def cuda(name: str, **words: str) -> tuple[str, str]:
    """CUDA C with its placeholders filled."""
    text = CUDA[name]
    for key, value in words.items():
        text = text.replace(key, value)
    return ("cuda", text)


_ROW = "*fp32:16, *fp32:16, {n}, 1024"
# fmt: off
PAIRS = [
    ("divisibility of n", ("copy", "*fp16:16, *fp16:16, i32:16, 1024", 4, 3), ("copy", "*fp16:16, *fp16:16, i32, 1024", 4, 3), "missing-divisibility", "cuda:sm_90"),
    ("divisibility of a pointer", ("copy", "*fp16:16, *fp16:16, i32:16, 2048", 4, 3), ("copy", "*fp16, *fp16, i32:16, 2048", 4, 3), "missing-divisibility", "cuda:sm_80"),
    ("divisibility of a stride", ("rows_along", "*fp16:16, *fp16:16, i32:16, 2048", 4, 3), ("rows_along", "*fp16:16, *fp16:16, i32, 2048", 4, 3), "missing-divisibility", "cuda:sm_90"),
    ("divisibility of a mask, in a product", ("product_masked", "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, 128, 128, 32", 4, 3), ("product_masked", "*fp16:16, *fp16:16, *fp16:16, i32, i32, i32, 128, 128, 32", 4, 3), "missing-pipelining", "cuda:sm_80"),
    ("columns instead of rows", ("rows_along", "*fp32:16, *fp32:16, i32:16, 1024", 4, 3), ("rows_across", "*fp32:16, *fp32:16, 4096, 1024", 4, 3), "uncoalesced", "cuda:sm_90"),
    ("a reduction along the wrong axis", ("right_axis", "*fp32:16, *fp32:16, 4096, 512, 256", 4, 3), ("wrong_axis", "*fp32:16, *fp32:16, 4096, 512, 256", 4, 3), "uncoalesced", "cuda:sm_90"),
    ("CUDA: a stride", cuda("columns", STRIDE="1"), cuda("columns", STRIDE="32"), "uncoalesced", "cuda:sm_90"),
    ("CUDA: an array of structures", cuda("structures", READ="x[i] * 2.0f"), cuda("structures", READ="p[i].c * 2.0f"), "uncoalesced", "cuda:sm_80"),
    ("CUDA: scalars instead of float4", cuda("scalars", BODY="float4 v = *(const float4*)(x + i); v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2; *(float4*)(y + i) = v;"), cuda("scalars", BODY="y[i] = x[i] * 2; y[i + 1] = x[i + 1] * 2; y[i + 2] = x[i + 2] * 2; y[i + 3] = x[i + 3] * 2;"), "narrow-access", "cuda:sm_90"),
    ("CUDA: a limit of registers", cuda("limit", BLOCKS="2"), cuda("limit", BLOCKS="8"), "spill", "cuda:sm_90"),
    ("a tile too large for its warps", ("product", _MM.format(m=128, n=128, k=32), 4, 3), ("product", _MM.format(m=256, n=256, k=32), 4, 3), "spill", "cuda:sm_80"),
    ("CUDA: occupancy by registers", cuda("many", COUNT="40"), cuda("many", COUNT="180"), "low-occupancy-registers", "cuda:sm_90"),
    ("CUDA: occupancy by shared memory", cuda("shared", SIZE="1024"), cuda("shared", SIZE="12000"), "low-occupancy-shared", "cuda:sm_90"),
    ("occupancy by stages", ("product", _MM.format(m=128, n=128, k=64), 8, 3), ("product", _MM.format(m=128, n=128, k=64), 4, 6), "low-occupancy-shared", "cuda:sm_90"),
    ("conversion of bytes", ("product", _MM.format(m=128, n=128, k=32), 4, 3), ("product", "*i8:16, *fp16:16, *fp16:16, 2048, 2048, 2048, 128, 128, 32", 4, 3), "scalar-conversion", "cuda:sm_80"),
    ("no stages", ("product", _MM.format(m=64, n=64, k=32), 4, 3), ("product", _MM.format(m=64, n=64, k=32), 4, 1), "missing-pipelining", "cuda:sm_80"),
    ("CUDA: no double buffer", cuda("gemm", LOOP=_BUFFERED), cuda("gemm", LOOP=_PLAIN), "missing-pipelining", "cuda:sm_90"),
    ("CUDA: a transposition's banks", cuda("transpose", PAD="33"), cuda("transpose", PAD="32"), "bank-conflict", "cuda:sm_90"),
    ("CUDA: half of the banks", cuda("transpose", PAD="33"), cuda("transpose", PAD="40"), "bank-conflict", "cuda:sm_80"),
    ("order of programs", ("product", _MM.format(m=32, n=32, k=32), 4, 3), ("product_row_order", "*fp16:16, *fp16:16, *fp16:16, 2048, 8192, 2048, 64, 32, 32", 4, 3), "program-order", "cuda:sm_80"),
]
# fmt: on
