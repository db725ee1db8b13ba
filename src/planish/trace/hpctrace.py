"""HPCToolkit's trace.db (format version 4): what every thread and GPU stream ran at each moment.

Format: FORMATS.md of HPCToolkit ("trace.db version 4.0"). A trace line is a list of times with
the context that ran from then on; context 0 is none. Each context is a call path: its functions
become nested events, one of them for each stretch of time in which it stays on the path. Lines of
GPU streams become device events, named by the kernel, or by the operation where it is a copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planish.base.errors import TraceError
from planish.trace.columns import Columns
from planish.trace.events import ABSENT, Kind, Table
from planish.trace.hpctoolkit import DatabaseFile, open_database, read_contexts, strided
from planish.trace.intervals import distinct
from planish.trace.lines import PathEvents
from planish.trace.samples import Context, Place

_ELEMENT = np.dtype([("time", "<u8"), ("context", "<u4")])
_STREAM = re.compile(r"gpu.*stream|gpustream", re.IGNORECASE)
_DEVICE = re.compile(r"gpu.*(context|device)", re.IGNORECASE)
_OPERATIONS = {
    "<gpu copy>": Kind.MEMCPY, "<gpu copyin>": Kind.MEMCPY, "<gpu copyout>": Kind.MEMCPY,
    "<gpu memset>": Kind.MEMSET, "<gpu alloc>": Kind.OTHER, "<gpu delete>": Kind.OTHER,
    "<gpu sync>": Kind.DEVICE_SYNC,
}  # fmt: skip
_LATEST = 1 << 62  # nanoseconds since the epoch: what is more is damage


@dataclass(frozen=True)
class _Line:
    """One trace line: identifiers by kind, times and contexts."""

    identity: tuple[tuple[str, int], ...]
    time: np.ndarray
    context: np.ndarray


def read_trace_db(path: Path, salvage: bool = False) -> Table:
    """Read the traces of a database (its folder, or its trace.db with meta.db beside it).

    Raises UsageError (unreadable) and TraceError (damaged, meta.db missing, other version).
    """
    meta, trace, profile = _parts(path)
    contexts, number = read_contexts(meta)
    kinds = _kind_names(meta)
    columns = Columns()
    skipped = False
    (section,) = trace.read("Q", 0x18)
    table, count, size = trace.read("QIB", section)
    for place in strided(trace, table, count, size):
        try:
            line = _line(trace, profile, kinds, place)
        except TraceError:
            if not salvage:
                raise
            columns.note("damaged trace lines left out")
            skipped = True
            continue
        _add(columns, line, contexts, number)
    return columns.finish(str(path), "hpctoolkit", skipped=skipped)


def _parts(path: Path) -> tuple[DatabaseFile, DatabaseFile, DatabaseFile | None]:
    folder, prefix = (path, "") if path.is_dir() else (path.parent, path.name)
    prefix = prefix.removesuffix("trace.db")
    places = {part: folder / f"{prefix}{part}" for part in ("meta.db", "trace.db", "profile.db")}
    if not places["meta.db"].is_file():
        raise TraceError(
            f"{path}: the names of a trace.db's contexts are in meta.db, which is not beside it",
            hint="give the database's folder",
        )
    profile = places["profile.db"]
    return (
        open_database(places["meta.db"], b"meta"), open_database(places["trace.db"], b"trce"),
        open_database(profile, b"prof") if profile.is_file() else None,
    )  # fmt: skip


def _kind_names(meta: DatabaseFile) -> list[str]:
    (section,) = meta.read("Q", 0x28)
    if not section:
        return []
    names, count = meta.read("QB", section)
    return [meta.text(place) for place in meta.read(f"{count}Q", names)]


def _line(
    trace: DatabaseFile, profile: DatabaseFile | None, kinds: Sequence[str], place: int
) -> _Line:
    index, first, last = trace.read("IxxxxQQ", place)
    if last < first or (last - first) % _ELEMENT.itemsize:
        raise trace.damaged(f"the trace line at byte {place:,} has no whole elements", place)
    rows = trace.array(_ELEMENT, first, (last - first) // _ELEMENT.itemsize)
    time = rows["time"].astype(np.uint64)
    if len(time) and (int(time.max()) >= _LATEST or (np.diff(time.astype(np.int64)) < 0).any()):
        raise trace.damaged(f"the times of the line at byte {first:,} are out of order", first)
    identity = _identity(profile, kinds, index) if profile else (("line", index),)
    return _Line(identity, time.astype(np.int64), rows["context"].astype(np.int64))


def _identity(
    profile: DatabaseFile, kinds: Sequence[str], index: int
) -> tuple[tuple[str, int], ...]:
    (section,) = profile.read("Q", 0x18)
    table, count, size = profile.read("QIB", section)
    if index >= count:
        raise profile.damaged(f"there is no profile {index}", section)
    (place,) = profile.read("Q", table + index * size + 0x20)
    if not place:
        return (("line", index),)
    (length,) = profile.read("H", place)
    found = []
    for at in range(place + 8, place + 8 + 16 * length, 16):
        kind, _, logical, _ = profile.read("BxHIQ", at)
        found.append((kinds[kind] if kind < len(kinds) else f"kind {kind}", logical))
    return tuple(found)


def _add(
    columns: Columns, line: _Line, contexts: Sequence[Context], number: dict[int, int]
) -> None:
    """Events of one line. What runs from the last time on has no end, and is left out."""
    label = " ".join(f"{kind} {value}" for kind, value in line.identity)
    stream = [value for kind, value in line.identity if _STREAM.search(kind)]
    device = [value for kind, value in line.identity if _DEVICE.search(kind)]
    thread = columns.threads["hpctoolkit", label]
    if len(line.time) and line.context[-1]:
        columns.note("trace lines whose last context has no end (left out)")
    if stream:
        _device_events(columns, line, contexts, number, thread, (device or [0])[0], stream[0])
    else:
        _host_events(columns, line, contexts, number, thread)


def _functions(contexts: Sequence[Context], number: int) -> tuple[str, ...]:
    """Names of the functions on the path, outermost first."""
    names = []
    while number > 0:
        context = contexts[number]
        if context.place in (Place.FUNCTION, Place.ENTRY) and context.name:
            names.append(context.name)
        number = context.parent
    return tuple(reversed(names))


def _host_events(
    columns: Columns, line: _Line, contexts: Sequence[Context], number: dict[int, int], thread: int
) -> None:
    """Function by function: an event lasts as long as the path down to it stays the same."""
    paths: dict[int, tuple[str, ...]] = {0: ()}
    unknown = 0
    made = PathEvents(columns, thread)
    for time, context in zip(line.time.tolist(), line.context.tolist(), strict=True):
        if context not in paths:
            unknown += context not in number
            paths[context] = _functions(contexts, number.get(context, 0))
        made.moment(time, paths[context])
    made.flush()
    columns.note("contexts that meta.db does not know", unknown)


def _device_events(
    columns: Columns, line: _Line, contexts: Sequence[Context], number: dict[int, int],
    thread: int, device: int, stream: int,
) -> None:  # fmt: skip
    names: dict[int, tuple[str, Kind]] = {}
    for context in distinct(line.context).tolist():
        path = _functions(contexts, number.get(context, 0))
        mark = next((i for i, name in enumerate(path) if name.startswith("<gpu ")), len(path) - 1)
        kind = _OPERATIONS.get(path[mark], Kind.KERNEL) if path else Kind.OTHER
        below = path[mark + 1 : mark + 2] if kind == Kind.KERNEL else ()
        names[context] = ((below or path[mark : mark + 1] or ("(unknown)",))[0], kind)
    ran = line.context[:-1] != 0
    chosen = line.context[:-1][ran].tolist()
    if not chosen:
        return
    columns.add(
        start=line.time[:-1][ran],
        duration=np.diff(line.time)[ran],
        name=[columns.strings[names[c][0]] for c in chosen],
        kind=[names[c][1] for c in chosen],
        thread=[thread] * len(chosen),
        device=[device] * len(chosen),
        stream=[stream] * len(chosen),
        correlation=[ABSENT] * len(chosen),
    )
