"""Which tiles first: an estimate that ranks configurations, and what is legal on the hardware.

Its unit is close to nothing one could measure: it ranks. Compute and memory traffic of all waves
of blocks are weighed by what a multiprocessor can do, as in a roofline, with what tiles waste,
what the L2 cache saves, and what is not hidden where a pipeline is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from planish.codegen.triton.source import Config, KernelSource
from planish.gpu.hardware import Hardware
from planish.gpu.occupancy import occupancy

_OTHER_REGISTERS = 40  # of a thread: addresses, masks, counters


@dataclass(frozen=True)
class Needs:
    """What a configuration takes: an estimate of registers a thread, and shared bytes a block."""

    registers: int
    shared: int
    threads: int


def needs(kernel: KernelSource, config: Config, hardware: Hardware) -> Needs:
    """Registers and shared memory before compiling (accumulators, operands, the pipeline)."""
    threads = max(1, config.warps) * hardware.warp
    size = int(kernel.facts.get("operand_bytes", 4))
    if kernel.form == "contraction":
        accumulators = config.m * config.n / threads
        # Operands of one step of the matrix instructions; AMD keeps the next tile in registers.
        operands = (config.m + config.n) * min(config.k, 32) * size / 4 / threads
        buffers = max(1, config.stages - (hardware.vendor == "hip"))
        shared = buffers * (config.m + config.n) * config.k * size
        # The result may go through shared memory on its way out.
        return Needs(round(accumulators + operands) + _OTHER_REGISTERS, shared, threads)
    if kernel.form == "attention":
        head = int(kernel.facts["head"])
        accumulators = config.m * (head / 2 + config.n) / threads
        buffers = max(1, config.stages)
        shared = (config.m * head // 2 + buffers * config.n * head) * size
        return Needs(round(accumulators * 1.2) + _OTHER_REGISTERS, shared, threads)
    elements = max(1, config.m) * max(1, config.n) * max(1, config.k)
    if kernel.form == "rows":
        elements = max(1, config.m) * config.k
    return Needs(round(2 * elements / threads) + _OTHER_REGISTERS, 1024, threads)


def refusal(kernel: KernelSource, config: Config, hardware: Hardware) -> str:
    """Why a configuration cannot work on the hardware; "" where it can."""
    found = needs(kernel, config, hardware)
    if found.threads > 1024:
        return f"{found.threads} threads a block, and 1,024 are allowed"
    if found.shared > hardware.shared_block:
        return (
            f"{found.shared:,} bytes of shared memory, and {hardware.name} has"
            f" {hardware.shared_block:,} a block"
        )
    if found.registers > hardware.most_registers:
        return (
            f"about {found.registers} registers a thread, and {hardware.name} has"
            f" {hardware.most_registers}"
        )
    return ""


def estimate(kernel: KernelSource, config: Config, hardware: Hardware) -> float:
    """A rank (smaller is better); infinite for what is not legal. No time: never quote it."""
    if refusal(kernel, config, hardware):
        return float("inf")
    if kernel.form in ("contraction", "attention"):
        return _matrix(kernel, config, hardware)
    return _streaming(kernel, config, hardware)


def _resident(kernel: KernelSource, config: Config, hardware: Hardware) -> tuple[int, float]:
    found = needs(kernel, config, hardware)
    o = occupancy(hardware, threads=found.threads, registers=found.registers, shared=found.shared)
    return max(1, o.blocks), max(o.share, 1e-3)


def _matrix(kernel: KernelSource, config: Config, hardware: Hardware) -> float:
    f = kernel.facts
    rows, columns, depth = int(f["rows"]), int(f["columns"]), int(f["depth"])
    batch, size = int(f["batch"]), int(f["operand_bytes"])
    split = max(1, config.split)
    step = config.k or 32
    if kernel.form == "attention":
        tiles = -(-rows // config.m) * batch
        inner = -(-columns // config.n) * config.n
        work = 2.0 * config.m * inner * int(f["head"])
        traffic = inner * int(f["head"]) * size
        rounds = inner // config.n
    else:
        tiles = -(-rows // config.m) * -(-columns // config.n) * batch * split
        padded = -(-depth // (step * split)) * step
        work = 2.0 * config.m * config.n * padded
        traffic = (config.m + config.n) * padded * size
        rounds = padded // step
    blocks, share = _resident(kernel, config, hardware)
    kind = str(f["type"])
    if kind == "f32" and str(f["precision"]).startswith("tf32"):
        kind = "tf32"
    peak = hardware.rate(kind) / hardware.processors
    # Small tiles leave the matrix units waiting for operands from shared memory.
    reuse = config.m * config.n / (config.m + config.n)
    warps = max(1, config.warps) * blocks
    busy = min(1.0, reuse / 48) ** 0.5 * min(1.0, warps / 8) ** 0.5
    compute = work / (peak * busy)
    # Blocks that run together share tiles in L2, the better the squarer their tiles stand.
    together = min(tiles, hardware.processors * blocks)
    group = max(1, min(config.group or 1, -(-rows // config.m)))
    shared_rows = group
    shared_columns = max(1, together // group)
    wide = min(shared_columns, max(1, -(-columns // config.n)))
    unique = (shared_rows * config.m + wide * config.n) / max(1, together) / (config.m + config.n)
    unique = min(1.0, max(unique, 0.05)) if kernel.form == "contraction" else 0.3
    per_processor = hardware.bandwidth / hardware.processors
    memory = traffic * unique / per_processor + traffic / (3 * per_processor)
    hidden = share > 0.4
    overlap = 0.1 if config.stages > 1 else 0.5 if hidden else 1.0
    one = max(compute, memory) + overlap * min(compute, memory)
    latency = rounds * 4e-7 / (blocks * max(1, config.stages - 1))
    concurrent = hardware.processors * blocks
    waves = -(-tiles // concurrent)
    total = waves * blocks * one + waves * latency if tiles > hardware.processors else one + latency
    if split > 1:
        total += 2 * split * rows * columns * batch * 4 / hardware.bandwidth + 3e-6
    if config.persistent:
        total *= 0.98 if tiles > 2 * concurrent else 1.02
    return float(total)


def _streaming(kernel: KernelSource, config: Config, hardware: Hardware) -> float:
    """Rows and tiles: bytes moved, by how much is in flight and how much tiles waste."""
    from planish.tune.gpu_space import grid_points

    resident, _ = _resident(kernel, config, hardware)
    threads = config.warps * hardware.warp
    a_thread = prod(max(1, v) for v in (config.m, config.n, config.k)) / threads
    # Points of the result that a block makes: it walks along what it reduces over.
    a_block = max(1, config.m) * (1 if kernel.form == "rows" else max(1, config.n))
    split = max(1, config.split)
    blocks = -(-int(kernel.facts["points"]) // a_block) * split
    if config.persistent:
        blocks = min(blocks, config.persistent)
    # Small grids leave multiprocessors idle, or with few warps that have loads under way.
    together = min(blocks / hardware.processors, resident)
    warps = together * config.warps / hardware.warps
    in_flight = min(1.0, warps * min(a_thread, 16) / 4)
    thin = 1.0 if a_thread >= 4 else 4 / max(a_thread, 0.25)
    waves = blocks / (hardware.processors * resident)
    tail = -(-waves // 1) / waves if waves > 1 else 1.0
    if config.persistent:
        tail *= 1.02  # the loop itself; where nothing else speaks for it, there is none
    passes = 1.0
    if kernel.form == "rows" and config.k < int(kernel.facts["row"]):
        passes = 2.0
    cost = kernel.bytes / hardware.bandwidth * grid_points(kernel, config) * thin * passes * tail
    joined = split * int(kernel.facts["points"]) * 8 / hardware.bandwidth + 3e-6
    return float(cost / max(in_flight, 0.01) + (joined if split > 1 else 0.0))
