"""Rules over the kernels of a trace: small ones, few blocks, low occupancy, the same again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planish.advise.advice import Advice, Confidence, Evidence
from planish.advise.seen import SHORT_GAP, lanes, ms, slowest, whole
from planish.trace.events import Ints, Kind
from planish.trace.names import short
from planish.trace.trace import Trace
from planish.trace.work import Work

_SMALL_KERNEL = 10_000  # ns: about what a launch costs
_FILLED = 0.75  # of the multiprocessors: what is above is a persistent kernel, or nearly full
_LOW_OCCUPANCY = 25.0  # percent


def small_kernels(trace: Trace) -> Iterator[Advice]:
    """Runs of small kernels on one stream, launched one behind the other."""
    work = trace.work.where(trace.events.kind[trace.work.row] == Kind.KERNEL)
    runs, saved, kernels = 0, 0, 0
    best: tuple[int, int, int] = (0, 0, 0)
    for _, lane in lanes(work):
        length = lane.end - lane.start
        between = np.maximum(lane.start[1:] - lane.end[:-1], 0)
        small = (length < _SMALL_KERNEL) & (lane.work == Work.COMPUTE)
        joined = small[1:] & small[:-1] & (between < SHORT_GAP)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], joined.astype(np.int8), [0]))))
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if last - first < 2:
                continue
            # a fused kernel has one launch, and reads and writes its operands once
            gain = int(between[first:last].sum() + length[first:last].sum() // 2)
            runs, saved, kernels = runs + 1, saved + gain, kernels + last - first + 1
            best = max(best, (gain, int(lane.start[first]), int(lane.end[last])))
    if not runs:
        return
    begin = trace.span[0]
    yield Advice(
        "small-kernels", "fuse the small kernels (torch.compile, a fused or foreach optimiser)",
        f"{runs:,} runs of kernels below {_SMALL_KERNEL / 1000:g} us",
        f"{kernels:,} kernels in runs of three and more; half of their time and the gaps between"
        " them are counted as gain",
        saved, whole(trace), Confidence.LOW, "pattern",
        (Evidence(best[1] - begin, best[2] - begin, "the run with the largest gain"),),
    )  # fmt: skip


def few_blocks(trace: Trace) -> Iterator[Advice]:
    """Kernels whose grid does not fill the device."""
    size = {device.index: device.processors for device in trace.table.devices}
    processors = max((size.get(device, 0) for device in trace.devices), default=0)
    for row in trace.kernels():
        if row.work != Work.COMPUTE or not 0 < row.grid < _FILLED * processors:
            continue
        saved = row.total * (1 - row.grid / processors)
        yield Advice(
            "few-blocks", "split the work into more blocks, or run it beside other kernels",
            short(row.name),
            f"{row.grid} blocks on {processors} multiprocessors, {row.count:,} launches,"
            f" {ms(row.total)}",
            saved, whole(trace), Confidence.LOW, "GPA: block increase", slowest(trace, row.name),
        )  # fmt: skip


def low_occupancy(trace: Trace) -> Iterator[Advice]:
    """Kernels with enough blocks that still keep few warps on a multiprocessor."""
    size = {device.index: device for device in trace.table.devices}
    known = [size[device] for device in trace.devices if device in size]
    for row in trace.kernels():
        enough = known and row.grid >= max(d.processors for d in known)
        if row.work != Work.COMPUTE or not enough or not 0 < row.occupancy < _LOW_OCCUPANCY:
            continue
        why = "registers" if row.registers >= 128 else "shared memory or block size"
        yield Advice(
            "low-occupancy", f"raise the occupancy: it is limited by {why}", short(row.name),
            f"{row.occupancy:.0f} % occupancy, {row.registers} registers a thread,"
            f" {row.shared:,} bytes of shared memory, {row.block} threads a block,"
            f" {ms(row.total)}",
            row.total * 0.2, whole(trace), Confidence.LOW,
            "pattern: a fifth of the kernel's time is assumed", slowest(trace, row.name),
        )  # fmt: skip


def repeated_operations(trace: Trace) -> Iterator[Advice]:
    """The same operation with the same shapes again and again in one step: batch it."""
    events = trace.events
    rows = events.of_kind(Kind.HOST_OP)
    rows = rows[events.shape[rows] >= 0]
    launched = trace.work.where(trace.work.launch >= 0)
    if not len(rows) or not len(launched):
        return
    parent = _operation_of(trace, launched.launch)
    mine = parent >= 0
    key = events.name[parent[mine]].astype(np.int64) << 32 | events.shape[parent[mine]]
    keys, place, count = np.unique(key, return_inverse=True, return_counts=True)
    length = (launched.end - launched.start)[mine]
    total = np.bincount(place, weights=length)
    steps = max(1, len(trace.steps))
    for i in np.flatnonzero((count >= 20 * steps) & (total / count < 2 * _SMALL_KERNEL)).tolist():
        name, shape = trace.strings[keys[i] >> 32], trace.strings[keys[i] & 0xFFFFFFFF]
        yield Advice(
            "repeated-operations", "do it once on a batch (foreach, bmm, a stacked tensor)",
            name,
            f"{count[i]:,} launches with shapes {shape[:80]}, {ms(int(total[i]))} in all,"
            f" {total[i] / count[i] / 1000:.1f} us each",
            total[i] / 2, whole(trace), Confidence.LOW, "pattern: half of the time is assumed",
        )  # fmt: skip


def _operation_of(trace: Trace, calls: Ints) -> Ints:
    """For each call the row of the operation with shapes right around it, or -1."""
    host, events = trace.host, trace.events
    index = np.full(len(events), -1, np.int64)
    index[host.row] = np.arange(len(host.row))
    at = index[calls]
    found = np.full(len(calls), -1, np.int64)
    for _ in range(4):  # call, driver call around it, operation, its wrapper
        at = np.where(at >= 0, host.parent[at], -1)
        row = np.where(at >= 0, host.row[at], -1)
        good = (found < 0) & (row >= 0) & (events.shape[row] >= 0)
        found[good] = row[good]
    return found
