"""Rules over traces. Each looks at one pattern and yields advice with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from planish.advise.advice import Advice, Confidence, Evidence, ranked
from planish.advise.generated import generated_kernels
from planish.advise.kernel_time import (
    few_blocks,
    low_occupancy,
    repeated_operations,
    small_kernels,
)
from planish.advise.seen import SHORT_GAP, SHOWN, ms, part_of, pieces, seen_at, whole
from planish.trace.blame import blame, blame_rows
from planish.trace.idle import Cause
from planish.trace.intervals import Intervals, distinct, gaps, overlap
from planish.trace.ranks import Ranks
from planish.trace.timeline import busy_intervals
from planish.trace.trace import Trace
from planish.trace.whatif import what_if_without
from planish.trace.work import DeviceWork, Work, synchronising

Rule = Callable[[Trace], Iterator[Advice]]

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
            np.isin(idle.cause, (Cause.LAUNCHING, Cause.LAUNCH_LATENCY)) & (hole < SHORT_GAP)
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
            f"{count:,} gaps shorter than {SHORT_GAP / 1000:g} us are the cost of single launches:"
            f" {ms(saved)} of idle time",
            saved, whole(trace), Confidence.MEDIUM, "measured idle time by cause",
            pieces(trace, idle, mine),
        )  # fmt: skip


def host_bound(trace: Trace) -> Iterator[Advice]:
    """The device waits while the host computes: the calling contexts are named."""
    for device in trace.devices:
        idle = trace.idle(device)
        mine = np.isin(idle.cause, (Cause.HOST_BUSY, Cause.NO_WORK))
        saved = int((idle.end - idle.start)[mine].sum())
        part = part_of(idle, mine)
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
            f"the device idles {ms(saved)} while the host does other things; most of it,"
            f" {ms(worst.own)}, in this calling context",
            saved, whole(trace), Confidence.MEDIUM, "idle blame", pieces(trace, idle, mine),
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
        longest = mine[np.argsort(-length, kind="stable")[:SHOWN]]
        yield Advice(
            "redundant-synchronisation",
            _instead(table.strings[name]),
            table.strings[name],
            f"{len(mine):,} calls wait {ms(int(length.sum()))}; without them the run is"
            f" {ms(what.before - what.after)} shorter on the replayed graph",
            what.before - what.after, what.before, Confidence.HIGH, "what-if replay",
            tuple(seen_at(trace, int(row)) for row in longest),
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
        worst = np.argsort(alone.start - alone.end, kind="stable")[:SHOWN]
        begin = trace.span[0]
        yield Advice(
            rule, title, f"device {device}",
            f"{ms(alone.total)} of {ms(chosen.total)} run alone on the device",
            saved, whole(trace), Confidence.MEDIUM, "measured overlap",
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
            saved, whole(trace), Confidence.MEDIUM if pinned else Confidence.LOW,
            "bandwidth measured in this trace" if pinned else "rule of thumb",
        )  # fmt: skip


def _unbalanced(ranks: Ranks) -> Iterator[Advice]:
    if len(ranks.rows) < 2:
        return
    last = max(ranks.rows, key=lambda row: row.compute)
    others = sorted(row.compute for row in ranks.rows)
    middle = others[len(others) // 2]
    yield Advice(
        "unbalanced-ranks", "give the slowest rank less work, or look at its machine",
        f"rank {last.rank}",
        f"computes {ms(last.compute)} where the median is {ms(middle)}; the others wait",
        last.compute - middle, last.span, Confidence.MEDIUM, "compute by rank",
    )  # fmt: skip


RULES: Sequence[Rule] = (
    launch_bound, host_bound, redundant_synchronisation, exposed_copies, exposed_communication,
    pageable_copies, small_kernels, few_blocks, low_occupancy, repeated_operations,
)  # fmt: skip
