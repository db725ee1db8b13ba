"""Events of Chrome traces as columns: decoded block by block, begins paired with ends.

Categories are Kineto's (libkineto, ActivityType) for NVIDIA, AMD, Intel, MTIA and custom devices.
Times are microseconds in the file, nanoseconds here; a fraction is kept as far as the double in
the file carries it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from planish.trace.chrome_decode import NO_ARGS, NO_DIMS, Args, Event
from planish.trace.columns import Columns
from planish.trace.events import (
    ABSENT,
    DEVICE_WORK,
    Interner,
    Ints,
    Kind,
    is_kind,
)

_FARTHEST = 9.2e15  # microseconds whose nanoseconds still fit 63 bits

KINDS = {
    "cpu_op": Kind.HOST_OP, "operator": Kind.HOST_OP, "python_function": Kind.PYTHON,
    "user_annotation": Kind.ANNOTATION, "cuda_runtime": Kind.RUNTIME, "cuda_driver": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME, "runtime": Kind.RUNTIME, "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME, "privateuse1_runtime": Kind.RUNTIME, "kernel": Kind.KERNEL,
    "glow_runtime": Kind.RUNTIME, "hpu_op": Kind.RUNTIME, "driver": Kind.RUNTIME,
    "xpu_driver": Kind.RUNTIME, "privateuse1_driver": Kind.RUNTIME, "cuda_event": Kind.DEVICE_SYNC,
    "mtia_ccp_events": Kind.KERNEL, "gpu_memcpy": Kind.MEMCPY, "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET, "memset": Kind.MEMSET,
    "gpu_user_annotation": Kind.DEVICE_ANNOTATION, "cuda_sync": Kind.DEVICE_SYNC,
    "trace": Kind.SPAN, "overhead": Kind.OVERHEAD, "cuda_profiler_range": Kind.COUNTERS,
}  # fmt: skip
_FLOWS = "flow arrows (launches are linked by their correlation instead)"
_SIMPLE = frozenset("Xsft")  # complete events, and flow arrows, which are only counted


class _Kinds(Interner):
    def __missing__(self, category: str) -> int:
        kind = KINDS.get(category.lower(), Kind.OTHER)
        self[category] = int(kind)
        return int(kind)


class EventReader:
    """Turns batches of events into columns; keeps what must be paired across batches."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.torch = False
        self._kinds = _Kinds()
        self._shapes = _Shapes(self.columns.strings)
        self._open: dict[Any, list[Event]] = {}
        self._paired: list[Event] = []

    def add(self, events: Sequence[Event]) -> None:
        """Add the complete events; pair begin and end; count what has no duration."""
        rows = [event for event in events if event.ph == "X"]
        if len(rows) != len(events):
            others = [event for event in events if event.ph not in _SIMPLE]
            flows = len(events) - len(rows) - len(others)
            self.columns.note(_FLOWS, flows)
            for event in others:
                self._other(event)
            rows += self._paired
            self._paired = []
        if rows:
            self._rows(rows)

    def finish(self) -> None:
        """Count what was begun and never ended."""
        left = sum(len(stack) for stack in self._open.values())
        self.columns.note("events begun but never ended (left out)", left)

    def _other(self, event: Event) -> None:
        phase = event.ph
        columns = self.columns
        if phase == "M":
            label = event.args.name if event.args else ""
            if event.name == "process_name":
                columns.process_names[event.pid] = label
            elif event.name == "thread_name":
                columns.thread_names[event.pid, event.tid] = label
        elif phase == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif phase == "E":
            self._end(self._open.get((event.pid, event.tid)), event)
        elif phase in ("b", "S"):
            self._open.setdefault((event.pid, event.cat, event.id), []).append(event)
        elif phase in ("e", "F"):
            self._end(self._open.get((event.pid, event.cat, event.id)), event)
        elif phase in ("i", "I", "n"):
            columns.note("instant events")
        elif phase == "C":
            columns.note("counter samples")
        elif phase:
            columns.note("events of other phases")
        else:
            columns.note("records without a phase (left out)")

    def _end(self, stack: list[Event] | None, event: Event) -> None:
        if not stack:
            self.columns.note("ends without a begin (left out)")
            return
        begun = stack.pop()
        begun.dur = event.ts - begun.ts
        self._paired.append(begun)

    def _rows(self, rows: list[Event]) -> None:
        columns, kinds = self.columns, self._kinds
        names, threads = columns.strings, columns.threads
        # one call in C for all fields is half the time of a comprehension for each
        fields = zip(*map(astuple, rows), strict=True)
        _, category, name, begun, lasted, process, thread, _, given = fields
        start, duration = np.array(begun), np.array(lasted)
        with np.errstate(invalid="ignore"):
            good = (np.abs(start) < _FARTHEST) & (duration >= 0) & (duration < _FARTHEST)
        if not good.all():
            columns.note("events without a usable time or duration (left out)", int((~good).sum()))
            rows = [e for e, keep in zip(rows, good.tolist(), strict=True) if keep]
            if rows:
                self._rows(rows)
            return
        kind = np.array(list(map(kinds.__getitem__, category)), np.uint8)
        args = [a or NO_ARGS for a in given]
        detail, device, stream = self._device_columns(rows, args, kind)
        columns.add(
            start=_nanoseconds(start),
            duration=_nanoseconds(duration),
            name=list(map(names.__getitem__, name)),
            kind=kind,
            thread=list(map(threads.__getitem__, zip(process, thread, strict=True))),
            device=device,
            stream=stream,
            correlation=[a.correlation for a in args],
            shape=self._shape_column(args),
            detail=detail,
        )

    def _device_columns(
        self, rows: list[Event], args: list[Args], kind: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Details, devices and streams: only device work has them."""
        detail = np.full(len(rows), ABSENT, np.int32)
        device = np.full(len(rows), ABSENT, np.int32)
        stream = np.full(len(rows), ABSENT, np.int64)
        self._launched(rows, args, kind, detail)
        places = np.flatnonzero(is_kind(kind, *_DEVICE_ROWS))
        if not len(places):
            return detail, device, stream
        self.torch = True
        chosen = [args[i] for i in places.tolist()]
        devices = [
            a.device if a.device >= 0 else _whole(rows[i].pid)
            for i, a in zip(places.tolist(), chosen, strict=True)
        ]
        device[places] = self.columns.block(devices, np.int32)
        streams = [
            a.stream if a.stream != ABSENT else _whole(rows[i].tid)
            for i, a in zip(places.tolist(), chosen, strict=True)
        ]
        stream[places] = self.columns.block(streams, np.int64)
        detail[places] = self.columns.add_details(
            bytes=[a.bytes if isinstance(a.bytes, int) else ABSENT for a in chosen],
            grid=[_product(a.grid) for a in chosen],
            block=[_product(a.block) for a in chosen],
            registers=[a.registers for a in chosen],
            shared=[a.shared for a in chosen],
            occupancy=[a.occupancy for a in chosen],
        )
        return detail, device, stream

    def _launched(
        self, rows: list[Event], args: list[Args], kind: np.ndarray, detail: np.ndarray
    ) -> None:
        """Launch geometry that stands with the call: ROCm's profiler writes it there."""
        calls = [i for i in np.flatnonzero(kind == Kind.RUNTIME).tolist() if args[i].grid]
        if calls:
            detail[calls] = self.columns.add_details(
                grid=[_blocks(rows[i].name, args[i]) for i in calls],
                block=[_product(args[i].block) for i in calls],
                registers=[ABSENT] * len(calls),
                shared=[args[i].shared for i in calls],
                occupancy=[math.nan] * len(calls),
            )

    def _shape_column(self, args: list[Args]) -> list[int] | None:
        shapes = [b"" if a.dims is NO_DIMS else bytes(a.dims) for a in args]
        return list(map(self._shapes.__getitem__, shapes)) if any(shapes) else None


class _Shapes(dict[bytes, int]):
    """Shapes as they stand in the file to the numbers of their text without blanks."""

    def __init__(self, strings: Interner) -> None:
        self._strings = strings

    def __missing__(self, raw: bytes) -> int:
        text = b"".join(raw.split()).decode(errors="replace")
        number = self[raw] = self._strings[text] if raw else ABSENT
        return number


_DEVICE_ROWS = (*DEVICE_WORK, Kind.DEVICE_ANNOTATION, Kind.DEVICE_SYNC)


def _nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Rounded to whole nanoseconds; whole microseconds stay exact beyond 2**53 nanoseconds."""
    integers: Ints = microseconds.astype(np.int64)
    if np.array_equal(integers, microseconds):
        return integers * 1000
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000.0)
    made: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return made


def _whole(value: int | str) -> int:
    return value if isinstance(value, int) and -1 <= value < 1 << 31 else 0


def _blocks(call: str, args: Args) -> int:
    """Blocks of a launch. HIP's module launches give the grid in threads, the others in blocks."""
    if call in _GRID_OF_THREADS and args.grid and args.block and all(b > 0 for b in args.block):
        return _product([-(-g // b) for g, b in zip(args.grid, args.block, strict=False)])
    return _product(args.grid)


_GRID_OF_THREADS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})


def _product(sizes: list[int] | None) -> int:
    if not sizes:
        return ABSENT
    product = math.prod(sizes)
    return product if 0 <= product < 1 << 62 else ABSENT
