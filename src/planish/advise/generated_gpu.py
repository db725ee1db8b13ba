"""Advice on GPU kernels that Planish generated: which choice of their recipe to change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planish.advise.advice import Advice, Confidence, Evidence
from planish.trace.events import Ints, Kind
from planish.trace.intervals import distinct, median
from planish.trace.marks import Mark
from planish.trace.trace import Trace
from planish.trace.work import DeviceWork, launch_details

_SHORT = 10_000  # ns: about what a launch costs
_FILLED = 0.75  # of the multiprocessors
_LOW_OCCUPANCY = 25.0  # percent
_MANY_REGISTERS = 128  # a thread: what they leave room for is 512 threads of 2,048
_STAGES = 3
_SHOWN = 3


@dataclass(frozen=True)
class _Measured:
    """Launches of one kernel: rows, nanoseconds, and what the profiler says of one (0: nothing)."""

    rows: Ints
    length: Ints
    grid: int
    registers: int
    occupancy: float
    processors: int


def generated_gpu(trace: Trace, mark: Mark, annotations: Ints) -> Iterator[Advice]:
    """For each kernel launched inside the annotations, the first choice that should change."""
    launched = _inside(trace, annotations)
    names = trace.events.name[launched.row]
    begin, end = trace.span
    for name in distinct(names).tolist():
        mine = launched.where(names == name)
        rows = mine.row
        kernel = trace.strings[name]
        result, choices = _choices(mark, kernel)
        found = _measured(trace, mine)
        change, why, share, confidence = _change(result, choices, found)
        total = int(found.length.sum())
        longest = rows[np.argsort(-found.length, kind="stable")[:_SHOWN]]
        yield Advice(
            "generated-kernel", change, f"{kernel}; recipe: {'; '.join(mark.steps) or '-'}",
            f"{len(rows):,} launches, {total / 1e6:,.2f} ms; {why}", total * share,
            max(1, end - begin), confidence, "choices in the kernel's recipe, launch geometry",
            tuple(
                Evidence(int(trace.events.start[r]) - begin,
                         int(trace.events.start[r] + trace.events.duration[r]) - begin, "a launch")
                for r in longest.tolist()
            ),
        )  # fmt: skip


def _inside(trace: Trace, annotations: Ints) -> DeviceWork:
    """Kernels whose launching call lies in one of the annotations, on the same thread."""
    events, work = trace.events, trace.work
    linked = work.where((work.launch >= 0) & (events.kind[work.row] == Kind.KERNEL))
    called = events.start[linked.launch]
    found = np.zeros(len(linked), np.bool_)
    for row in annotations.tolist():
        first, last = events.start[row], events.start[row] + events.duration[row]
        found |= (
            (events.thread[linked.launch] == events.thread[row]) & (called >= first)
            & (called < last)
        )  # fmt: skip
    return linked.where(found)


def _choices(mark: Mark, kernel: str) -> tuple[str, dict[str, int]]:
    """The result that a kernel computes, with its choices; kernels are named after their result."""
    best, chosen = "", ""
    for step in mark.steps:
        result, _, words = step.partition(":")
        if kernel.startswith(result.strip()) and len(result.strip()) > len(best):
            best, chosen = result.strip(), words
    pairs = (word.partition("=") for word in chosen.split())
    return best or kernel, {n: int(v) for n, _, v in pairs if v.isdigit()}


def _measured(trace: Trace, work: DeviceWork) -> _Measured:
    details, rows = trace.table.details, work.row
    detail = launch_details(trace.table, work)
    detail = detail[detail >= 0]

    def typical(values: np.ndarray) -> float:
        known = values[np.isfinite(values.astype(np.float64)) & (values > 0)]
        middle = median(known)
        return 0.0 if math.isnan(middle) else middle

    device = int(work.device[0])
    processors = next((d.processors for d in trace.table.devices if d.index == device), 0)
    return _Measured(
        rows, trace.events.duration[rows], int(typical(details.grid[detail])),
        int(typical(details.registers[detail])), typical(details.occupancy[detail]), processors,
    )  # fmt: skip


def _change(result: str, c: dict[str, int], found: _Measured) -> tuple[str, str, float, Confidence]:
    """What to do, why, and which share of the time it may save."""
    grid, processors = found.grid, found.processors
    if 0 < grid < _FILLED * processors:
        return (
            f"more blocks for `{result}`: {_smaller(c)}",
            f"{grid} blocks on {processors} multiprocessors", 1 - grid / processors,
            Confidence.LOW,
        )  # fmt: skip
    if float(found.length.mean()) < _SHORT:
        return (
            f"define `{result}` together with what makes or uses it, so that one kernel does both;"
            " or record the launches as a graph",
            f"{found.length.mean() / 1000:.1f} us each: launching costs as much", 0.3,
            Confidence.LOW,
        )  # fmt: skip
    if found.registers >= _MANY_REGISTERS and 0 < found.occupancy < _LOW_OCCUPANCY:
        warps = 2 * c.get("warps", 4)
        return (
            f"fewer registers a thread for `{result}`: warps={warps}, or a tile of half the size",
            f"{found.occupancy:.0f} % occupancy at {found.registers} registers a thread", 0.2,
            Confidence.LOW,
        )  # fmt: skip
    if c.get("k") and c.get("stages", 1) < _STAGES:
        return (
            f"stages={_STAGES} for `{result}`: load tiles ahead of their use",
            f"its loads have {c.get('stages', 1)} stages", 0.2, Confidence.LOW,
        )  # fmt: skip
    return (
        f"try other tiles for `{result}`: gpu_kernel(.., configs=\"m=.. n=.. k=.. warps=..\")",
        "it fills the device and loads ahead; other sizes may fit better", 0.05, Confidence.LOW,
    )  # fmt: skip


def _smaller(c: dict[str, int]) -> str:
    """The choices that make more blocks."""
    words = [f"{name}={c[name] // 2}" for name in ("m", "n") if c.get(name, 0) > 16]
    if c.get("k"):
        words.append(f"or split={2 * max(1, c.get('split', 1))}")
    return " ".join(words) or "smaller tiles"
