"""`planish gpu bench`: kernels measured on a GPU beside torch, inductor and Triton's tutorials.

The rules are those of the CPU's timer: results are checked first, into poisoned memory; every
sample has inputs of its own and a flushed L2 cache; rivals take turns in an order drawn anew each
round; times come from device events. What is told are medians, quartiles and an interval of the
ratio. The same code runs on a pretended device in the tests.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from planish.base.errors import UsageError
from planish.measure.timer import ratio_interval

Array = np.ndarray[Any, Any]


class Device(Protocol):
    """What the measurement needs of a GPU."""

    name: str

    def put(self, array: Array, type_name: str) -> Any:
        """A tensor on the device."""

    def get(self, tensor: Any) -> Array:
        """Its values, as f64."""

    def poison(self, tensor: Any) -> None:
        """Fill with NaN (whole numbers: with a pattern)."""

    def flush(self) -> None:
        """Push everything out of the L2 cache."""

    def timed(self, call: Callable[[], object]) -> float:
        """Seconds between device events around the call."""


Call = Callable[[Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class Contest:
    """One program with its rivals.

    inputs   makes arrays with their types from a seed
    outputs  (shape, type) of each
    rivals   name to a call on inputs and outputs; `planish` is among them
    wanted   the reference on arrays: f64 results
    """

    name: str
    inputs: Callable[[int], Sequence[tuple[Array, str]]]
    outputs: Sequence[tuple[tuple[int, ...], str]]
    rivals: Mapping[str, Call]
    wanted: Callable[[Sequence[Array]], Sequence[Array]]
    tolerance: float
    operations: float


@dataclass(frozen=True)
class Timing:
    """One rival on one program; seconds. `ratio`: its time over Planish's, with an interval."""

    rival: str
    median: float
    quartiles: tuple[float, float]
    samples: int
    tflops: float
    ratio: tuple[float, float, float] | None


@dataclass(frozen=True)
class ContestReport:
    """What came out; rivals that failed or were wrong are named with the reason, not timed."""

    name: str
    timings: tuple[Timing, ...]
    refused: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def run_contest(
    device: Device, contest: Contest, *, rounds: int = 50, sets: int = 4, seed: int = 0
) -> ContestReport:
    """Check all rivals, then time them in turn.

    sets  different inputs, used round by round
    """
    draw = random.Random(seed)
    data = []
    for at in range(sets):
        arrays = contest.inputs(seed + at)
        data.append(([device.put(a, t) for a, t in arrays], [a for a, _ in arrays]))
    outputs = [device.put(np.zeros(shape, np.float32), t) for shape, t in contest.outputs]
    refused: dict[str, str] = {}
    for name, call in contest.rivals.items():
        words = _fault(device, contest, call, data, outputs)
        if words:
            refused[name] = words
    running = [n for n in contest.rivals if n not in refused]
    times: dict[str, list[float]] = {n: [] for n in running}
    for n in range(rounds):
        tensors = data[n % sets][0]
        order = running[:]
        draw.shuffle(order)
        for name in order:
            call = contest.rivals[name]
            device.flush()
            times[name].append(device.timed(partial(call, tensors, outputs)))
    return ContestReport(
        contest.name, tuple(_timing(contest, n, times, draw) for n in running), refused
    )


def _fault(
    device: Device, contest: Contest, call: Call, data: Sequence[tuple[list[Any], list[Array]]],
    outputs: Sequence[Any],
) -> str:  # fmt: skip
    """Why a rival is not timed; "" where all its results are right."""
    for tensors, arrays in data:
        for out in outputs:
            device.poison(out)
        try:
            call(tensors, outputs)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        for out, wanted in zip(outputs, contest.wanted(arrays), strict=True):
            found = device.get(out)
            scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-9)
            with np.errstate(all="ignore"):
                worst = float(np.abs(found - wanted).max(initial=0.0)) / scale
            if not worst <= contest.tolerance:  # NaN is not
                return f"wrong: off by {worst:.2g} of the largest value"
    return ""


def _timing(
    contest: Contest, name: str, times: Mapping[str, Sequence[float]], draw: random.Random
) -> Timing:
    mine = times[name]
    low, middle, high = statistics.quantiles(mine, n=4)
    ratio = None
    if name != "planish" and "planish" in times:
        least, most = ratio_interval(mine, times["planish"], draw)
        ratio = (least, middle / statistics.median(times["planish"]), most)
    return Timing(name, middle, (low, high), len(mine), contest.operations / middle / 1e12, ratio)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: 1 where both order alike."""

    def ranks(values: Sequence[float]) -> Array:
        x = np.asarray(values)
        order = np.argsort(x, kind="stable")
        found = np.empty(len(x))
        found[order] = np.arange(len(x))
        for value in np.unique(x):  # ties share their mean rank
            found[x == value] = found[x == value].mean()
        return found

    first, second = ranks(a), ranks(b)
    first, second = first - first.mean(), second - second.mean()
    below = math.sqrt(float((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / below if below else 0.0


class TorchDevice:
    """A GPU by torch."""

    def __init__(self) -> None:
        torch = find_gpu()
        self._torch = torch
        self.name = str(torch.cuda.get_device_name(0))
        major, minor = torch.cuda.get_device_capability(0)
        hip = getattr(torch.version, "hip", None)
        architecture = str(torch.cuda.get_device_properties(0).gcnArchName) if hip else ""
        self.target = f"hip:{architecture.split(':')[0]}" if hip else f"cuda:sm_{major}{minor}"
        # Larger than any L2 there is.
        self._flush = torch.empty(512 << 20, dtype=torch.int8, device="cuda")

    def put(self, array: Array, type_name: str) -> Any:
        """A tensor on the device."""
        from planish.tune.gpu_torch import TORCH

        host = self._torch.from_numpy(np.ascontiguousarray(array))
        return host.to(getattr(self._torch, TORCH[type_name])).cuda()

    def get(self, tensor: Any) -> Array:
        """Its values, as f64."""
        found: Array = tensor.double().cpu().numpy()
        return found

    def poison(self, tensor: Any) -> None:
        """Fill with NaN."""
        tensor.fill_(float("nan") if tensor.is_floating_point() else 77)

    def flush(self) -> None:
        """Push everything out of the L2 cache."""
        self._flush.zero_()

    def timed(self, call: Callable[[], object]) -> float:
        """Seconds between device events around the call."""
        cuda = self._torch.cuda
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        # The device waits, so that the host's work for the launch does not count.
        cuda._sleep(200_000)
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def find_gpu() -> Any:
    """torch, with a GPU; raises UsageError where there is none."""
    try:
        import torch
    except ImportError:
        raise UsageError(
            "no measurement: torch is not installed",
            hint="pip install torch, on a machine with a GPU",
        ) from None
    if not torch.cuda.is_available():
        raise UsageError(
            "no measurement: torch finds no GPU on this machine",
            hint="gpu compile, inspect and diff work without one",
        )
    return torch
