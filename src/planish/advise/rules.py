"""Rules over traces. Each looks at one pattern and yields advice with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from planish.advise.advice import Advice, Confidence, Evidence, ranked
from planish.advise.generated import generated_kernels
from planish.trace.blame import blame, blame_rows
from planish.trace.critical import what_if_without
from planish.trace.events import Ints, Kind
from planish.trace.idle import Cause, Idle
from planish.trace.intervals import Intervals, distinct, gaps, overlap
from planish.trace.names import short
from planish.trace.ranks import Ranks
from planish.trace.timeline import busy_intervals
from planish.trace.trace import Trace
from planish.trace.work import DeviceWork, Work, synchronising

Rule = Callable[[Trace], Iterator[Advice]]

_SHOWN = 3
_SHORT_GAP = 20_000  # ns: what lies between launches that follow each other
_SMALL_KERNEL = 10_000  # ns: about what a launch costs
_FILLED = 0.75  # of the multiprocessors: what is above is a persistent kernel, or nearly full
_LOW_OCCUPANCY = 25.0  # percent
_SLOW_COPY = 0.6  # of what pinned memory reaches on the same trace


def advise_trace(trace: Trace) -> list[Advice]:
    """All rules, the largest estimated gain first."""
    if not trace.devices:
        return ranked(generated_kernels(trace))
    return ranked(advice for rule in (*RULES, generated_kernels) for advice in rule(trace))


def advise_ranks(ranks: Ranks) -> list[Advice]:
    """What only several ranks together show."""
    return ranked(_unbalanced(ranks))


def launch_bound(trace: Trace) -> Iterator[Advice]:
    """Short gaps that are the cost of launching: a graph submits them at once."""
    for device in trace.devices:
        idle = trace.idle(device)
        length = idle.end - idle.start
        hole = np.bincount(idle.gap, weights=length)[idle.gap]
        mine = (
            np.isin(idle.cause, (Cause.LAUNCHING, Cause.LAUNCH_LATENCY)) & (hole < _SHORT_GAP)
        )  # fmt: skip
        count = len(distinct(idle.gap[mine]))
        if count < 10:
            continue
        saved = int(length[mine].sum())
        yield Advice(
            "launch-bound",
            "record the repeated launches as a graph (CUDA or HIP graphs, torch.compile with"
            " mode='reduce-overhead')",
            f"device {device}",
            f"{count:,} gaps shorter than {_SHORT_GAP / 1000:g} us are the cost of single launches:"
            f" {_ms(saved)} of idle time",
            saved, _span(trace), Confidence.MEDIUM, "measured idle time by cause",
            _evidence(trace, idle, mine),
        )  # fmt: skip


def host_bound(trace: Trace) -> Iterator[Advice]:
    """The device waits while the host computes: the calling contexts are named."""
    for device in trace.devices:
        idle = trace.idle(device)
        mine = np.isin(idle.cause, (Cause.HOST_BUSY, Cause.NO_WORK))
        saved = int((idle.end - idle.start)[mine].sum())
        part = _part(idle, mine)
        rows = blame_rows(
            trace.table, trace.host, blame(trace.table, trace.host, trace.host_segments, part), 1
        )
        if not rows:
            continue
        worst = rows[0]
        where = " > ".join(worst.path[-3:]) or "no traced code"
        loads = any("DataLoader" in name or "data" in name.lower() for name in worst.path[-3:])
        title = (
            "load data in more worker processes and ahead of time"
            if loads
            else "submit work earlier: move this host code off the way or to another thread"
        )
        yield Advice(
            "host-bound", title, where,
            f"the device idles {_ms(saved)} while the host does other things; most of it,"
            f" {_ms(worst.own)}, in this calling context",
            saved, _span(trace), Confidence.MEDIUM, "idle blame", _evidence(trace, idle, mine),
        )  # fmt: skip


def redundant_synchronisation(trace: Trace) -> Iterator[Advice]:
    """Synchronising calls, removed one name at a time on the graph of the run."""
    table, graph = trace.table, trace.graph
    waits = synchronising(table)
    rows = graph.row[~graph.device & waits[table.events.name[graph.row]]]
    for name in distinct(table.events.name[rows]).tolist():
        what = what_if_without(table, graph, table.strings[name])
        mine = rows[table.events.name[rows] == name]
        length = table.events.duration[mine]
        longest = mine[np.argsort(-length, kind="stable")[:_SHOWN]]
        yield Advice(
            "redundant-synchronisation",
            _instead(table.strings[name]),
            table.strings[name],
            f"{len(mine):,} calls wait {_ms(int(length.sum()))}; without them the run is"
            f" {_ms(what.before - what.after)} shorter on the replayed graph",
            what.before - what.after, what.before, Confidence.HIGH, "what-if replay",
            tuple(_at(trace, int(row)) for row in longest),
        )  # fmt: skip


def _instead(name: str) -> str:
    if "Free" in name:
        return "free less often: keep buffers, use a caching or stream-ordered allocator"
    if "Memcpy" in name:
        return "copy asynchronously from pinned memory and wait only where the data is used"
    return "let the host run ahead: drop the call, or wait for an event where the result is used"


def exposed_copies(trace: Trace) -> Iterator[Advice]:
    """Copies during which the device does nothing else."""
    yield from _exposed(
        trace, Work.COPY, "exposed-copies",
        "overlap copies with compute: pinned memory, a stream of its own, prefetch one step",
    )  # fmt: skip


def exposed_communication(trace: Trace) -> Iterator[Advice]:
    """Communication that no compute hides."""
    yield from _exposed(
        trace, Work.COMMUNICATION, "exposed-communication",
        "overlap communication with compute: smaller buckets, start them earlier, prefetch",
    )  # fmt: skip


def _exposed(trace: Trace, kind: Work, rule: str, title: str) -> Iterator[Advice]:
    for device in trace.devices:
        work = trace.work.of_device(device)
        chosen = busy_intervals(work.where(work.work == kind))
        if not len(chosen):
            continue
        others = busy_intervals(work.where(work.work != kind))
        alone = overlap(chosen, _free(others, work))
        # hidden behind compute at best, of which there must be enough
        saved = min(alone.total, others.total)
        worst = np.argsort(alone.start - alone.end, kind="stable")[:_SHOWN]
        begin = trace.span[0]
        yield Advice(
            rule, title, f"device {device}",
            f"{_ms(alone.total)} of {_ms(chosen.total)} run alone on the device",
            saved, _span(trace), Confidence.MEDIUM, "measured overlap",
            tuple(
                Evidence(int(alone.start[i]) - begin, int(alone.end[i]) - begin, "runs alone")
                for i in worst
            ),
        )  # fmt: skip


def _free(busy: Intervals, work: DeviceWork) -> Intervals:
    return gaps(busy, int(work.start.min()), int(work.end.max()))


def pageable_copies(trace: Trace) -> Iterator[Advice]:
    """Copies from or to pageable memory go through a staging buffer."""
    pinned = [row.bandwidth for row in trace.copies if "Pinned" in row.name and row.bandwidth]
    reach = max(pinned, default=12e9)
    for row in trace.copies:
        if "Pageable" not in row.name or not row.known or row.bandwidth > _SLOW_COPY * reach:
            continue
        saved = row.total * (1 - row.bandwidth / reach)
        yield Advice(
            "pageable-copies", "allocate the host buffers pinned (pin_memory=True)", row.name,
            f"{row.count:,} copies at {row.bandwidth / 1e9:.1f} GB/s; pinned memory reaches"
            f" {reach / 1e9:.1f} GB/s" + ("" if pinned else " as a rule of thumb"),
            saved, _span(trace), Confidence.MEDIUM if pinned else Confidence.LOW,
            "bandwidth measured in this trace" if pinned else "rule of thumb",
        )  # fmt: skip


def small_kernels(trace: Trace) -> Iterator[Advice]:
    """Runs of small kernels on one stream, launched one behind the other."""
    work = trace.work.where(trace.events.kind[trace.work.row] == Kind.KERNEL)
    runs, saved, kernels = 0, 0, 0
    best: tuple[int, int, int] = (0, 0, 0)
    for _, lane in _lanes(work):
        length = lane.end - lane.start
        between = np.maximum(lane.start[1:] - lane.end[:-1], 0)
        small = (length < _SMALL_KERNEL) & (lane.work == Work.COMPUTE)
        joined = small[1:] & small[:-1] & (between < _SHORT_GAP)
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
        saved, _span(trace), Confidence.LOW, "pattern",
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
            f" {_ms(row.total)}",
            saved, _span(trace), Confidence.LOW, "GPA: block increase", _slowest(trace, row.name),
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
            f" {_ms(row.total)}",
            row.total * 0.2, _span(trace), Confidence.LOW,
            "pattern: a fifth of the kernel's time is assumed", _slowest(trace, row.name),
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
            f"{count[i]:,} launches with shapes {shape[:80]}, {_ms(int(total[i]))} in all,"
            f" {total[i] / count[i] / 1000:.1f} us each",
            total[i] / 2, _span(trace), Confidence.LOW, "pattern: half of the time is assumed",
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


def _unbalanced(ranks: Ranks) -> Iterator[Advice]:
    if len(ranks.rows) < 2:
        return
    slowest = max(ranks.rows, key=lambda row: row.compute)
    others = sorted(row.compute for row in ranks.rows)
    middle = others[len(others) // 2]
    yield Advice(
        "unbalanced-ranks", "give the slowest rank less work, or look at its machine",
        f"rank {slowest.rank}",
        f"computes {_ms(slowest.compute)} where the median is {_ms(middle)}; the others wait",
        slowest.compute - middle, slowest.span, Confidence.MEDIUM, "compute by rank",
    )  # fmt: skip


def _lanes(work: DeviceWork) -> Iterator[tuple[tuple[int, int], DeviceWork]]:
    for device in distinct(work.device).tolist():
        part = work.of_device(device)
        for stream in distinct(part.stream).tolist():
            yield (device, stream), part.where(part.stream == stream)


def _part(idle: Idle, mask: np.ndarray) -> Idle:
    return Idle(
        idle.device, idle.stream, idle.start[mask], idle.end[mask], idle.gap[mask],
        idle.cause[mask], idle.next[mask], idle.call[mask],
    )  # fmt: skip


def _evidence(trace: Trace, idle: Idle, mask: np.ndarray) -> tuple[Evidence, ...]:
    """The longest pieces."""
    rows = np.flatnonzero(mask)
    length = (idle.end - idle.start)[rows]
    begin = trace.span[0]
    names = trace.events.name
    return tuple(
        Evidence(
            int(idle.start[i]) - begin, int(idle.end[i]) - begin,
            f"{Cause(int(idle.cause[i])).words}, before"
            f" {short(trace.strings[names[idle.next[i]]])[:80]}",
        )
        for i in rows[np.argsort(-length, kind="stable")[:_SHOWN]].tolist()
    )  # fmt: skip


def _at(trace: Trace, row: int) -> Evidence:
    start = int(trace.events.start[row]) - trace.span[0]
    name = short(trace.strings[trace.events.name[row]])[:80]
    return Evidence(start, start + int(trace.events.duration[row]), name)


def _slowest(trace: Trace, name: str) -> tuple[Evidence, ...]:
    events = trace.events
    rows = trace.work.row[events.name[trace.work.row] == list(trace.strings).index(name)]
    order = np.argsort(-events.duration[rows], kind="stable")[:_SHOWN]
    return tuple(_at(trace, int(row)) for row in rows[order])


def _span(trace: Trace) -> int:
    return max(row.span for row in trace.breakdown())


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:,.2f} ms"


RULES: Sequence[Rule] = (
    launch_bound, host_bound, redundant_synchronisation, exposed_copies, exposed_communication,
    pageable_copies, small_kernels, few_blocks, low_occupancy, repeated_operations,
)  # fmt: skip
