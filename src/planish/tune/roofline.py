"""The roofline: what this machine can compute and move at most, and how near a kernel comes.

After Williams, Waterman and Patterson, "Roofline", CACM 2009. Peaks are measured with code of
our own: multiply-adds on registers, and a sum over an array that no cache holds.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from planish.base.records import Measurement, Outcome
from planish.codegen.memory import Executable
from planish.codegen.x86 import encoder as x86
from planish.measure.machine import processor
from planish.store.store import Key, Store
from planish.tensor.expr import Expr, Op, free_axes, walk
from planish.tensor.program import Program

if TYPE_CHECKING:
    from planish.tune.tensors import Kernel

Array = np.ndarray[Any, Any]

_STREAM_BYTES = 256 << 20
_BRIEF_RUNS = 1200


@dataclass(frozen=True)
class Peaks:
    """Of one core: operations a second (f32, a multiply-add is two), bytes a second from memory."""

    flops: float
    bandwidth: float


@dataclass(frozen=True)
class Roofline:
    """A kernel against its limit.

    seconds  median of one call
    flops    operations of one call
    bytes    of all inputs and outputs, each once
    limit    seconds that the machine needs at least: for the operations or for the bytes
    """

    seconds: float
    flops: int
    bytes: int
    limit: float
    bound: str
    peaks: Peaks

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.flops / self.seconds / 1e9

    @property
    def share(self) -> float:
        """The limit's share of the time: 1 is as fast as the machine can be."""
        return self.limit / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.gflops:.1f} GFLOP/s of {self.peaks.flops / 1e9:.1f}, "
            f"{self.share:.0%} of the roofline ({self.bound} bound)"
        )


def peaks(vector: int, seen: float = 0.0) -> Peaks:
    """This machine's, for vectors of so many bytes; measured once, then kept in the store.

    seen  operations a second that a kernel has reached: a lower peak was taken while the machine
          was busy, and is measured again
    """
    key = Key(f"peaks of {vector}-byte vectors", "native", "time", "x86", processor().fingerprint)
    with Store.open_default() as store:
        flops = _kept(store, key, "flops", lambda: _flops(vector), seen)
        return Peaks(flops, _kept(store, key, "bandwidth", _bandwidth))


def peak_flops(vector: int, seen: float = 0.0) -> float:
    """Operations a second of f32 that a core reaches; see `peaks`."""
    key = Key(f"peaks of {vector}-byte vectors", "native", "time", "x86", processor().fingerprint)
    with Store.open_default() as store:
        return _kept(store, key, "flops", lambda: _flops(vector), seen)


# No core moves more bytes to and from its first cache for each operation it can do.
_BYTES_PER_FLOP = 4.0
# How far a peak that was measured may lie below the true one.
_SLACK = 1.1
_COUNTED = frozenset({"add", "sub", "mul", "div", "min", "max"})


def least_seconds(program: Program, flops: float, relative: float = 1.0) -> float:
    """Seconds below which no kernel of the program can be: faster is a mistake in the timing.

    flops     operations a second of f32 (`peak_flops`)
    relative  how many times as fast the program's types are

    Counts what cannot be left out: each operation as often as the axes it depends on have points,
    and each input and output once.
    """
    compute = least_operations(program) / (flops * relative)
    memory = least_bytes(program) / (flops * _BYTES_PER_FLOP)
    return max(compute, memory) / _SLACK


def least_operations(program: Program) -> int:
    """Operations that remain when everything is computed once for all points that share it."""
    total = 0
    for stage in program.stages:
        done: set[Expr] = set()
        for part in (stage.body, stage.post):
            for expr in walk(part) if part is not None else ():
                if isinstance(expr, Op) and expr.name in _COUNTED and expr not in done:
                    done.add(expr)
                    total += prod(stage.extents[a] for a in free_axes(expr))
        total += prod(stage.extents.values()) if stage.reduce else 0
    return total


def least_bytes(program: Program) -> int:
    """Bytes of outputs, and of what is read of each input, each element once."""
    total = sum(prod(t.shape) * t.type.size for t in program.outputs)
    for tensor in program.inputs:
        touched = 0
        for stage in program.stages:
            for access in stage.reads:
                if access.tensor == tensor:
                    touched += prod(stage.extents[a] for a in free_axes(access))
        total += min(touched, prod(tensor.shape)) * tensor.type.size
    return total


def relative_rate(program: Program, dot4: bool) -> float:
    """Operations a second over those of f32: lanes are half or, for bytes by VNNI, four times."""
    types = {t.type.name for t in program.inputs}
    if "f64" in types:
        return 0.5
    return 4.0 if dot4 and types <= {"i8", "u8"} else 1.0


def _kept(
    store: Store, key: Key, name: str, measure: Callable[[], list[float]], seen: float = 0.0
) -> float:
    """A peak from the store, or measured now: the best rate, since a peak is no mean."""
    known = store.get(key, name)
    if known is None or not known.ok or known.value < seen:
        rates = measure()
        measured = Measurement(max(*rates, seen), "1/s", {}, tuple(rates), key.machine)
        known = Outcome(name, measured)
        store.put(key, known)
    return known.value


def _flops(vector: int) -> list[float]:
    """Multiply-adds on twelve registers, some thousand times: briefer than what disturbs it."""
    trips, registers = 1 << 12, 12
    width = vector or 16
    # Twelve independent chains, so that no multiply-add waits for the one before it.
    rounds = b"".join(x86.vector("vfmadd231ps", width, at, 14, 15) for at in range(registers))
    body = rounds * 4
    zero = b"".join(x86.vector("vpxor", width, at, at, at) for at in range(16))
    loop = body + x86.dec(x86.RCX)
    code = zero + x86.move_imm(x86.RCX, trips) + loop + x86.jnz(-len(loop) - 6)
    memory = Executable(code + x86.VZEROUPPER + x86.RET)
    function = ctypes.CFUNCTYPE(None)(memory.address())
    operations = trips * 4 * registers * (width // 4) * 2
    return sorted(_rate(function, operations, _BRIEF_RUNS))[-5:]


def _bandwidth() -> list[float]:
    from planish.tune.einsum import Einsum

    data = np.ones(_STREAM_BYTES // 4, np.float32)
    sum_all = Einsum("n->")
    sum_all(data)
    return _rate(lambda: sum_all(data), data.nbytes)


def _rate(function: Callable[[], object], amount: int, runs: int = 5) -> list[float]:
    """So many rates."""
    function()
    rates = []
    for _ in range(runs):
        started = time.perf_counter()
        function()
        rates.append(amount / (time.perf_counter() - started))
    return rates


def measure_kernel(kernel: Kernel, arrays: Sequence[Array], seconds: float = 0.2) -> Roofline:
    """Time a kernel (at least five calls, about so many seconds) and set it against its limit."""
    program = kernel.program
    given = list(arrays) or [np.zeros(t.shape, t.type.numpy) for t in program.inputs]
    kernel(*given)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 10_000):
        started = time.perf_counter()
        kernel(*given)
        times.append(time.perf_counter() - started)
    flops, moved = program.flops(), program.bytes()
    rate = relative_rate(program, kernel.units.dot4)
    seen = flops / min(times) / rate / kernel.threads
    top = peaks(processor().vector, seen)
    compute = flops / (top.flops * rate * kernel.threads)
    memory = moved / top.bandwidth
    bound = "compute" if compute >= memory else "memory"
    return Roofline(statistics.median(times), flops, moved, max(compute, memory), bound, top)
