"""Chrome trace events: PyTorch's profiler (Kineto), Perfetto's JSON, and generic ones.

Format: "Trace Event Format" (Google, 2016). Times are microseconds there, nanoseconds here; a
fraction is kept as far as the double in the file carries it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from planish.base.errors import TraceError
from planish.trace.columns import Columns
from planish.trace.events import (
    ABSENT,
    DEVICE_WORK,
    Device,
    Interner,
    Ints,
    Kind,
    Table,
    is_kind,
)
from planish.trace.jsonstream import Scanner, decode_text

_ARRAY = re.compile(rb'"traceEvents"\s{0,64}:\s{0,64}\[')
_FARTHEST = 9.2e15  # microseconds whose nanoseconds still fit 63 bits

KINDS = {
    "cpu_op": Kind.HOST_OP, "operator": Kind.HOST_OP, "python_function": Kind.PYTHON,
    "user_annotation": Kind.ANNOTATION, "cuda_runtime": Kind.RUNTIME, "cuda_driver": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME, "runtime": Kind.RUNTIME, "mtia_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME, "privateuse1_runtime": Kind.RUNTIME, "kernel": Kind.KERNEL,
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


_NO_DIMS = msgspec.Raw()


class _Args(msgspec.Struct, gc=False):
    correlation: int = ABSENT
    device: int = ABSENT
    stream: int = ABSENT
    bytes: int | str = ABSENT  # ROCm writes text beside some calls
    grid: list[int] | None = None
    block: list[int] | None = None
    registers: int = msgspec.field(default=ABSENT, name="registers per thread")
    shared: int = msgspec.field(default=ABSENT, name="shared memory")
    occupancy: float = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    dims: msgspec.Raw = msgspec.field(default=_NO_DIMS, name="Input Dims")
    name: str = ""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = math.nan
    dur: float = math.nan
    pid: int | str = 0
    tid: int | str = 0
    id: int | str = 0
    args: _Args | None = None


_EVENTS: msgspec.json.Decoder[list[_Event]] = msgspec.json.Decoder(list[_Event])
_LOOSE: msgspec.json.Decoder[list[dict[str, Any]]] = msgspec.json.Decoder(list[dict[str, Any]])
_NONE = _Args()


def is_chrome(first: bytes) -> bool:
    """Whether the (inflated) first bytes can begin a Chrome trace."""
    text = first.lstrip()
    return text.startswith(b"{") or re.match(rb"\[\s*(\{|\]|$)", text) is not None


def read_chrome(source: str, scanner: Scanner, salvage: bool) -> Table:
    """Read one Chrome trace; raises TraceError with the byte position of what is wrong."""
    reader = _Reader()
    properties: dict[str, Any] = {}
    first = scanner.start()
    if first.startswith(b"["):
        scanner.find(re.compile(rb"\["))
        bare = True
    else:
        bare = False
        properties |= _before(scanner, salvage)
    for events in scanner.batches(reader.decode):
        reader.add(events)
    if not bare:
        properties |= _behind(scanner, salvage)
    reader.finish()
    return _table(source, reader, scanner, properties)


def _before(scanner: Scanner, salvage: bool) -> dict[str, Any]:
    """What stands before the events. Its end proves that the array is the outer object's."""
    try:
        _, text = scanner.find(_ARRAY)
    except LookupError as error:
        text = scanner.rest()
        if scanner.problem:
            raise scanner.error(f"the file is damaged ({scanner.problem})", len(text)) from error
        decode_text(text, scanner.position, salvage=False)
        raise TraceError(
            "JSON, but no trace: it has no 'traceEvents'", position=0,
            hint="was it written by a profiler?",
        ) from error  # fmt: skip
    return decode_text(text + b'"traceEvents":[]}', 0, salvage)


def _behind(scanner: Scanner, salvage: bool) -> dict[str, Any]:
    text = scanner.rest()
    if scanner.problem and not salvage:
        raise scanner.error(f"the file is damaged ({scanner.problem})", len(text))
    body = text.lstrip()
    if salvage and not body:
        return {}
    if not body.startswith((b",", b"}")):
        if salvage:
            return {}
        raise scanner.error("the file is cut short or damaged: no end of the JSON object", 0)
    return decode_text(b"{" + body.removeprefix(b","), scanner.position, salvage)


def _table(source: str, reader: _Reader, scanner: Scanner, properties: dict[str, Any]) -> Table:
    columns = reader.columns
    columns.note("damaged parts left out", scanner.skipped)
    properties.pop("traceEvents", None)
    distributed = properties.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    form = "kineto" if "deviceProperties" in properties or reader.torch else "chrome"
    return columns.finish(
        source, form, devices=_devices(properties), properties=properties,
        rank=rank if isinstance(rank, int) else None, skipped=scanner.skipped > 0,
    )  # fmt: skip


def _devices(properties: dict[str, Any]) -> list[Device]:
    rows = properties.get("deviceProperties")
    devices = []
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or not isinstance(row.get("id"), int):
            continue

        def number(key: str, row: dict[str, Any] = row) -> int:
            value = row.get(key)
            return value if isinstance(value, int) else 0

        devices.append(
            Device(
                number("id"),
                str(row.get("name", "")),
                number("numSms"),
                number("maxThreadsPerMultiprocessor"),
                number("regsPerMultiprocessor"),
                number("sharedMemPerMultiprocessor"),
                number("warpSize"),
            )
        )
    return devices


class _Reader:
    """Turns batches of events into columns; keeps what must be paired across batches."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.torch = False
        self._kinds = _Kinds()
        self._shapes = _Shapes(self.columns.strings)
        self._open: dict[Any, list[_Event]] = {}
        self._paired: list[_Event] = []

    def decode(self, text: bytes) -> list[_Event]:
        """Decode strictly typed; where a field has another type, coerce field by field."""
        try:
            return _EVENTS.decode(text)
        except msgspec.ValidationError:
            pass
        rows = _LOOSE.decode(text)
        return [self._coerce(row) for row in rows]

    def _coerce(self, row: dict[str, Any]) -> _Event:
        event = _Event()
        for name in ("ph", "cat", "name"):
            value = row.get(name, "")
            setattr(event, name, value if isinstance(value, str) else str(value))
        for name in ("ts", "dur"):
            value = row.get(name)
            setattr(event, name, _number(value))
        for name in ("pid", "tid", "id"):
            value = row.get(name, 0)
            good = isinstance(value, int | str) and not isinstance(value, bool)
            setattr(event, name, value if good else str(value))
        args = row.get("args")
        if isinstance(args, dict):
            event.args = self._coerce_args(args)
        return event

    def _coerce_args(self, args: dict[str, Any]) -> _Args:
        try:
            return msgspec.convert(
                {k: v for k, v in args.items() if k != "Input Dims"}, _Args, strict=True
            )
        except msgspec.ValidationError:
            self.columns.note("events whose arguments have unexpected types (left out of them)")
        made = _Args()
        for name in ("correlation", "device", "stream", "bytes"):
            value = args.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62:
                setattr(made, name, value)
        if isinstance(args.get("name"), str):
            made.name = args["name"]
        return made

    def add(self, events: Sequence[_Event]) -> None:
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

    def _other(self, event: _Event) -> None:
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

    def _end(self, stack: list[_Event] | None, event: _Event) -> None:
        if not stack:
            self.columns.note("ends without a begin (left out)")
            return
        begun = stack.pop()
        begun.dur = event.ts - begun.ts
        self._paired.append(begun)

    def _rows(self, rows: list[_Event]) -> None:
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
        args = [a or _NONE for a in given]
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
        self, rows: list[_Event], args: list[_Args], kind: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Details, devices and streams: only device work has them."""
        detail = np.full(len(rows), ABSENT, np.int32)
        device = np.full(len(rows), ABSENT, np.int32)
        stream = np.full(len(rows), ABSENT, np.int64)
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

    def _shape_column(self, args: list[_Args]) -> list[int] | None:
        shapes = [b"" if a.dims is _NO_DIMS else bytes(a.dims) for a in args]
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


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _whole(value: int | str) -> int:
    return value if isinstance(value, int) and -1 <= value < 1 << 31 else 0


def _product(sizes: list[int] | None) -> int:
    if not sizes:
        return ABSENT
    product = math.prod(sizes)
    return product if 0 <= product < 1 << 62 else ABSENT
