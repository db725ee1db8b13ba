"""`Trace`: one file with everything that can be asked of it, each computed once when asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from planish.base.errors import UsageError
from planish.trace import critical, whatif
from planish.trace.blame import Blame, BlameRow, blame, blame_rows, ran
from planish.trace.contexts import Host, Segments, host_contexts, segments
from planish.trace.critical import Path as CriticalPath
from planish.trace.events import Events, Note, Table
from planish.trace.graph import Graph, build_graph
from planish.trace.idle import HostState, Idle, device_idle, stream_idle
from planish.trace.isolated import Limits, read_isolated
from planish.trace.kernels import CopyRow, KernelRow, Launches, copy_rows, kernel_rows, launches
from planish.trace.steps import StepRow, step_rows
from planish.trace.timeline import Breakdown, breakdowns, span, stream_breakdowns
from planish.trace.whatif import WhatIf
from planish.trace.work import DeviceWork, device_work

if TYPE_CHECKING:
    import pandas


class Trace:
    """One trace. All times are integer nanoseconds."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def read(cls, path: str | Path, *, salvage: bool = False, limits: Limits | None = None) -> Self:
        """Read a file in a process of its own; raises UsageError and TraceError."""
        return cls(read_isolated(Path(path), salvage=salvage, limits=limits))

    @property
    def events(self) -> Events:
        """The columns: start, duration, name, kind, thread, device, stream, ..."""
        return self.table.events

    @property
    def strings(self) -> Sequence[str]:
        """What the `name` and `shape` columns index."""
        return self.table.strings

    @property
    def notes(self) -> Sequence[Note]:
        """What was left out or repaired while reading."""
        return self.table.notes

    @cached_property
    def span(self) -> tuple[int, int]:
        """First start and last end."""
        return span(self.table)

    @cached_property
    def work(self) -> DeviceWork:
        """The device events, linked to their launches."""
        return device_work(self.table)

    @cached_property
    def host(self) -> Host:
        """The host events, nested."""
        return host_contexts(self.table)

    @cached_property
    def host_segments(self) -> list[Segments]:
        """What each thread ran at each moment."""
        return segments(self.host)

    @cached_property
    def devices(self) -> list[int]:
        """Numbers of the devices that did anything."""
        return [row.device for row in self.breakdown()]

    def breakdown(self) -> list[Breakdown]:
        """Busy, idle, compute, communication and copies of each device."""
        return self._breakdown

    @cached_property
    def _breakdown(self) -> list[Breakdown]:
        return breakdowns(self.work)

    @cached_property
    def streams(self) -> list[Breakdown]:
        """The same for each stream."""
        return stream_breakdowns(self.work)

    def kernels(self) -> list[KernelRow]:
        """Statistics of the kernels by name, the most time first."""
        return self._kernels

    @cached_property
    def _kernels(self) -> list[KernelRow]:
        return kernel_rows(self.table, self.work)

    @cached_property
    def copies(self) -> list[CopyRow]:
        """Copies and fills with their bandwidth."""
        return copy_rows(self.table, self.work)

    @cached_property
    def launches(self) -> Launches | None:
        """Launch latency and queue depth; None where no launch is in the trace."""
        return launches(self.table, self.work)

    @cached_property
    def steps(self) -> list[StepRow]:
        """The steps that the trace marks."""
        return step_rows(self.table, self.work)

    @cached_property
    def state(self) -> HostState:
        """The host's segments by thread, with the cause that each event is when it runs."""
        return HostState.of(self.table, self.host, self.host_segments)

    def idle(self, device: int | None = None, stream: int | None = None) -> Idle:
        """Idle time with causes, of one device (the only one by default) or of one stream."""
        number = self._device(device)
        if stream is not None:
            return stream_idle(self.table, self.work, number, stream, self.state)
        if number not in self._idle:
            self._idle[number] = device_idle(self.table, self.work, number, self.state)
        return self._idle[number]

    @cached_property
    def _idle(self) -> dict[int, Idle]:
        return {}

    def charges(self, device: int | None = None) -> Blame:
        """Idle time by node of the calling-context tree `host.tree`."""
        number = self._device(device)
        if number not in self._charges:
            idle = self.idle(number)
            self._charges[number] = blame(self.table, self.host, self.host_segments, idle)
        return self._charges[number]

    @cached_property
    def _charges(self) -> dict[int, Blame]:
        return {}

    def blame(self, device: int | None = None, limit: int | None = None) -> list[BlameRow]:
        """Idle time charged to the calling contexts of the host; sums to the idle time."""
        return blame_rows(self.table, self.host, self.charges(device), limit)

    def hot(self, limit: int | None = None) -> list[BlameRow]:
        """Calling contexts of the host by the time that they ran themselves, the most first."""
        return blame_rows(self.table, self.host, ran(self.host, self.host_segments), limit)

    @cached_property
    def graph(self) -> Graph:
        """Host calls and device events with what each waits for."""
        return build_graph(self.table, self.work, self.host)

    def critical_path(self) -> CriticalPath:
        """What the run's length hangs on, from the first start to the last end."""
        return self._critical_path

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return critical.critical_path(self.graph)

    def what_if(self, name: str, *, faster: float | None = None) -> WhatIf:
        """The estimated run with kernel or call `name` `faster` times as fast, or without it.

        Raises UsageError where there is no such name or no sense in the factor.
        """
        if faster is None:
            return whatif.what_if_without(self.table, self.graph, name)
        if not faster > 0:
            raise UsageError(f"a kernel cannot be {faster:g} times as fast", hint="give e.g. 2")
        return whatif.what_if_faster(self.table, self.graph, name, faster)

    def to_pandas(self) -> pandas.DataFrame:
        """The events as a DataFrame with names spelled out; raises UsageError without pandas."""
        from planish.trace.frame import to_pandas

        return to_pandas(self.table)

    def summary(self, top: int = 20) -> dict[str, Any]:
        """The first screen as plain data: what `--json` prints."""
        from planish.trace.summary import summary

        return summary(self, top)

    def _device(self, device: int | None) -> int:
        known = self.devices
        if device is not None:
            if device not in known:
                raise UsageError(
                    f"no device {device} in this trace",
                    hint="there are " + (", ".join(map(str, known)) or "none"),
                )
            return device
        if not known:
            raise UsageError(
                "no device did anything in this trace", hint="was the profiler told to trace GPUs?"
            )
        if len(known) > 1:
            raise UsageError(
                "the trace has several devices", hint="say which: " + ", ".join(map(str, known))
            )
        return known[0]
