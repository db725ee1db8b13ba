"""Nsight Systems, exported with `nsys export --type sqlite`.

Tables differ between versions: what a version lacks is left out. `globalTid` holds process and
thread in 24 bits each (NVIDIA, "Nsight Systems Exporter SQLite Schema").
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from planish.base.errors import TraceError
from planish.trace.columns import Columns
from planish.trace.events import ABSENT, Device, Kind, Table

_BATCH = 20_000
_WIDTH = 24
_MASK = (1 << _WIDTH) - 1
# CUpti_ActivityMemcpyKind
_COPIES = {
    1: "Memcpy HtoD", 2: "Memcpy DtoH", 3: "Memcpy HtoA", 4: "Memcpy AtoH", 5: "Memcpy AtoA",
    6: "Memcpy AtoD", 7: "Memcpy DtoA", 8: "Memcpy DtoD", 9: "Memcpy HtoH", 10: "Memcpy PtoP",
}  # fmt: skip
_NVTX_RANGES = (59, 60, 70, 71)  # push-pop and start-end, old and new numbers

_Row = tuple[Any, ...]


def read_nsys(source: str, path: Path, salvage: bool) -> Table:
    """Read the export; raises TraceError where it is damaged or is another database."""
    columns = Columns()
    try:
        address = f"file:{path.resolve().as_posix().replace('?', '%3f').replace('#', '%23')}"
        with closing(sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)) as base:
            base.execute("PRAGMA cell_size_check = ON")
            reader = _Reader(base, columns)
            if not reader.known():
                raise TraceError(
                    f"{path.name} is an SQLite database, but not of Nsight Systems",
                    hint="export it with: nsys export --type sqlite report.nsys-rep",
                )
            skipped = reader.read(salvage)
            devices = reader.devices()
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{path.name} is a damaged SQLite database: {' '.join(str(error).split())[:200]}",
            hint="export it again",
        ) from error
    return columns.finish(source, "nsys", devices=devices, skipped=skipped)


class _Reader:
    def __init__(self, base: sqlite3.Connection, columns: Columns) -> None:
        self._base = base
        self._columns = columns
        rows = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {str(name) for (name,) in rows}
        self._names: dict[int, str] = {}

    def known(self) -> bool:
        """Whether this is an Nsight Systems export."""
        return "StringIds" in self._tables

    def read(self, salvage: bool) -> bool:
        """All tables; with salvage, a damaged one is left out from the damage on."""
        skipped = False
        for part in (self._strings, self._threads, self._calls, self._ranges, self._kernels,
                     self._copies, self._sets):  # fmt: skip
            try:
                part()
            except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                if not salvage:
                    raise
                self._columns.note("damaged tables cut short")
                skipped = True
        return skipped

    def _rows(
        self, table: str, names: Sequence[str], defaults: dict[str, str] | None = None
    ) -> Iterator[list[_Row]]:
        """Batches of rows; a column that this version lacks is its default (else the row -1)."""
        if table not in self._tables:
            return
        have = {str(row[1]) for row in self._base.execute(f'PRAGMA table_info("{table}")')}
        parts = [n if n in have else (defaults or {}).get(n, "-1") for n in names]
        cursor = self._base.execute(f'SELECT {", ".join(parts)} FROM "{table}"')
        while batch := cursor.fetchmany(_BATCH):
            yield batch

    def _strings(self) -> None:
        for batch in self._rows("StringIds", ("id", "value")):
            self._names.update((i, v) for i, v in batch if isinstance(v, str))

    def _threads(self) -> None:
        for batch in self._rows("ThreadNames", ("globalTid", "nameId")):
            for thread, name in batch:
                if isinstance(thread, int):
                    self._columns.thread_names[_thread(thread)] = self._name(name)

    def _calls(self) -> None:
        for batch in self._rows(
            "CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "end", "globalTid", "correlationId", "nameId")
        ):
            rows = self._good(batch)
            self._columns.add(
                **self._host(rows),
                correlation=[_int(r[3]) for r in rows],
                # cudaLaunchKernel_v7000 and the like: the suffix is the API's version
                name=[self._columns.strings[self._name(r[4]).split("_v")[0]] for r in rows],
                kind=[Kind.RUNTIME] * len(rows),
            )

    def _ranges(self) -> None:
        for batch in self._rows(
            "NVTX_EVENTS", ("start", "end", "globalTid", "eventType", "text", "textId"),
            {"text": "NULL", "textId": "NULL"},
        ):  # fmt: skip
            rows = self._good([r for r in batch if r[3] in _NVTX_RANGES])
            self._columns.note("NVTX marks and open ranges", len(batch) - len(rows))
            self._columns.add(
                **self._host(rows),
                name=[self._columns.strings[str(r[4]) if r[4] else self._name(r[5])] for r in rows],
                kind=[Kind.ANNOTATION] * len(rows),
            )

    def _kernels(self) -> None:
        names = (
            "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "demangledName",
            "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
            "staticSharedMemory", "dynamicSharedMemory",
        )  # fmt: skip
        for batch in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", names):
            rows = self._good(batch)
            detail = self._columns.add_details(
                grid=[_volume(r[7:10]) for r in rows],
                block=[_volume(r[10:13]) for r in rows],
                registers=[_int(r[13]) for r in rows],
                shared=[_int(r[14]) + _int(r[15]) for r in rows],
            )
            self._device_work(rows, [self._name(r[6]) for r in rows], Kind.KERNEL, detail)

    def _copies(self) -> None:
        names = (
            "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "copyKind",
            "bytes",
        )  # fmt: skip
        for batch in self._rows("CUPTI_ACTIVITY_KIND_MEMCPY", names):
            rows = self._good(batch)
            detail = self._columns.add_details(bytes=[_int(r[7]) for r in rows])
            called = [_COPIES.get(r[6], "Memcpy") for r in rows]
            self._device_work(rows, called, Kind.MEMCPY, detail)

    def _sets(self) -> None:
        names = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes")
        for batch in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", names):
            rows = self._good(batch)
            detail = self._columns.add_details(bytes=[_int(r[6]) for r in rows])
            self._device_work(rows, ["Memset"] * len(rows), Kind.MEMSET, detail)

    def _device_work(self, rows: list[_Row], names: list[str], kind: Kind, detail: range) -> None:
        strings = self._columns.strings
        self._columns.add(
            **self._host(rows),
            device=[_int(r[3]) for r in rows],
            stream=[_int(r[4]) for r in rows],
            correlation=[_int(r[5]) for r in rows],
            name=[strings[name] for name in names],
            kind=[kind] * len(rows),
            detail=detail,
        )

    def _host(self, rows: list[_Row]) -> dict[str, Any]:
        threads = self._columns.threads
        return {
            "start": [r[0] for r in rows],
            "duration": [r[1] - r[0] for r in rows],
            "thread": [threads[_thread(_int(r[2]))] for r in rows],
        }

    def _good(self, rows: Sequence[_Row]) -> list[_Row]:
        good = [
            r for r in rows
            if isinstance(r[0], int) and isinstance(r[1], int) and 0 <= r[0] <= r[1] < 1 << 62
        ]  # fmt: skip
        self._columns.note("rows without a usable time (left out)", len(rows) - len(good))
        return good

    def _name(self, number: Any) -> str:
        return self._names.get(number, f"string {number}")

    def devices(self) -> list[Device]:
        """From TARGET_INFO_GPU."""
        names = (
            "id", "name", "smCount", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm",
            "threadsPerWarp",
        )  # fmt: skip
        found = []
        for batch in self._rows("TARGET_INFO_GPU", names):
            for row in batch:
                number, processors, warps, registers, shared, warp = (
                    max(0, _int(value)) for value in (row[0], *row[2:])
                )
                name = str(row[1] or "")
                found.append(
                    Device(number, name, processors, warps * warp, registers, shared, warp)
                )
        return found


def _thread(number: int) -> tuple[int, int]:
    return (number >> _WIDTH) & _MASK, number & _MASK


def _int(value: Any) -> int:
    return value if isinstance(value, int) else ABSENT


def _volume(sizes: Sequence[Any]) -> int:
    x, y, z = (max(1, _int(size)) for size in sizes)
    product = x * y * z
    return product if product < 1 << 62 else ABSENT
