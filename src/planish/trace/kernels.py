"""Statistics of kernels by name, of copies by direction, of launches and queues."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planish.trace.events import ABSENT, Ints, Kind, Table
from planish.trace.intervals import distinct, median
from planish.trace.work import DeviceWork, Work, launch_details


@dataclass(frozen=True)
class KernelRow:
    """All launches of one kernel. Times in nanoseconds; `variation` is deviation over mean."""

    name: str
    work: Work
    count: int
    total: int
    mean: float
    least: int
    most: int
    median: float
    deviation: float
    share: float
    grid: int
    block: int
    registers: int
    shared: int
    occupancy: float

    @property
    def variation(self) -> float:
        """Coefficient of variation."""
        return self.deviation / self.mean if self.mean else 0.0


@dataclass(frozen=True)
class CopyRow:
    """Copies or fills of one name: bytes, nanoseconds, and bytes a second."""

    name: str
    count: int
    total: int
    bytes: int
    known: int

    @property
    def bandwidth(self) -> float:
        """Bytes a second over the copies whose size is known; 0 where none is."""
        return self.bytes / (self.known * 1e-9) if self.known else 0.0


@dataclass(frozen=True)
class Launches:
    """How the host feeds the devices. Times in nanoseconds.

    linked     device events whose launching call is in the trace
    latency    median and 95th percentile from the end of the call to the start on the device
    call       median duration of a launching call
    depth      largest, and time-averaged, number of events submitted and not yet begun
    negative   events that started before their call did: clocks that do not agree
    """

    linked: int
    latency: tuple[float, float]
    call: float
    depth: tuple[int, float]
    negative: int


def kernel_rows(table: Table, work: DeviceWork) -> list[KernelRow]:
    """Kernels (no copies), the most time first; `share` is of all kernel time."""
    kernels = work.where(table.events.kind[work.row] == Kind.KERNEL)
    if not len(kernels):
        return []
    names = table.events.name[kernels.row]
    duration = kernels.end - kernels.start
    order = np.lexsort((duration, names))
    names, duration = names[order], duration[order]
    detail = launch_details(table, kernels)[order]
    classes = kernels.work[order]
    first = np.flatnonzero(np.concatenate(([True], names[1:] != names[:-1])))
    count = np.diff(np.append(first, len(names)))
    total = np.add.reduceat(duration, first)
    mean = total / count
    spread = np.add.reduceat((duration - np.repeat(mean, count)) ** 2, first)
    median = (duration[first + (count - 1) // 2] + duration[first + count // 2]) / 2
    whole = max(1, int(duration.sum()))
    made = [
        KernelRow(
            table.strings[names[begin]],
            Work(int(classes[begin])),
            size,
            int(total[i]),
            float(mean[i]),
            int(duration[begin]),
            int(duration[begin + size - 1]),
            float(median[i]),
            math.sqrt(spread[i] / size),
            int(total[i]) / whole,
            *_typical(table, detail[begin : begin + size]),
        )
        for i, (begin, size) in enumerate(zip(first.tolist(), count.tolist(), strict=True))
    ]
    return sorted(made, key=lambda row: (-row.total, row.name))


def _typical(table: Table, detail: Ints) -> tuple[int, int, int, int, float]:
    """Upper medians of the launch geometry and resources; ABSENT (nan) where unknown."""
    detail = detail[detail >= 0]
    d = table.details

    def middle(values: npt.NDArray[np.int32] | Ints) -> int:
        known = np.sort(values[values >= 0])
        return int(known[len(known) // 2]) if len(known) else ABSENT

    occupancy = d.occupancy[detail]
    occupancy = occupancy[np.isfinite(occupancy) & (occupancy >= 0)]
    return (
        middle(d.grid[detail]), middle(d.block[detail]), middle(d.registers[detail]),
        middle(d.shared[detail]), median(occupancy),
    )  # fmt: skip


def copy_rows(table: Table, work: DeviceWork) -> list[CopyRow]:
    """Copies and fills by name, the most time first."""
    copies = work.where(work.work == Work.COPY)
    names = table.events.name[copies.row]
    detail = table.events.detail[copies.row]
    size = np.full(len(copies), ABSENT, np.int64)
    size[detail >= 0] = table.details.bytes[detail[detail >= 0]]
    duration = copies.end - copies.start
    made = []
    for name in distinct(names).tolist():
        mine = names == name
        known = mine & (size >= 0)
        made.append(
            CopyRow(
                table.strings[name],
                int(mine.sum()),
                int(duration[mine].sum()),
                int(size[known].sum()),
                int(duration[known].sum()),
            )
        )
    return sorted(made, key=lambda row: (-row.total, row.name))


def launches(table: Table, work: DeviceWork) -> Launches | None:
    """None where no device event has its call in the trace."""
    linked = work.where(work.launch >= 0)
    if not len(linked):
        return None
    events = table.events
    called = events.start[linked.launch]
    returned = called + events.duration[linked.launch]
    wait = linked.start - called
    latency = np.maximum(linked.start - returned, 0)
    good = wait >= 0
    depth, mean = _depth(called[good], linked.start[good])
    duration = events.duration[distinct(linked.launch)]
    return Launches(
        len(linked), (median(latency), float(np.percentile(latency, 95))),
        median(duration), (depth, mean), int((~good).sum()),
    )  # fmt: skip


def _depth(submitted: Ints, begun: Ints) -> tuple[int, float]:
    """Largest and time-averaged number of events in the queue."""
    if not len(submitted):
        return 0, 0.0
    times = np.concatenate((submitted, begun))
    steps = np.concatenate((np.ones(len(submitted), np.int64), -np.ones(len(begun), np.int64)))
    order = np.lexsort((steps, times))  # what begins leaves before what comes at the same time
    depth = np.cumsum(steps[order])
    length = int(times.max() - times.min())
    waited = int((begun - submitted).sum())
    return int(depth.max()), waited / length if length else 0.0
