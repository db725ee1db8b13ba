"""Steps of a training or inference loop, from the annotations that mark them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from planish.trace.events import Kind, Table
from planish.trace.timeline import busy_intervals
from planish.trace.work import DeviceWork

# PyTorch's profiler; Lightning, TensorFlow and NVTX users write much the same.
_STEP = re.compile(r"^(?:ProfilerStep|Step|step|iteration|train_step|TraceContext)\s*#?\s*(\d+)$")


@dataclass(frozen=True)
class StepRow:
    """One step. Times in nanoseconds; `busy` is that of the device work launched in it."""

    number: int
    start: int
    duration: int
    busy: int
    events: int


def step_rows(table: Table, work: DeviceWork) -> list[StepRow]:
    """All steps, the first and the last included; device work counts where it was launched."""
    events = table.events
    marks = events.of_kind(Kind.ANNOTATION)
    numbers = {i: int(m[1]) for i, s in enumerate(table.strings) if (m := _STEP.match(s))}
    rows = [row for row in marks.tolist() if int(events.name[row]) in numbers]
    launched = np.where(work.launch >= 0, events.start[work.launch], work.start)
    made = []
    for row in rows:
        start, duration = int(events.start[row]), int(events.duration[row])
        mine = work.where((launched >= start) & (launched < start + duration))
        busy = busy_intervals(mine).total
        made.append(StepRow(numbers[int(events.name[row])], start, duration, busy, len(mine)))
    return made
