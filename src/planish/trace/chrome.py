"""Chrome traces: PyTorch's profiler (Kineto), Perfetto's JSON, and generic ones.

Format: "Trace Event Format" (Google, 2016): an array of events, or an object that holds one with
properties before and behind it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from planish.base.errors import TraceError
from planish.proc.race import beside
from planish.trace.chrome_decode import decode
from planish.trace.chrome_events import EventReader
from planish.trace.chrome_halves import HalfReader, NotPlain, merged, worth_halving
from planish.trace.columns import Columns
from planish.trace.events import DEVICE_WORK, Device, Note, Table
from planish.trace.intervals import distinct
from planish.trace.jsonstream import Scanner, decode_text
from planish.trace.source import Blocks

_ARRAY = re.compile(rb'"traceEvents"\s{0,64}:\s{0,64}\[')


def is_chrome(first: bytes) -> bool:
    """Whether the (inflated) first bytes can begin a Chrome trace."""
    text = first.lstrip()
    return text.startswith(b"{") or re.match(rb"\[\s*(\{|\]|$)", text) is not None


def read_chrome(path: Path, scanner: Scanner, salvage: bool) -> Table:
    """Read one Chrome trace; raises TraceError with the byte position of what is wrong."""
    if not salvage and worth_halving(path):
        try:
            return _read_halves(path, scanner)
        except (NotPlain, TraceError):  # one process reads it, or says where and why it cannot
            scanner = Scanner(Blocks(path))
    reader = EventReader()
    properties, bare = _before(scanner, salvage)
    for events in scanner.batches(lambda text: decode(text, reader.columns)):
        reader.add(events)
    if not bare:
        properties |= _behind(scanner, salvage)
    reader.finish()
    return _table(path, reader.columns, reader.torch, scanner, properties)


def _read_halves(path: Path, scanner: Scanner) -> Table:
    """The same by two processes; raises NotPlain, or TraceError, whose place may be wrong."""
    with beside(lambda: _second_half(path)) as answer:
        reader = HalfReader(0)
        properties, bare = _before(scanner, salvage=False)
        reader.read(scanner)
        if not bare:
            properties |= _behind(scanner, salvage=False)
        ok, value = answer()
    if not ok:
        raise NotPlain
    columns, torch = value
    return _table(
        path, merged((reader.columns, columns)), reader.torch or torch, scanner, properties
    )


def _second_half(path: Path) -> tuple[Columns, bool]:
    scanner, reader = Scanner(Blocks(path)), HalfReader(1)
    _before(scanner, salvage=False)
    reader.read(scanner)
    return reader.columns, reader.torch


def _before(scanner: Scanner, salvage: bool) -> tuple[dict[str, Any], bool]:
    """What stands before the events, and whether nothing does: the file is the array."""
    if scanner.start().startswith(b"["):
        scanner.find(re.compile(rb"\["))
        return {}, True
    return _properties(scanner, salvage), False


def _properties(scanner: Scanner, salvage: bool) -> dict[str, Any]:
    """The properties before the events. Their end proves that the array is the outer object's."""
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


def _table(
    path: Path, columns: Columns, torch: bool, scanner: Scanner, properties: dict[str, Any]
) -> Table:
    columns.note("damaged parts left out", scanner.skipped)
    properties.pop("traceEvents", None)
    distributed = properties.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    form = "kineto" if "deviceProperties" in properties or torch else "chrome"
    table = columns.finish(
        str(path), form, devices=_devices(properties), properties=properties,
        rank=rank if isinstance(rank, int) else None, skipped=scanner.skipped > 0,
    )  # fmt: skip
    return _numbered(table)


def _numbered(table: Table) -> Table:
    """With the properties of the only device under the number that its events have.

    A process that is given one of several devices calls it 0; AMD's profiler knows it as 2.
    """
    events = table.events
    numbers = distinct(events.device[events.of_kind(*DEVICE_WORK)]).tolist()
    if len(numbers) != 1 or len(table.devices) != 1 or table.devices[0].index == numbers[0]:
        return table
    (device,) = table.devices
    note = Note(f"properties of device {device.index}, the only ones, taken for {numbers[0]}'s")
    return replace(
        table, devices=[replace(device, index=numbers[0])], notes=[*table.notes, note]
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
