"""Tuning of GPU kernels: tiles ranked by the estimate, the best compiled, the bad ones rejected.

Without a GPU the first by the estimate that compiles without spills is kept; nothing is timed.
With one, those that are left are measured beside the rules' tiles, and the fastest is kept. The
rules' tiles are always a candidate, so that nothing worse is kept in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from planish.base.errors import UsageError
from planish.codegen.triton.source import Config, KernelSource
from planish.proc import pool as processes
from planish.tensor.expr import Expr, Tensor
from planish.tensor.reference import evaluate, store
from planish.tensor.reference import load as as_values
from planish.tune.gpu_checks import random_inputs
from planish.tune.gpu_kernels import GpuKernel, build_request, gpu_kernel, workers
from planish.tune.gpu_space import KernelSpace, Ranked

if TYPE_CHECKING:
    from planish.tune.gpu_bench import Call, ContestReport, Device

_REFERENCE = 1 << 26  # points of statements up to which NumPy's reference is waited for


@dataclass(frozen=True)
class Candidate:
    """One configuration of one kernel.

    estimate   its rank's value relative to the rules' tiles (a ranking, no time)
    rejected   why it is out: does not compile, spills; "" where it stays
    seconds    median measured, or None where nothing was
    """

    kernel: str
    config: Config
    estimate: float
    registers: int = 0
    spills: int = 0
    shared: int = 0
    occupancy: float = 0.0
    rejected: str = ""
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kernel": self.kernel, "tiles": str(self.config), "estimate": self.estimate,
            "registers": self.registers, "spilled_bytes": self.spills,
            "shared_bytes": self.shared, "occupancy": self.occupancy,
            "rejected": self.rejected, "seconds": self.seconds,
        }  # fmt: skip


@dataclass(frozen=True)
class TunedGpu:
    """The kernel that is kept, and how it was chosen.

    candidates  in the order of the estimate, the rules' tiles first
    compiled    configurations that Triton was asked to compile
    device      the GPU that was measured on; "" where the estimate alone has chosen
    """

    kernel: GpuKernel
    candidates: tuple[Candidate, ...]
    compiled: int
    seconds: float
    device: str = ""

    @property
    def rejected(self) -> int:
        """Configurations that were compiled and thrown away."""
        return sum(bool(c.rejected) for c in self.candidates)


def tune_gpu_kernel(
    outputs: Tensor | Expr | Sequence[Tensor],
    *,
    target: str = "cuda:sm_90",
    precision: str = "ieee",
    count: int = 8,
    jobs: int = 1,
    device: Device | None = None,
    measure: Callable[[GpuKernel], Call] | None = None,
    rounds: int = 30,
    seed: int = 0,
) -> TunedGpu:
    """Search the tiles of every kernel of a program.

    count    configurations of each kernel that are compiled, besides the rules'
    device   a GPU to measure on (`gpu_bench.TorchDevice`); without one the estimate chooses
    measure  makes a kernel a call on the device's tensors; `gpu_contests.kernel_call` on a GPU
    Raises UsageError for what has no lowering, and where nothing compiles.
    """
    if count < 1:
        raise UsageError(f"--count {count} compiles nothing", hint="at least 1")
    started = time.perf_counter()
    rules = gpu_kernel(outputs, target=target, precision=precision)
    space = KernelSpace(rules)
    asked = [c for name in space.names for c in _first(space, name, count)]
    with workers("compile", jobs) as pool:
        candidates = [_compiled(rules, c, pool) for c in asked]
    for name in space.names:
        mine = [c for c in candidates if c.kernel == name]
        if all(c.rejected for c in mine):
            raise UsageError(f"no tiles of {name} that were tried are fit: {mine[0].rejected}",
                             hint="--count N tries more of them")  # fmt: skip
    if device is not None and measure is not None:
        candidates = _measured(rules, candidates, device, measure, rounds, seed)
    chosen = {name: _best([c for c in candidates if c.kernel == name]) for name in space.names}
    kernel = GpuKernel(rules.program, target=target, configs=chosen, precision=precision)
    return TunedGpu(
        kernel, tuple(candidates), len(asked), time.perf_counter() - started,
        device.name if device is not None else "",
    )  # fmt: skip


def _first(space: KernelSpace, name: str, count: int) -> list[Candidate]:
    """The rules' tiles, then the best by the estimate that differ in more than their order."""
    start = space.configs(())[name]
    base = space.estimate(name, start)
    found = [Candidate(name, start, 1.0)]
    seen = {_shape(start)}
    for ranked in space.ranked(name, 1 << 20):
        if len(found) > count:
            break
        if _shape(ranked.config) not in seen:
            seen.add(_shape(ranked.config))
            found.append(Candidate(name, ranked.config, _relative(ranked, base)))
    return found


def _relative(ranked: Ranked, base: float) -> float:
    return ranked.estimate / base if base not in (0.0, float("inf")) else ranked.estimate


def _shape(config: Config) -> Config:
    """What decides about registers and shared memory."""
    return replace(config, group=0, persistent=0)


def _compiled(rules: GpuKernel, candidate: Candidate, pool: processes.Pool) -> Candidate:
    """The candidate with what the compiler made of it."""
    from planish.tune.gpu_inspect import of_built

    configs = {candidate.kernel: candidate.config}
    made = GpuKernel(rules.program, target=rules.target, configs=configs, precision=rules.precision)
    sources = [k for k in made.kernels if _belongs(k, candidate.kernel)]
    for reply in pool.run([processes.Call((), build_request(k, rules.target)) for k in sources]):
        if reply.failure is not None:
            return replace(candidate, rejected=f"does not compile: {_last_line(reply.reason)}")
        facts = of_built(reply.value, rules.target).facts
        candidate = replace(
            candidate,
            registers=max(candidate.registers, facts.resources.registers),
            spills=candidate.spills + facts.resources.spills,
            shared=max(candidate.shared, reply.value.shared),
            occupancy=facts.occupancy.share,
        )
    if candidate.shared > rules.hardware.shared_block:
        return replace(candidate, rejected=f"{candidate.shared:,} bytes of shared memory")
    if candidate.spills:
        return replace(candidate, rejected=f"{candidate.spills} bytes spilled")
    return candidate


def _belongs(kernel: KernelSource, name: str) -> bool:
    return kernel.outputs[-1].removesuffix("_parts") == name


def _last_line(reason: str) -> str:
    lines = [line for line in reason.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def _best(candidates: Sequence[Candidate]) -> Config:
    left = [c for c in candidates if not c.rejected]
    timed = [c for c in left if c.seconds is not None]
    if timed:
        return min(timed, key=lambda c: c.seconds or 0.0).config
    return min(left, key=lambda c: c.estimate).config


# -- on a GPU --------------------------------------------------------------------------------------


def _measured(
    rules: GpuKernel,
    candidates: Sequence[Candidate],
    device: Device,
    measure: Callable[[GpuKernel], Call],
    rounds: int,
    seed: int,
) -> list[Candidate]:
    """Each kernel's candidates in turn, within the whole program, checked before they are timed."""
    found: list[Candidate] = []
    for name in dict.fromkeys(c.kernel for c in candidates):
        mine = [c for c in candidates if c.kernel == name]
        alive = {str(c.config): c for c in mine if not c.rejected}
        report = _contest(rules, name, alive, device, measure, rounds, seed)
        times = {t.rival: t.median for t in report.timings}
        for c in mine:
            key = str(c.config)
            refused = c.rejected or report.refused.get(key, "")
            found.append(replace(c, rejected=refused, seconds=times.get(key)))
    return found


def _contest(
    rules: GpuKernel,
    name: str,
    alive: Mapping[str, Candidate],
    device: Device,
    measure: Callable[[GpuKernel], Call],
    rounds: int,
    seed: int,
) -> ContestReport:
    from planish.tune.gpu_bench import Contest, run_contest

    program = rules.program

    def inputs(at: int) -> list[tuple[Any, str]]:
        given = random_inputs(program, at)
        return [(as_values(given[t.name], t.type), t.type.name) for t in program.inputs]

    def wanted(arrays: Sequence[Any]) -> list[Any]:
        """The reference where it is quick, else the rules' own kernel on the device."""
        work = sum(prod(s.extents[a] for a in s.all_axes) for s in program.stages)
        if work <= _REFERENCE:
            given = {t.name: store(a, t.type) for t, a in zip(program.inputs, arrays, strict=True)}
            values = evaluate(program, given)
            return [as_values(values[t.name], t.type).astype(np.float64) for t in program.outputs]
        tensors = [device.put(a, t.type.name) for a, t in zip(arrays, program.inputs, strict=True)]
        outs = [device.put(np.zeros(t.shape, np.float32), t.type.name) for t in program.outputs]
        measure(rules)(tensors, outs)
        return [device.get(o) for o in outs]

    def rival(candidate: Candidate) -> Call:
        configs = {name: candidate.config}
        return measure(
            GpuKernel(program, target=rules.target, configs=configs, precision=rules.precision)
        )

    narrow = any(t.type.is_narrow_float for t in (*program.inputs, *program.outputs))
    contest = Contest(
        name, inputs, [(t.shape, t.type.name) for t in program.outputs],
        {key: rival(c) for key, c in alive.items()}, wanted, 3e-2 if narrow else 1e-3,
        float(program.flops()),
    )  # fmt: skip
    return run_contest(device, contest, rounds=rounds, seed=seed)
