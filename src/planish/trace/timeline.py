"""Where the time of each device and stream went: compute, communication, copies, idleness."""

from __future__ import annotations

from dataclasses import dataclass

from planish.trace.events import Table
from planish.trace.intervals import Intervals, distinct, overlap, union
from planish.trace.work import DeviceWork, Work


@dataclass(frozen=True)
class Breakdown:
    """The time of one device, or of one of its streams, in nanoseconds.

    span     from its first start to its last end
    busy     time in which at least one event ran
    idle     span - busy
    compute  time in which compute ran (whatever else ran beside it)
    other    busy - compute: communication and copies that no compute hides
    communication, copy  time in which these ran
    hidden   communication that ran beside compute
    events   how many
    stream   None for the whole device
    """

    device: int
    stream: int | None
    start: int
    span: int
    busy: int
    idle: int
    compute: int
    other: int
    communication: int
    copy: int
    hidden: int
    events: int

    @property
    def utilisation(self) -> float:
        """Share of the span in which something ran."""
        return self.busy / self.span if self.span else 0.0

    @property
    def overlap(self) -> float:
        """Share of the communication that compute hides (0 where there is none)."""
        return self.hidden / self.communication if self.communication else 0.0


def breakdowns(work: DeviceWork) -> list[Breakdown]:
    """One for each device, in order of its number."""
    return [breakdown(work.of_device(int(d)), int(d), None) for d in distinct(work.device)]


def stream_breakdowns(work: DeviceWork) -> list[Breakdown]:
    """One for each stream of each device."""
    made = []
    for device in distinct(work.device).tolist():
        part = work.of_device(device)
        for stream in distinct(part.stream).tolist():
            made.append(breakdown(part.where(part.stream == stream), device, stream))
    return made


def breakdown(work: DeviceWork, device: int, stream: int | None) -> Breakdown:
    """Of the given events, which must not be none."""
    busy = busy_intervals(work)
    by_class = {kind: busy_intervals(work.where(work.work == kind)) for kind in Work}
    compute = by_class[Work.COMPUTE]
    communication = by_class[Work.COMMUNICATION]
    start, end = int(work.start.min()), int(work.end.max())
    return Breakdown(
        device=device,
        stream=stream,
        start=start,
        span=end - start,
        busy=busy.total,
        idle=end - start - busy.total,
        compute=compute.total,
        other=busy.total - compute.total,
        communication=communication.total,
        copy=by_class[Work.COPY].total,
        hidden=overlap(compute, communication).total if len(communication) else 0,
        events=len(work),
    )


def busy_intervals(work: DeviceWork) -> Intervals:
    """When at least one of the events ran."""
    return union(work.start, work.end)


def span(table: Table) -> tuple[int, int]:
    """The first start and the last end of all events (0, 0 for an empty trace)."""
    events = table.events
    if not len(events):
        return 0, 0
    return int(events.start[0]), int(events.end.max())
