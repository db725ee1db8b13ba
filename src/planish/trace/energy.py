"""Energy joined to a trace: joules by step, by kernel, by calling context and by idleness."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planish.measure.energy import Joules, Series, Times, energy, limited, used
from planish.measure.profile import read_samples
from planish.trace.blame import awake
from planish.trace.contexts import ROOT
from planish.trace.events import Ints
from planish.trace.intervals import distinct
from planish.trace.trace import Trace

IDLE = "(idle)"
_NO_LAUNCH = "(launch not traced)"


@dataclass(frozen=True)
class EnergyRow:
    """Joules of a step, a kernel (all launches), a calling context, or of idle time.

    time   nanoseconds in which it ran
    flags  what held the device back meanwhile: throttling, a clock below its fastest
    """

    what: str
    joules: float
    time: int
    flags: tuple[str, ...] = ()


def joules_by_step(trace: Trace, series: Series) -> list[EnergyRow]:
    """For each step what was used from its start to its end."""
    steps = trace.steps
    start = np.array([s.start for s in steps], np.int64)
    end = start + np.array([s.duration for s in steps], np.int64)
    amounts = used(series, start, end).tolist()
    return [
        EnergyRow(
            f"step {step.number}", joules, step.duration,
            limited(series, step.start, step.start + step.duration),
        )
        for step, joules in zip(steps, amounts, strict=True)
    ]  # fmt: skip


def joules_by_kernel(trace: Trace, series: Series, device: int) -> list[EnergyRow]:
    """What the device used while each kernel ran, and while it idled; sums to the span's energy.

    Where several events run at once, the energy of that moment is shared equally among them.
    """
    work = trace.work.of_device(device)
    joules, idle = _shared(series, work.start, work.end)
    names = trace.events.name[work.row]
    rows = _rows(names, joules, work.end - work.start, trace.strings.__getitem__)
    return _ranked([*rows, idle])


def joules_by_context(trace: Trace, series: Series, device: int | None) -> list[EnergyRow]:
    """The same by calling context of the host, innermost last.

    device  whose events are charged to the contexts that launched them; None for a meter of the
            host: then the threads that run share the energy of the moment
    """
    host = trace.host
    if device is None:
        running, blocked = awake(trace.table, host, trace.host_segments)
        parts = [*running, *blocked]
        empty = np.empty(0, np.int64)
        start = np.concatenate([empty, *(part.start for part in parts)])
        end = np.concatenate([empty, *(part.end for part in parts)])
        leaf = np.concatenate([empty, *(part.leaf for part in parts)])
        node = host.node[leaf]
    else:
        work = trace.work.of_device(device)
        start, end = work.start, work.end
        index = np.full(len(trace.events) + 1, -1, np.int64)
        index[host.row] = np.arange(len(host.row))
        at = index[work.launch]  # the last place, for events without a launch, holds -1
        node = np.full(len(work), ROOT, np.int64)
        node[at >= 0] = host.node[at[at >= 0]]
    joules, idle = _shared(series, start, end)

    def words(number: int) -> str:
        return " > ".join(host.tree.path(number, trace.strings)) or _NO_LAUNCH

    return _ranked([*_rows(node, joules, end - start, words), idle])


def _shared(series: Series, start: Times, end: Times) -> tuple[Joules, EnergyRow]:
    """Each interval's share of the energy, and what was used between the intervals."""
    edges = distinct(np.concatenate((start, end)))
    if len(edges) < 2:
        return np.zeros(len(start)), EnergyRow(IDLE, 0.0, 0)
    amount = used(series, edges[:-1], edges[1:])
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, end)
    running = np.zeros(len(edges), np.int64)
    np.add.at(running, first, 1)
    np.add.at(running, last, -1)
    count = np.cumsum(running)[:-1]
    share = np.concatenate((np.zeros(1), np.cumsum(amount / np.maximum(count, 1))))
    none = count == 0
    idle = EnergyRow(IDLE, float(amount[none].sum()), int(np.diff(edges)[none].sum()))
    return share[last] - share[first], idle


def _rows(keys: Ints, joules: Joules, length: Times, words: Any) -> list[EnergyRow]:
    """Sums by key; `words` gives a key's name."""
    if not len(keys):
        return []
    sums, times = np.bincount(keys, weights=joules), np.bincount(keys, weights=length)
    return [
        EnergyRow(words(key), float(sums[key]), int(times[key])) for key in distinct(keys).tolist()
    ]


def _ranked(rows: list[EnergyRow]) -> list[EnergyRow]:
    return sorted(rows, key=lambda row: (-row.joules, row.what))


def energy_summary(trace: Trace, samples: Path, top: int) -> list[dict[str, Any]]:
    """For each meter its joules over the trace: by step, by calling context, and by kernel.

    `gpu N` is joined to device N, which must be in the trace; other meters to the host's threads.
    Samples carry the time since the epoch; so do traces, less their `baseTimeNanoseconds`.
    """
    period, series = read_samples(samples)
    base = trace.table.properties.get("baseTimeNanoseconds", 0)
    shift = base if isinstance(base, int) else 0
    start, end = trace.span
    rows = []
    for one in series:
        mine = Series(**{**asdict(one), "times": [t - shift for t in one.times]})
        spent = energy(mine, start, end, period)
        gpu = re.fullmatch(r"gpu (\d+)", one.name)
        device = int(gpu[1]) if gpu else None
        joined = device is None or device in trace.devices
        contexts = joules_by_context(trace, mine, device) if joined else []
        kernels = joules_by_kernel(trace, mine, device) if joined and device is not None else []
        rows.append(
            {
                "meter": one.name, "joules": spent.joules, "covered": spent.covered,
                "flags": list(limited(mine, start, end)),
                "steps": [asdict(row) for row in joules_by_step(trace, mine)[:top]],
                "kernels": [asdict(row) for row in kernels[:top]],
                "contexts": [asdict(row) for row in contexts[:top]],
            }
        )  # fmt: skip
    return rows
