"""What occupies a device: compute, communication, copies; and the calls that launched it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from planish.trace.events import DEVICE_WORK, Ints, Kind, Narrow, Table, indices


class Work(IntEnum):
    """The class of a device event."""

    COMPUTE = 0
    COMMUNICATION = 1
    COPY = 2


# Kernels of NCCL, RCCL, oneCCL, NVSHMEM and MSCCL, under the names that profilers write.
_COMMUNICATION = re.compile(
    r"^(nccl|rccl|hccl|mscclpp?|oneccl|ccl_|nvshmem|ncclx)|ncclDevKernel|ncclKernel|mccl",
    re.IGNORECASE,
)
_SYNCHRONISING = re.compile(
    r"Synchronize|^(cuda|hip|mtia)Memcpy(?!.*Async)|^cu(Memcpy|MemFree)(?!.*Async)"
    r"|^(cuda|hip)(Free|HostFree)$|clFinish|clWaitForEvents|^hsa_signal_wait"
)
_WHOLE_DEVICE = re.compile(r"(Device|Ctx|Context)Synchronize|^(cuda|hip)(Free|HostFree)$")
_LAUNCHING = re.compile(
    r"Launch|Memcpy|Memset|clEnqueue|GraphExec|hipModule|hipExt|job_prep_and_submit", re.IGNORECASE
)


@dataclass(frozen=True)
class DeviceWork:
    """The device events of a table, by start. All arrays have one element for each.

    row     its row in the table
    work    its class, a `Work`
    launch  the row of the host call that launched it, or -1
    """

    row: Narrow
    start: Ints
    end: Ints
    device: Narrow
    stream: Narrow
    work: npt.NDArray[np.uint8]
    launch: Narrow

    def __len__(self) -> int:
        return len(self.row)

    def of_device(self, device: int) -> DeviceWork:
        """The part that ran on one device."""
        return self.where(self.device == device)

    def where(self, mask: npt.NDArray[np.bool_]) -> DeviceWork:
        """The part where `mask` is true; itself where it is so everywhere."""
        if mask.all():
            return self
        return DeviceWork(
            self.row[mask], self.start[mask], self.end[mask], self.device[mask],
            self.stream[mask], self.work[mask], self.launch[mask],
        )  # fmt: skip


def device_work(table: Table) -> DeviceWork:
    """Pick the device events out and link each to its launch by correlation."""
    events = table.events
    rows = indices(events.of_kind(*DEVICE_WORK), len(events))
    communicates = matching(table, rows, _COMMUNICATION)
    kind = events.kind[rows]
    work = np.full(len(rows), Work.COMPUTE, np.uint8)
    work[(kind == Kind.MEMCPY) | (kind == Kind.MEMSET)] = Work.COPY
    if len(rows):
        work[(kind == Kind.KERNEL) & communicates[events.name[rows]]] = Work.COMMUNICATION
    start = events.start[rows]
    return DeviceWork(
        rows, start, start + events.duration[rows], events.device[rows],
        events.stream[rows], work, _launches(table, rows),
    )  # fmt: skip


def _launches(table: Table, rows: Ints) -> Ints:
    """For each device row the runtime call of the same correlation, -1 where there is none.

    Of several calls with one correlation (a driver call inside a runtime call) the outermost
    counts: it starts first.
    """
    events = table.events
    calls = events.of_kind(Kind.RUNTIME)
    calls = calls[events.correlation[calls] > 0]
    found = np.full(len(rows), -1, rows.dtype)
    if not len(calls) or not len(rows):
        return found
    keys = events.correlation[calls]
    order = np.lexsort((events.start[calls], keys))
    keys, calls = keys[order], calls[order]
    wanted = events.correlation[rows]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    good = (keys[place] == wanted) & (wanted > 0)
    found[good] = calls[place[good]]
    return found


def launch_details(table: Table, work: DeviceWork) -> Ints:
    """For each event the row of `Details` with its launch geometry: its call's or its own; -1.

    Only ROCm's profiler writes geometry beside calls, and there the call says whether it counts
    blocks or threads, which the event does not.
    """
    events, grid = table.events, table.details.grid
    found = events.detail[work.row].astype(np.int64)
    linked = np.flatnonzero(work.launch >= 0)
    called = events.detail[work.launch[linked]].astype(np.int64)
    knows = called >= 0
    knows[knows] = grid[called[knows]] >= 0
    found[linked[knows]] = called[knows]
    return found


def matching(table: Table, rows: Ints, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """For each string of the table, whether it names one of the rows and matches."""
    found = np.zeros(max(1, len(table.strings)), np.bool_)
    used = np.zeros(len(found), np.bool_)
    used[table.events.name[rows]] = True
    for number in np.flatnonzero(used).tolist():
        found[number] = pattern.search(table.strings[number]) is not None
    return found


def synchronising(table: Table) -> npt.NDArray[np.bool_]:
    """For each string of the table, whether it names a call that waits for the device."""
    return matching(table, table.events.of_kind(Kind.RUNTIME), _SYNCHRONISING)


def whole_device(table: Table) -> npt.NDArray[np.bool_]:
    """For each string of the table, whether it names a call that waits for all streams."""
    return matching(table, table.events.of_kind(Kind.RUNTIME), _WHOLE_DEVICE)


def launching(table: Table) -> npt.NDArray[np.bool_]:
    """For each string of the table, whether it names a call that submits device work."""
    return matching(table, table.events.of_kind(Kind.RUNTIME), _LAUNCHING)
