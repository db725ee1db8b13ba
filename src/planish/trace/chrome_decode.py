"""Events of Chrome traces as they stand in the file, decoded into typed objects."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from planish.trace.columns import Columns
from planish.trace.events import ABSENT

NO_DIMS = msgspec.Raw()


class Args(msgspec.Struct, gc=False):
    correlation: int = ABSENT
    device: int = ABSENT
    stream: int = ABSENT
    bytes: int | str = ABSENT  # ROCm writes text beside some calls
    grid: list[int] | None = None
    block: list[int] | None = None
    registers: int = msgspec.field(default=ABSENT, name="registers per thread")
    shared: int = msgspec.field(default=ABSENT, name="shared memory")
    occupancy: float = msgspec.field(default=math.nan, name="est. achieved occupancy %")
    dims: msgspec.Raw = msgspec.field(default=NO_DIMS, name="Input Dims")
    name: str = ""


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = math.nan
    dur: float = math.nan
    pid: int | str = 0
    tid: int | str = 0
    id: int | str = 0
    args: Args | None = None


_EVENTS: msgspec.json.Decoder[list[Event]] = msgspec.json.Decoder(list[Event])
_LOOSE: msgspec.json.Decoder[list[dict[str, Any]]] = msgspec.json.Decoder(list[dict[str, Any]])
NO_ARGS = Args()


def decode(text: bytes, columns: Columns) -> list[Event]:
    """Decode strictly typed; where a field has another type, coerce field by field and note it."""
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        pass
    rows = _LOOSE.decode(text)
    return [_coerce(row, columns) for row in rows]


def _coerce(row: dict[str, Any], columns: Columns) -> Event:
    event = Event()
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
        event.args = _coerce_args(args, columns)
    return event


def _coerce_args(args: dict[str, Any], columns: Columns) -> Args:
    try:
        return msgspec.convert(
            {k: v for k, v in args.items() if k != "Input Dims"}, Args, strict=True
        )
    except msgspec.ValidationError:
        columns.note("events whose arguments have unexpected types (left out of them)")
    made = Args()
    for name in ("correlation", "device", "stream", "bytes"):
        value = args.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62:
            setattr(made, name, value)
    if isinstance(args.get("name"), str):
        made.name = args["name"]
    return made


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
