"""The programs that `planish gpu bench` measures, with their rivals on torch tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from planish.tensor import functions as f
from planish.tensor.expr import Axis, Expr, Tensor, axes, cast
from planish.tensor.positions import position
from planish.tune.gpu_bench import Array, Call, Contest, Device, rank_correlation
from planish.tune.gpu_cost import estimate
from planish.tune.gpu_kernels import GpuKernel, gpu_kernel
from planish.tune.gpu_space import KernelSpace, best_by_estimate, configurations
from planish.tune.gpu_torch import TORCH, load, run


def matmul(m: int, n: int, k: int, type: str = "f16") -> Tensor:
    """C = A B."""
    i, j, x = axes("m n k")
    a, b = f.tensor("A", (m, k), type), f.tensor("B", (k, n), type)
    return f.define("C", [i, j], f.sum(x, a[i, x] * b[x, j]), type)


def softmax(rows: int, length: int, type: str = "f32") -> Tensor:
    """Along rows."""
    m, n = axes("m n")
    x = f.tensor("X", (rows, length), type)
    top = f.define("top", [m], f.max(n, cast(x[m, n], "f32")))
    e = f.define("e", [m, n], f.exp(x[m, n] - top[m]))
    total = f.define("total", [m], f.sum(n, e[m, n]))
    return f.define("Y", [m, n], e[m, n] / total[m], type)


def layernorm(rows: int, length: int, type: str = "f16") -> Tensor:
    """Along rows, with weight and bias."""
    m, n = axes("m n")
    x = f.tensor("X", (rows, length), type)
    w, b = f.tensor("W", (length,), type), f.tensor("b", (length,), type)
    mean = f.define("mean", [m], f.sum(n, cast(x[m, n], "f32")) / float(length))
    d = x[m, n] - mean[m]
    var = f.define("var", [m], f.sum(n, d * d) / float(length))
    return f.define("Y", [m, n], d * f.rsqrt(var[m] + 1e-5) * w[n] + b[n], type)


def attention(
    batch: int,
    heads: int,
    length: int,
    head: int,
    type: str = "f16",
    seen: Callable[[Expr, Expr], Expr] | None = None,
) -> Tensor:
    """softmax(Q K / sqrt(d)) V; `seen` says by the positions of a key and a query what counts."""
    b, h, q, k, d, e = axes("b h q k d e")
    shape = (batch, heads, length, head)
    query, key, value = (f.tensor(n, shape, type) for n in "QKV")
    score: Expr = f.sum(d, query[b, h, q, d] * key[b, h, k, d]) * head**-0.5
    if seen is not None:
        counts = seen(position(Axis("k", length)), position(Axis("q", length)))
        score = f.where(counts, score, float("-inf"))
    s = f.define("S", [b, h, q, k], score)
    top = f.define("top", [b, h, q], f.max(k, s[b, h, q, k]))
    p = f.define("P", [b, h, q, k], f.exp(s[b, h, q, k] - top[b, h, q]))
    total = f.define("total", [b, h, q], f.sum(k, p[b, h, q, k]))
    body = f.sum(k, p[b, h, q, k] / total[b, h, q] * value[b, h, k, e])
    return f.define("O", [b, h, q, e], body, type)


@dataclass(frozen=True)
class Shapes:
    """The shapes of the contests: (m, n, k), (rows, length) twice, (batch, heads, length, head)."""

    matmul: Sequence[tuple[int, int, int]]
    softmax: Sequence[tuple[int, int]]
    layernorm: Sequence[tuple[int, int]]
    attention: Sequence[tuple[int, int, int, int]]


FULL = Shapes(
    [(1024, 1024, 1024), (4096, 4096, 4096), (333, 777, 1000)],
    [(4096, 1024), (4096, 12345), (1024, 50257)],
    [(4096, 1024), (4096, 8192)],
    [(4, 16, 1024, 64), (2, 16, 4096, 128)],
)
QUICK = Shapes([(512, 512, 512)], [(128, 1000)], [(128, 1024)], [(1, 2, 256, 64)])


def contests(
    target: str, torch: Any, *, shapes: Shapes = FULL, matmul_tutorial: Call | None = None
) -> Iterator[Contest]:
    """All of them, for a target, made one by one.

    matmul_tutorial  the hand-written product; by default the one with the tutorial's tuned tiles
    """
    from planish.tune import gpu_tutorials as hand

    product = matmul_tutorial or hand.Matmul()
    for m, n, k in shapes.matmul:
        yield _contest(
            target, torch, f"matmul {m}x{n}x{k} f16", matmul(m, n, k), torch.matmul, product,
            2 * m * n * k,
        )  # fmt: skip
    for m, n in shapes.softmax:
        yield _contest(
            target, torch, f"softmax {m}x{n} f32", softmax(m, n), partial(torch.softmax, dim=-1),
            hand.run_softmax, 5 * m * n,
        )  # fmt: skip
    for m, n in shapes.layernorm:
        yield _contest(
            target, torch, f"layernorm {m}x{n} f16", layernorm(m, n), partial(_norm, torch, n),
            hand.run_layernorm, 8 * m * n,
        )  # fmt: skip
    for b, h, length, d in shapes.attention:
        yield _contest(
            target, torch, f"attention {b}x{h}x{length}x{d} f16", attention(b, h, length, d),
            torch.nn.functional.scaled_dot_product_attention, hand.run_attention,
            4 * b * h * length * length * d,
        )  # fmt: skip


def _norm(torch: Any, n: int, x: Any, w: Any, b: Any) -> Any:
    return torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5)


def kernel_call(kernel: GpuKernel, torch: Any) -> Call:
    """A kernel as a rival: temporaries are made once."""
    lowered = kernel.lowered
    modules = [load(k.text) for k in lowered.kernels]
    between: dict[str, Any] = {}

    def call(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if not between:
            for t in lowered.temporaries:
                dtype = getattr(torch, TORCH[t.type.name])
                between[t.name] = torch.empty(t.shape, dtype=dtype, device=inputs[0].device)
        program = kernel.program
        memory = {t.name: x for t, x in zip(program.inputs, inputs, strict=True)}
        memory |= {t.name: x for t, x in zip(program.outputs, outputs, strict=True)}
        run(lowered, modules, {**memory, **between}, torch)

    return call


def _contest(
    target: str, torch: Any, name: str, tensor: Tensor, theirs: Callable[..., Any],
    by_hand: Call, work: float,
) -> Contest:  # fmt: skip
    ours = kernel_call(best_by_estimate(tensor, target=target), torch)
    rules = kernel_call(gpu_kernel(tensor, target=target), torch)
    program = gpu_kernel(tensor, target=target).program
    inductor = torch.compile(theirs)

    def library(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """torch's own function, without a copy where it can write to a given place."""
        if theirs is torch.matmul:
            torch.matmul(*inputs, out=outputs[0])
        else:
            outputs[0].copy_(theirs(*inputs))

    def inputs(seed: int) -> list[tuple[Array, str]]:
        numbers = np.random.default_rng(seed)
        return [
            (numbers.standard_normal(t.shape).astype(np.float32), t.type.name)
            for t in program.inputs
        ]

    def wanted(arrays: Sequence[Array]) -> list[Array]:
        """torch in f64, on the GPU where there is one."""
        place = "cuda" if torch.cuda.is_available() else "cpu"
        rounded = [
            torch.from_numpy(a).to(getattr(torch, TORCH[t.type.name])).double().to(place)
            for a, t in zip(arrays, program.inputs, strict=True)
        ]
        return [theirs(*rounded).cpu().numpy()]

    half = any(t.type.name in ("f16", "bf16") for t in program.inputs)
    return Contest(
        name, inputs, [(t.shape, t.type.name) for t in program.outputs],
        {"planish": ours, "planish, tiles by rule": rules, "torch": library,
         "torch.compile": lambda given, out: out[0].copy_(inductor(*given)),
         "Triton tutorial": by_hand},
        wanted, 2e-2 if half else 1e-3, float(work),
    )  # fmt: skip


def estimate_against_time(
    device: Device, target: str, torch: Any, *, count: int = 24, seed: int = 0, size: int = 2048
) -> tuple[float, list[tuple[str, float, float]]]:
    """Spearman's correlation of the estimate with measured times of a product's tiles, and rows
    of (configuration, estimate, seconds)."""
    tensor = matmul(size, size, size)
    start = gpu_kernel(tensor, target=target)
    space = KernelSpace(start)
    [source] = start.kernels
    legal = [c for c in configurations(source) if estimate(source, c, space.hardware) < 1e9]
    draw = random.Random(seed)
    rows = []
    numbers = np.random.default_rng(seed)
    inputs = [device.put(numbers.standard_normal((size, size)).astype(np.float32), "f16")
              for _ in range(2)]  # fmt: skip
    out = [device.put(np.zeros((size, size), np.float32), "f16")]
    for config in draw.sample(legal, min(count, len(legal))):
        made = GpuKernel(start.program, target=target, configs={"C": config})
        call = kernel_call(made, torch)
        try:
            call(inputs, out)
        except Exception:
            continue  # what Triton itself refuses has no time to compare with
        times = []
        for _ in range(20):
            device.flush()
            times.append(device.timed(partial(call, inputs, out)))
        rows.append((str(config), estimate(source, config, space.hardware), sorted(times)[10]))
    return rank_correlation([r[1] for r in rows], [r[2] for r in rows]), rows
