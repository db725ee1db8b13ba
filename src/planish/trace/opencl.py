"""A tracer for OpenCL programs in Python (pyopencl): commands, host calls, clocks aligned.

    python -m planish.trace.opencl -o trace.json script.py arguments

or, inside a program, `with trace_opencl() as tracer: ...` and then `tracer.table()`. Queues that
are made while the tracer is on get profiling; kernels, copies, fills and waits are recorded, and
the host calls that submit or wait for them. The file is Perfetto's JSON, read by `planish trace`.

Devices count time on a clock of their own. It is aligned with the host's by markers: a marker's
`queued` time lies between the host's times before and after it was enqueued. Of many markers the
one with the narrowest bounds counts, once at the start and once at the end, with a straight line
between (the clocks drift).
"""

from __future__ import annotations

import argparse
import runpy
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from planish.base.closing import Closing
from planish.base.errors import UsageError
from planish.trace.columns import Columns
from planish.trace.events import ABSENT, Device, Kind, Table
from planish.trace.opencl_calls import of_copy, of_fill, of_kernel, profiled

_MARKERS = 50
_PROCESS = 1


@dataclass
class _Clock:
    """Pairs of device and host time, with the half-width of their bounds."""

    pairs: list[tuple[int, int, int]] = field(default_factory=list)

    def host(self, device_time: int) -> int:
        """The host's time; straight between the first and the last pair."""
        first, last = self.pairs[0], self.pairs[-1]
        span = last[0] - first[0]
        offset = first[1] - first[0]
        if span > 0:
            drift = (last[1] - last[0]) - offset
            offset += round(drift * (device_time - first[0]) / span)
        return device_time + offset


@dataclass
class _Command:
    event: Any
    name: str
    kind: Kind
    queue: int
    device: int
    link: int
    bytes: int = ABSENT
    grid: int = ABSENT
    block: int = ABSENT


class Tracer(Closing):
    """Records from its making to `close`; then `table()` is what happened."""

    def __init__(self) -> None:
        try:
            self._cl: Any = import_module("pyopencl")
        except ImportError as error:
            raise UsageError("pyopencl is not installed", hint="pip install pyopencl") from error
        self._queue_class: Any = self._cl.CommandQueue
        self._calls: list[tuple[str, int, int, int, int]] = []
        self._commands: list[_Command] = []
        self._queues: dict[int, tuple[int, Any]] = {}
        self._devices: dict[int, tuple[int, Any]] = {}
        self._clocks: dict[int, _Clock] = {}
        self._links = 0
        self._busy = threading.local()
        self._restore: list[tuple[Any, str, Any]] = []
        self._patch()

    def close(self) -> None:
        """Put pyopencl back as it was, wait for all commands, align the clocks again."""
        for owner, name, original in reversed(self._restore):
            setattr(owner, name, original)
        self._restore.clear()
        for _, queue in self._queues.values():
            queue.finish()
        for number, queue in self._one_queue_each().items():
            self._calibrate(number, queue)

    def clock_error(self) -> int:
        """Nanoseconds by which the alignment may be off, at most."""
        return max((pair[2] for clock in self._clocks.values() for pair in clock.pairs), default=0)

    def table(self) -> Table:
        """Host calls and commands on the host's clock (nanoseconds since the epoch)."""
        columns = Columns()
        calls = self._calls
        columns.add(
            start=[c[1] for c in calls],
            duration=[c[2] - c[1] for c in calls],
            name=[columns.strings[c[0]] for c in calls],
            kind=[Kind.RUNTIME] * len(calls),
            thread=[columns.threads[_PROCESS, c[3]] for c in calls],
            correlation=[c[4] for c in calls],
        )
        done = [(c, self._times(c)) for c in self._commands]
        good = [(c, t) for c, t in done if t is not None]
        columns.note("commands without profiling (left out)", len(done) - len(good))
        columns.add(
            start=[t[0] for _, t in good],
            duration=[t[1] - t[0] for _, t in good],
            name=[columns.strings[c.name] for c, _ in good],
            kind=[c.kind for c, _ in good],
            thread=[columns.threads[c.device, c.queue] for c, _ in good],
            device=[c.device for c, _ in good],
            stream=[c.queue for c, _ in good],
            correlation=[c.link for c, _ in good],
            detail=columns.add_details(
                bytes=[c.bytes for c, _ in good], grid=[c.grid for c, _ in good],
                block=[c.block for c, _ in good],
            ),
        )  # fmt: skip
        devices = [
            Device(number, device.name.strip(), device.max_compute_units)
            for number, device in self._devices.values()
        ]
        return columns.finish("opencl", "opencl", devices=devices)

    def _times(self, command: _Command) -> tuple[int, int] | None:
        try:
            profile = command.event.profile
            clock = self._clocks[command.device]
            start, end = clock.host(profile.start), clock.host(profile.end)
        except (self._cl.RuntimeError, KeyError):
            return None
        return start, max(start, end)

    def _patch(self) -> None:
        cl, tracer = self._cl, self

        def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            original = getattr(owner, name)
            self._restore.append((owner, name, original))
            setattr(owner, name, make(original))

        def submitting(called: str, kind: Kind, describe: Callable[..., dict[str, Any]]) -> Any:
            def wrap(original: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    return tracer._submit(called, kind, describe, original, args, kwargs)

                return call

            return wrap

        def waiting(called: str) -> Any:
            def wrap(original: Any) -> Any:
                def call(*args: Any, **kwargs: Any) -> Any:
                    return tracer._timed(called, tracer._next(), original, args, kwargs)[0]

                return call

            return wrap

        # a subclass: the binding's own constructor cannot be replaced
        replace(cl, "CommandQueue", profiled)
        replace(cl.Kernel, "__call__",
                submitting("clEnqueueNDRangeKernel", Kind.KERNEL, of_kernel))  # fmt: skip
        replace(cl, "enqueue_copy", submitting("clEnqueueCopyBuffer", Kind.MEMCPY, of_copy))
        replace(cl, "enqueue_fill_buffer",
                submitting("clEnqueueFillBuffer", Kind.MEMSET, of_fill))  # fmt: skip
        replace(self._queue_class, "finish", waiting("clFinish"))
        replace(cl.Event, "wait", waiting("clWaitForEvents"))
        replace(cl, "wait_for_events", waiting("clWaitForEvents"))

    def _submit(
        self, called: str, kind: Kind, describe: Callable[..., dict[str, Any]], original: Any,
        args: tuple[Any, ...], kwargs: dict[str, Any],
    ) -> Any:  # fmt: skip
        queue = next((a for a in args if isinstance(a, self._queue_class)), None)
        link = self._next()
        if queue is not None:
            number, device = self._known(queue)
        event, outermost = self._timed(called, link, original, args, kwargs)
        if outermost and queue is not None and isinstance(event, self._cl.Event):
            self._commands.append(
                _Command(
                    event, kind=kind, queue=number, device=device, link=link, **describe(*args)
                )
            )
        return event

    def _timed(
        self, called: str, link: int, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        """Run it; only the outermost of nested calls is recorded."""
        if getattr(self._busy, "inside", False):
            return original(*args, **kwargs), False
        self._busy.inside = True
        start = time.time_ns()
        try:
            return original(*args, **kwargs), True
        finally:
            end = time.time_ns()
            self._busy.inside = False
            self._calls.append((called, start, end, threading.get_native_id(), link))

    def _next(self) -> int:
        self._links += 1
        return self._links

    def _known(self, queue: Any) -> tuple[int, int]:
        """Numbers of a queue and its device; the clock of a new device is aligned first."""
        if queue.device.int_ptr not in self._devices:
            number = len(self._devices)
            self._devices[queue.device.int_ptr] = (number, queue.device)
            self._calibrate(number, queue)
        if queue.int_ptr not in self._queues:
            self._queues[queue.int_ptr] = (len(self._queues), queue)
        return self._queues[queue.int_ptr][0], self._devices[queue.device.int_ptr][0]

    def _one_queue_each(self) -> dict[int, Any]:
        return {self._devices[queue.device.int_ptr][0]: queue for _, queue in self._queues.values()}

    def _calibrate(self, number: int, queue: Any) -> None:
        best: tuple[int, int, int] | None = None
        was = getattr(self._busy, "inside", False)
        self._busy.inside = True  # the tracer's own markers and waits are not the program's
        try:
            for _ in range(_MARKERS):
                before = time.time_ns()
                marker = self._cl.enqueue_marker(queue)
                after = time.time_ns()
                marker.wait()
                error = (after - before + 1) // 2
                if best is None or error < best[2]:
                    best = (marker.profile.queued, before + error, error)
        except self._cl.RuntimeError:
            return  # a queue without profiling, made before the tracer: noted in the table
        finally:
            self._busy.inside = was
        if best is not None:
            self._clocks.setdefault(number, _Clock()).pairs.append(best)


def trace_opencl() -> Tracer:
    """A tracer that is on; raises UsageError without pyopencl."""
    return Tracer()


def main(words: list[str] | None = None) -> None:
    """Run a script with the tracer on and write the trace, however the script ends."""
    from planish.trace.export import export_trace
    from planish.trace.trace import Trace

    parser = argparse.ArgumentParser(prog="python -m planish.trace.opencl")
    parser.add_argument("-o", "--out", type=Path, default=Path("opencl-trace.json"))
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    try:
        tracer = trace_opencl()
    except UsageError as error:
        print(f"planish: error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, str(Path(given.script).parent))
    try:
        with tracer:
            runpy.run_path(given.script, run_name="__main__")
    finally:
        export_trace(Trace(tracer.table()), given.out, "perfetto")
        print(f"wrote {given.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
