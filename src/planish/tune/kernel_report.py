"""What `planish compile` shows: a kernel, its schedule, its speed beside NumPy's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planish.base.errors import UsageError
from planish.tensor.einsum import einsum_program, extents_of, parse_spec
from planish.tensor.expr import Tensor
from planish.tensor.types import BF16, Type, type_of
from planish.tune.roofline import Roofline, measure_kernel
from planish.tune.tensors import Kernel

Array = np.ndarray[Any, Any]

_SECONDS = 0.5


@dataclass(frozen=True)
class KernelReport:
    """A kernel in words and numbers; `steps` where every step was asked for."""

    loops: str
    schedule: str
    compiled: str
    ledger: Mapping[str, Any]
    fallbacks: tuple[str, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    asm: str = ""
    roofline: Roofline | None = None
    against: str | None = None
    ratio: tuple[float, float, float] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        found: dict[str, Any] = {
            "loops": self.loops, "schedule": self.schedule, "ledger": dict(self.ledger),
        }  # fmt: skip
        if self.roofline is not None:
            line = self.roofline
            found["speed"] = {
                "seconds": line.seconds, "gflops": line.gflops, "roofline": line.share,
                "bound": line.bound, "peak_gflops": line.peaks.flops / 1e9,
                "peak_gbytes": line.peaks.bandwidth / 1e9,
            }  # fmt: skip
        if self.ratio is not None:
            low, middle, high = self.ratio
            found["numpy_over_planish"] = {"median": middle, "quartiles": [low, high]}
        if self.asm:
            found["asm"] = self.asm
        return found


def einsum_tensor(
    text: str,
    extents: Mapping[str, int],
    type_name: str,
    *,
    semiring: str,
    modulo: int | None = None,
) -> Tensor:
    """The tensor of an einsum string for these lengths, all operands of one type."""
    spec = parse_spec(text)
    shapes = extents_of(spec, extents)
    types = [type_of(type_name)] * len(shapes)
    return einsum_program(spec, shapes, types, semiring=semiring, modulo=modulo)


def report_on(
    kernel: Kernel, text: str, *, semiring: str, run: bool, explain: bool, asm: bool
) -> KernelReport:
    """Compile, and measure where `run` says so; `text` is the einsum, if it is one."""
    if kernel.target != "aarch64":
        kernel.native()
    ledger = kernel.ledger
    where = "from the store" if ledger.cached else "generated"
    words = f"{ledger.path}, {where} in {ledger.seconds * 1e3:.1f} ms"
    line, against, ratio = None, None, None
    if run:
        arrays = _arrays(kernel)
        line = measure_kernel(kernel, arrays)
        if (
            text
            and semiring == "sum-product"
            and not any(t.type is BF16 for t in kernel.program.inputs)
        ):
            ratio = _ratio(kernel, text, arrays)
            against = (
                f"numpy.einsum takes {ratio[1]:.2f} times as long "
                f"(quartiles {ratio[0]:.2f} to {ratio[2]:.2f})"
            )
    steps: tuple[tuple[str, str], ...] = ()
    if explain:
        shown = kernel.schedule.explain(kernel.program)
        steps = tuple((str(one or "the plain nest"), str(nest)) for one, nest in shown)
    return KernelReport(
        str(kernel.loops), str(kernel.schedule), words,
        {"path": ledger.path, "seconds": ledger.seconds, "cached": ledger.cached,
         "fallbacks": ledger.fallbacks},
        tuple(ledger.fallbacks), steps, kernel.asm if asm else "", line, against, ratio,
    )  # fmt: skip


def _arrays(kernel: Kernel) -> list[Array]:
    numbers = np.random.default_rng(0)

    def make(shape: tuple[int, ...], type: Type) -> Array:
        if type is BF16:
            return np.zeros(shape, np.uint16)
        if type.is_float:
            return numbers.random(shape).astype(type.numpy)
        return numbers.integers(0, 2 if type.name == "bool" else 4, shape).astype(type.numpy)

    try:
        return [make(t.shape, t.type) for t in kernel.program.inputs]
    except MemoryError:
        raise UsageError("the arrays do not fit into memory", hint="use --no-run") from None


def _ratio(kernel: Kernel, text: str, arrays: list[Array]) -> tuple[float, float, float]:
    """NumPy's time over ours, call by call in turn: quartiles."""
    spec = text.replace(" ", "")
    pairs: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(pairs) < 5 or (time.perf_counter() < end and len(pairs) < 1000):
        ours = _time(lambda: kernel(*arrays))
        theirs = _time(lambda: np.einsum(spec, *arrays, optimize=True))
        pairs.append(theirs / ours)
    low, middle, high = statistics.quantiles(pairs, n=4)
    return low, middle, high


def _time(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
