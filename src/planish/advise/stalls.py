"""Advice from program-counter samples with stall reasons.

The estimators are GPA's (Zhou, Meng, Sai, Mellor-Crummey, "GPA: A GPU performance advisor based
on instruction sampling", CGO 2021, arXiv 2009.04061), with T all samples of a kernel, A those in
which an instruction issued, B the stalls that a change would take away:

- stall elimination: T / (T - B);
- latency hiding: T / (T - min(A, sum over regions of min(A_r, B_r))): other instructions of the
  same region can fill the stalls, at most as many as there are; a region is a loop, or the
  function where there is none;
- occupancy: p(W) = 1 - (1 - I/T)^(W / schedulers) is the chance that a scheduler finds a warp
  that can issue; the speed-up is p(more warps) / p(W).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from planish.advise.advice import Advice, Confidence, ranked
from planish.trace.samples import Place, Samples

_SHOWN = 3
_SCHEDULERS = 4  # of a multiprocessor, on every NVIDIA architecture since Volta
_WARP = 32
_BLOCKS = 32  # on a multiprocessor at most, on NVIDIA's data-centre GPUs since Volta
_FEWEST = 80  # multiprocessors of the smallest of them
ALL, ISSUED, STALLED = "GCYCLES", "GCYCLES:ISU", "GCYCLES:STL"


@dataclass(frozen=True)
class Optimiser:
    """A change, the stall reasons that it takes away or hides, and how that is estimated."""

    rule: str
    title: str
    reasons: tuple[str, ...]
    estimate: Callable[[float, float, list[tuple[float, float]], float], float]
    source: str


def elimination(total: float, active: float, _: list[tuple[float, float]], stalls: float) -> float:
    """Samples saved when the stalls go away."""
    return min(stalls, total - active)


def hiding(total: float, active: float, regions: list[tuple[float, float]], _: float) -> float:
    """Samples saved when instructions of the same region fill the stalls."""
    return min(active, sum(min(a, b) for a, b in regions))


def occupancy_speedup(issue_rate: float, warps: float, most: float) -> float:
    """p(most) / p(warps) with the issue rate of one warp; 1 where nothing can be gained."""
    if not 0 < issue_rate < 1 or warps <= 0 or most <= warps:
        return 1.0

    def chance(count: float) -> float:
        return float(1 - (1 - issue_rate) ** (count / _SCHEDULERS))

    return chance(most) / chance(warps)


OPTIMISERS = (
    Optimiser("latency-hiding", "load earlier: move loads away from their uses, prefetch, unroll"
              " the loop so that several loads are in flight", ("GMEM", "LMEM", "CMEM", "TMEM"),
              hiding, "GPA: code reordering, loop unrolling (latency hiding)"),
    Optimiser("memory-access", "move fewer bytes: coalesce the accesses, use wider loads, keep"
              " reused data in shared memory", ("GMEM", "MTHR"),
              elimination, "GPA: memory transaction reduction (stall elimination)"),
    Optimiser("register-pressure", "stop spilling: fewer live registers, or more of them a thread",
              ("LMEM",), elimination, "GPA: register reuse (stall elimination)"),
    Optimiser("strength-reduction", "use cheaper instructions: no double precision constants,"
              " reciprocal instead of division, fast math", ("PIPE", "IDEP"),
              elimination, "GPA: strength reduction, fast math (stall elimination)"),
    Optimiser("instruction-parallelism", "give each thread more independent work: unroll, several"
              " accumulators", ("IDEP", "PIPE"),
              hiding, "GPA: loop unrolling (latency hiding)"),
    Optimiser("function-split", "make the code fit the instruction cache: split the function,"
              " unroll less, inline less", ("IFET",),
              elimination, "GPA: function split (stall elimination)"),
    Optimiser("warp-balance", "balance the warps between barriers, or use finer barriers",
              ("SYNC",), elimination, "GPA: warp balance (stall elimination)"),
)  # fmt: skip


@dataclass(frozen=True)
class KernelSamples:
    """The samples of one kernel. `rows` are its contexts with samples."""

    name: str
    total: float
    active: float
    rows: list[int]


def kernels(samples: Samples) -> list[KernelSamples]:
    """Kernels by their samples, the most first."""
    all_samples = samples.values.get(ALL)
    if all_samples is None:
        return []
    by_name: dict[str, list[int]] = defaultdict(list)
    for number in np.flatnonzero(all_samples).tolist():
        by_name[_outermost_kernel(samples, number)].append(number)
    issued = samples.values.get(ISSUED, np.zeros(len(all_samples)))
    found = [
        KernelSamples(name, float(all_samples[rows].sum()), float(issued[rows].sum()), rows)
        for name, rows in by_name.items()
    ]
    return sorted(found, key=lambda k: (-k.total, k.name))


def _outermost_kernel(samples: Samples, number: int) -> str:
    """The device function that the host launched: right below `<gpu kernel>`."""
    below = ""
    for n in samples.above(number):
        context = samples.contexts[n]
        if context.place != Place.FUNCTION:
            continue
        if context.name == "<gpu kernel>":
            return below or "(unknown kernel)"
        below = context.name
    return below or "(unknown kernel)"


def stall_table(samples: Samples, kernel: KernelSamples) -> dict[str, float]:
    """Samples of a kernel by stall reason, the most first."""
    prefix = STALLED + ":"
    sums = {
        name.removeprefix(prefix): float(values[kernel.rows].sum())
        for name, values in samples.values.items()
        if name.startswith(prefix)
    }
    return dict(sorted(((k, v) for k, v in sums.items() if v), key=lambda item: -item[1]))


def advise_samples(samples: Samples) -> list[Advice]:
    """All optimisers on all kernels. Gains are of the kernel's share of all samples."""
    return ranked(
        advice
        for kernel in kernels(samples)
        for advice in (
            *_optimisers(samples, kernel),
            *_occupancy(samples, kernel),
            *_geometry(samples, kernel),
        )
    )


def _optimisers(samples: Samples, kernel: KernelSamples) -> Iterator[Advice]:
    whole = samples.total(ALL)
    issued = samples.values.get(ISSUED, np.zeros(len(samples.contexts)))
    for optimiser in OPTIMISERS:
        blamed = np.zeros(len(samples.contexts))
        for reason in optimiser.reasons:
            blamed = blamed + samples.values.get(f"{STALLED}:{reason}", 0.0)
        stalls = float(blamed[kernel.rows].sum())
        if not stalls:
            continue
        regions: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for row in kernel.rows:
            part = regions[samples.enclosing(row, Place.LOOP)]
            part[0] += float(issued[row])
            part[1] += float(blamed[row])
        pairs = [(a, b) for a, b in regions.values()]
        saved = optimiser.estimate(kernel.total, kernel.active, pairs, stalls)
        yield Advice(
            optimiser.rule, optimiser.title, kernel.name,
            f"{stalls / kernel.total:.1%} of the kernel's samples stall for"
            f" {', '.join(r for r in optimiser.reasons if _has(samples, kernel, r))}; most at "
            + _places(samples, kernel, blamed),
            saved, whole, Confidence.MEDIUM, optimiser.source,
        )  # fmt: skip


def _has(samples: Samples, kernel: KernelSamples, reason: str) -> bool:
    values = samples.values.get(f"{STALLED}:{reason}")
    return values is not None and bool(values[kernel.rows].any())


def _places(samples: Samples, kernel: KernelSamples, blamed: np.ndarray) -> str:
    """The source lines (instructions where there are none) that hold most of the stalls."""
    by_line: dict[str, float] = defaultdict(float)
    for row in kernel.rows:
        line = samples.enclosing(row, Place.LINE)
        by_line[samples.contexts[line if line >= 0 else row].label] += float(blamed[row])
    best = sorted(by_line.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]
    return ", ".join(f"{name} ({part / kernel.total:.1%})" for name, part in best if part)


def _occupancy(samples: Samples, kernel: KernelSamples) -> Iterator[Advice]:
    """From the launches' active and possible warps, which HPCToolkit sums over launches."""
    launches = samples.total("GKER:COUNT")
    active = samples.total("GKER:WARP_ACT_ACUMU")
    most = samples.total("GKER:WARP_AVL_ACUMU")
    if not launches or not active or most <= active or len(kernels(samples)) != 1:
        return
    rate = kernel.active / kernel.total
    gain = occupancy_speedup(rate, active / launches, most / launches)
    saved = kernel.total * (1 - 1 / gain)
    yield Advice(
        "occupancy", "keep more warps on a multiprocessor: fewer registers or less shared memory"
        " a block, other block sizes", kernel.name,
        f"{active / launches:.0f} warps of {most / launches:.0f} are active; a sampled warp issues"
        f" in {rate:.0%} of its samples",
        saved, samples.total(ALL), Confidence.LOW, "GPA: occupancy increase",
    )  # fmt: skip


def _geometry(samples: Samples, kernel: KernelSamples) -> Iterator[Advice]:
    """Threads a block and blocks a launch, where there are too few to fill the device."""
    launches = samples.total("GKER:COUNT")
    if not launches or len(kernels(samples)) != 1:
        return
    threads = samples.total("GKER:BLK_THR_ACUMU") / launches
    most = samples.total("GKER:WARP_AVL_ACUMU") / launches
    blocks = samples.total("GKER:BLKS_AVG_ACUMU") / launches
    whole = samples.total(ALL)
    warps = _BLOCKS * -(-threads // _WARP)
    if threads > 0 and warps < most:
        gain = occupancy_speedup(kernel.active / kernel.total, warps, most)
        yield Advice(
            "thread-increase", "use larger blocks: more threads each", kernel.name,
            f"{threads:.0f} threads a block: {_BLOCKS} blocks, which is all that a multiprocessor"
            f" holds, are {warps:.0f} of {most:.0f} warps",
            kernel.total * (1 - 1 / gain), whole, Confidence.LOW, "GPA: thread increase",
        )  # fmt: skip
    if 0 < blocks < _FEWEST:
        yield Advice(
            "block-increase", "split the work into more blocks", kernel.name,
            f"{blocks:.0f} blocks a launch; data-centre GPUs have {_FEWEST} multiprocessors and"
            " more",
            kernel.total * (1 - blocks / _FEWEST), whole, Confidence.LOW, "GPA: block increase",
        )  # fmt: skip
