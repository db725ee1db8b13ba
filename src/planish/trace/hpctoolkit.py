"""HPCToolkit's databases: meta.db, profile.db and cct.db, format version 4.

Format: FORMATS.md of HPCToolkit ("meta.db version 4.0" and so on); all numbers are little-endian
there. A pointer is an offset in the file. Strides are read, not assumed, so that later minor
versions still load. Metrics are taken at the scope `point`: what was measured at a context itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planish.base.errors import TraceError
from planish.base.files import read_bytes
from planish.trace.samples import Context, Floats, Place, Samples

MAGIC = b"HPCTOOLKIT"
_MAJOR = 4
_PARTS = ("meta.db", "profile.db", "cct.db")
_POINT = "point"
_VALUE = np.dtype([("id", "<u2"), ("value", "<f8")])
_INDEX = np.dtype([("id", "<u4"), ("start", "<u8")])
_METRIC_INDEX = np.dtype([("id", "<u2"), ("start", "<u8")])
_LONGEST_STRING = 1 << 20


@dataclass(frozen=True)
class DatabaseFile:
    """Bytes with bounds-checked reading."""

    name: str
    data: bytes

    def read(self, form: str, place: int) -> tuple[int, ...]:
        """Unpack at an offset; raises TraceError outside of the file."""
        try:
            return struct.unpack_from("<" + form, self.data, place)
        except (struct.error, OverflowError) as error:
            raise self.damaged(f"a structure at byte {place:,} lies outside", place) from error

    def text(self, place: int) -> str:
        """The string there, '' for a null pointer."""
        if place == 0:
            return ""
        inside = place < len(self.data)
        end = self.data.find(b"\0", place, place + _LONGEST_STRING) if inside else -1
        if end < 0:
            raise self.damaged(f"a string at byte {place:,} has no end", place)
        return self.data[place:end].decode(errors="replace")

    def array(self, kind: np.dtype, place: int, count: int) -> np.ndarray:
        """`count` packed records; raises TraceError outside of the file."""
        if count < 0 or place < 0 or place + count * kind.itemsize > len(self.data):
            raise self.damaged(f"an array at byte {place:,} lies outside", place)
        return np.frombuffer(self.data, kind, count, place)

    def damaged(self, why: str, place: int) -> TraceError:
        """The error for what is wrong at an offset."""
        return TraceError(
            f"{self.name} is damaged: {why}", position=min(place, len(self.data)),
            hint="run hpcprof again",
        )  # fmt: skip


def find_parts(path: Path) -> dict[str, Path]:
    """The database's files beside `path` (a folder, or one of them with any prefix)."""
    if path.is_dir():
        return {part: path / part for part in _PARTS if (path / part).is_file()}
    for part in _PARTS:
        if path.name.endswith(part):
            prefix = path.name.removesuffix(part)
            found = {p: path.with_name(prefix + p) for p in _PARTS}
            return {p: file for p, file in found.items() if file.is_file()}
    return {}


def read_hpctoolkit(path: Path) -> Samples:
    """Contexts from meta.db, values from profile.db, or from cct.db where that is missing.

    Raises UsageError (unreadable) and TraceError (a part missing, damaged, other version).
    """
    parts = find_parts(path)
    if "meta.db" not in parts or len(parts) < 2:
        raise TraceError(
            f"{path}: an HPCToolkit database needs meta.db and profile.db (or cct.db)",
            hint="give the database's folder, or one of its files with the others beside it",
        )
    meta = open_database(parts["meta.db"], b"meta")
    metrics = _metrics(meta)
    contexts, number = read_contexts(meta)
    values = {name: np.zeros(len(contexts)) for name in metrics.values()}
    source = "profile.db" if "profile.db" in parts else "cct.db"
    blocks = _profile_values if source == "profile.db" else _context_values
    for context, metric, amounts in blocks(open_database(parts[source], _MARK[source])):
        wanted = np.fromiter((m in metrics for m in metric.tolist()), np.bool_, len(metric))
        pairs = zip(context[wanted].tolist(), metric[wanted].tolist(), amounts[wanted].tolist(),
                    strict=True)  # fmt: skip
        for where, which, amount in pairs:
            if where in number:
                values[metrics[which]][number[where]] += amount
    (title,) = meta.read("Q", meta.read("Q", 0x18)[0])
    kept = {name: column for name, column in values.items() if column.any()}
    return Samples(str(path), meta.text(title), contexts, kept)


_MARK = {"profile.db": b"prof", "cct.db": b"ctxt"}


def open_database(path: Path, mark: bytes) -> DatabaseFile:
    """Read one file of a database; raises UsageError and TraceError (another kind or version)."""
    file = DatabaseFile(path.name, read_bytes(path))
    if file.data[:14] != MAGIC + mark:
        raise TraceError(f"{path} is no HPCToolkit {mark.decode()} database", position=0)
    if file.data[14:15] != bytes([_MAJOR]):
        found = file.data[14] if len(file.data) > 14 else "none"
        raise TraceError(f"{path} has format version {found}, not {_MAJOR}", position=14)
    return file


def _metrics(meta: DatabaseFile) -> dict[int, str]:
    """Identifier of each metric's value at scope `point`, to the metric's name."""
    (section,) = meta.read("Q", 0x38)
    table, count, size, scope_size, _ = meta.read("QIBBB", section)
    found = {}
    for place in strided(meta, table, count, size):
        name, scopes, _, scope_count = meta.read("QQQH", place)
        for scope_place in strided(meta, scopes, scope_count, scope_size):
            scope, identifier = meta.read("QH", scope_place)
            if meta.text(meta.read("Q", scope)[0]) == _POINT:
                found[identifier] = meta.text(name)
    return found


def strided(file: DatabaseFile, start: int, count: int, size: int) -> Iterator[int]:
    """The places of a table's rows; raises TraceError where it lies outside of the file."""
    if count and (size == 0 or start + count * size > len(file.data)):
        raise file.damaged(f"a table at byte {start:,} lies outside", start)
    yield from range(start, start + count * size, size or 1)


def read_contexts(meta: DatabaseFile) -> tuple[list[Context], dict[int, int]]:
    """All contexts, parents first, and the number of each identifier."""
    (section,) = meta.read("Q", 0x48)
    table, count, size = meta.read("QHB", section)
    contexts: list[Context] = [Context(-1, Place.ENTRY, name="(all)")]
    number = {0: 0}
    # (first byte, bytes, parent): iterative, because a damaged file may nest without end
    todo: list[tuple[int, int, int]] = []
    for place in strided(meta, table, count, size):
        children, first, identifier, _, name = meta.read("QQIHxxQ", place)
        number[identifier] = len(contexts)
        contexts.append(Context(0, Place.ENTRY, name=meta.text(name)))
        todo.append((first, children, number[identifier]))
    limit = len(meta.data) // 32 + 1
    while todo:
        start, length, parent = todo.pop()
        end = start + length
        while start < end:
            children, first, identifier, flags, relation, kind, words, _ = meta.read(
                "QQIBBBBH", start
            )
            context = _context(meta, start + 0x20, flags, relation, kind, words, parent)
            number[identifier] = len(contexts)
            contexts.append(context)
            if len(contexts) > limit:
                raise meta.damaged("its contexts form a cycle", start)
            if children:
                todo.append((first, children, len(contexts) - 1))
            start += 0x20 + 8 * words
    return contexts, number


def _context(
    meta: DatabaseFile, flex: int, flags: int, relation: int, kind: int, words: int, parent: int
) -> Context:
    """Decode the flexible fields: function, source location, point, each as its flag says."""
    values = iter(meta.read(f"{words}Q", flex))

    def take() -> int:
        value = next(values, None)
        if value is None:
            raise meta.damaged("a context is too short for its fields", flex)
        return value

    name = file = module = ""
    line = offset = 0
    if flags & 1:
        text, holder, offset = meta.read("QQQ", take())
        name = meta.text(text)
        module = meta.text(meta.read("8xQ", holder)[0]) if holder else ""
    if flags & 2:
        file = meta.text(meta.read("8xQ", take())[0])
        line = take() & 0xFFFFFFFF
    if flags & 4:
        module = meta.text(meta.read("8xQ", take())[0])
        offset = take()
    place = Place(kind) if kind <= Place.INSTRUCTION else Place.LINE
    return Context(parent, place, relation in (1, 2), name, file, line, module, offset)


_Block = tuple[np.ndarray, np.ndarray, Floats]


def _profile_values(file: DatabaseFile) -> Iterator[_Block]:
    """Of every thread's profile but the first, which is the summary."""
    (section,) = file.read("Q", 0x18)
    table, count, size = file.read("QIB", section)
    for place in list(strided(file, table, count, size))[1:]:
        values, first, contexts, index = file.read("QQIxxxxQ", place)
        rows = file.array(_VALUE, first, values)
        starts = file.array(_INDEX, index, contexts)
        context = np.repeat(starts["id"], _lengths(file, starts["start"], values, place))
        yield context, rows["id"], rows["value"].astype(np.float64)


def _context_values(file: DatabaseFile) -> Iterator[_Block]:
    """Of every context, summed over the profiles."""
    (section,) = file.read("Q", 0x18)
    table, count, size = file.read("QIB", section)
    for context, place in enumerate(strided(file, table, count, size)):
        values, first, metrics, index = file.read("QQHxxxxxxQ", place)
        profiles = np.dtype([("id", "<u4"), ("value", "<f8")])
        rows = file.array(profiles, first, values)
        starts = file.array(_METRIC_INDEX, index, metrics)
        metric = np.repeat(starts["id"], _lengths(file, starts["start"], values, place))
        yield np.full(len(metric), context), metric, rows["value"].astype(np.float64)


def _lengths(file: DatabaseFile, starts: np.ndarray, total: int, place: int) -> np.ndarray:
    bounds = np.append(starts, np.uint64(total)).astype(np.float64)
    lengths = np.diff(bounds)
    if (len(starts) and (bounds[0] != 0 or (lengths < 0).any())) or (not len(starts) and total):
        raise file.damaged(f"the index of the block at byte {place:,} is out of order", place)
    return lengths.astype(np.int64)
