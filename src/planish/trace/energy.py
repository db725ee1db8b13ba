"""Energy joined to a trace: joules by step, by kernel and by idleness."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planish.measure.energy import Series, energy, used
from planish.measure.profile import read_samples
from planish.trace.intervals import distinct
from planish.trace.timeline import busy_intervals
from planish.trace.trace import Trace


@dataclass(frozen=True)
class EnergyRow:
    """Joules of a step, a kernel (all launches) or of idle time; nanoseconds beside them."""

    what: str
    joules: float
    time: int


def joules_by_step(trace: Trace, series: Series) -> list[EnergyRow]:
    """For each step what was used from its start to its end."""
    steps = trace.steps
    start = np.array([s.start for s in steps], np.int64)
    end = start + np.array([s.duration for s in steps], np.int64)
    amounts = used(series, start, end).tolist()
    return [
        EnergyRow(f"step {step.number}", joules, step.duration)
        for step, joules in zip(steps, amounts, strict=True)
    ]


def joules_by_kernel(trace: Trace, series: Series, device: int) -> list[EnergyRow]:
    """What the device used while each kernel ran, and while it idled; sums to the span's energy.

    Where several events run at once, the energy of that moment is shared equally among them.
    """
    work = trace.work.of_device(device)
    edges = distinct(np.concatenate((work.start, work.end)))
    if len(edges) < 2:
        return []
    amount = used(series, edges[:-1], edges[1:])
    length = np.diff(edges)
    first, last = np.searchsorted(edges, work.start), np.searchsorted(edges, work.end)
    running = np.zeros(len(edges), np.int64)
    np.add.at(running, first, 1)
    np.add.at(running, last, -1)
    count = np.cumsum(running)[:-1]
    share = np.concatenate((np.zeros(1), np.cumsum(amount / np.maximum(count, 1))))
    joules = share[last] - share[first]
    names = trace.events.name[work.row]
    sums = np.bincount(names, weights=joules, minlength=len(trace.strings))
    times = np.bincount(names, weights=work.end - work.start, minlength=len(trace.strings))
    rows = [
        EnergyRow(trace.strings[name], float(sums[name]), int(times[name]))
        for name in distinct(names).tolist()
    ]
    idle = count == 0
    rows.append(EnergyRow("(idle)", float(amount[idle].sum()), int(length[idle].sum())))
    assert int(length[idle].sum()) == int(edges[-1] - edges[0]) - busy_intervals(work).total
    return sorted(rows, key=lambda row: (-row.joules, row.what))


def energy_summary(trace: Trace, samples: Path, top: int) -> list[dict[str, Any]]:
    """For each meter its joules over the trace, by step, and for `gpu N` by kernel of device N.

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
        device = int(gpu[1]) if gpu else -1
        kernels = joules_by_kernel(trace, mine, device) if device in trace.devices else []
        rows.append(
            {
                "meter": one.name, "joules": spent.joules, "covered": spent.covered,
                "steps": [asdict(row) for row in joules_by_step(trace, mine)[:top]],
                "kernels": [asdict(row) for row in kernels[:top]],
            }
        )  # fmt: skip
    return rows
