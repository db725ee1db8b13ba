"""Reading in a process of its own, limited in time and memory: a hostile file ends that one only.

The columns come back through a file that both processes map: no byte of them is copied through a
pipe, and the caller's memory holds the pages that it looks at. Where this process has one Python
thread, the reader is a fork of it (milliseconds); elsewhere it is forked from a clean process,
which is kept for the next file.
"""

from __future__ import annotations

import atexit
import mmap
import os
import resource
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from planish.base.errors import PlanishError, TraceError, UsageError
from planish.base.records import Failure
from planish.proc import held
from planish.proc.pool import Call, Pool, Reply
from planish.trace.events import Details, Events, Table
from planish.trace.read import read_table

_HANDLER = "planish.trace.isolated:make_reader"
_ALIGNED = 64
_SHARE = 0.75  # of the machine's memory: what is more would swap
_LEAST_SECONDS = 120.0
_BYTES_A_SECOND = 500_000  # of the file as it lies on disk; far below what any machine reads
_FORKED_PAGES = 1 << 19  # a process larger than 2 GiB is slow to fork

_WHOLE = 1 << 46  # the reader bounds itself, by what it has when it begins

_Request = tuple[str, bool, str, int]  # path, salvage, where the columns go, bytes of memory
Layout = list[tuple[str, str, int, int]]  # column, type, first byte, elements


@dataclass(frozen=True)
class Limits:
    """What reading one file may take; 0 stands for the default.

    memory   bytes, beside what the process had before (three quarters of the machine's)
    seconds  wall time (120 s, and a second more for each half megabyte of the file)
    """

    memory: int = 0
    seconds: float = 0.0

    def for_file(self, path: Path) -> Limits:
        """With the defaults for this file."""
        size = path.stat().st_size if path.is_file() else 0
        return Limits(
            self.memory or int(_SHARE * _machine_memory()),
            self.seconds or _LEAST_SECONDS + size / _BYTES_A_SECOND,
        )


def read_isolated(path: Path, *, salvage: bool = False, limits: Limits | None = None) -> Table:
    """`read_table` in a process of its own.

    Raises what `read_table` raises, and TraceError where a limit is reached or the reader dies.
    """
    given = (limits or Limits()).for_file(path)
    with tempfile.NamedTemporaryFile(prefix="planish-columns-") as file:
        reply = _ask((str(path), salvage, file.name, given.memory), given)
        if reply.failure is not None:
            raise _failed(path, reply, given)
        kind, value = reply.value
        if kind != "table":
            raise _error(kind, value)
        table, layout = value
        return _mapped(table, layout, file)


# -- in the reader -------------------------------------------------------------------------------


def preload(_: None) -> None:
    """Nothing to load beside this module."""


def make_reader(_: Any) -> Callable[[Any, dict[str, bytes]], Any]:
    """A worker's handler: reads one file, writes its columns to another."""

    def read(request: _Request, _: dict[str, bytes]) -> Any:
        path, salvage, out, memory = request
        _bound(memory)
        try:
            table = read_table(Path(path), salvage=salvage)
        except PlanishError as error:
            position = error.position if isinstance(error, TraceError) else None
            return type(error).__name__, (error.message, error.hint, position)
        layout: Layout = []
        try:
            with Path(out).open("wb") as file:
                for part in (table.events, table.details):
                    layout += _write(part, file)
        except OSError as error:
            why = f"cannot keep the columns in {tempfile.gettempdir()}: {error.strerror or error}"
            return "UsageError", (why, "set TMPDIR to a place with more room", None)
        return "table", (replace(table, events=None, details=None), layout)  # type: ignore[arg-type]

    return read


def _bound(memory: int) -> None:
    """Let this process grow by so many bytes of address space from here on."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    size, _ = _pages()
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (size * mmap.PAGESIZE + memory, most))


def _write(part: Events | Details, file: IO[bytes]) -> Layout:
    layout: Layout = []
    for field in fields(part):
        column = np.ascontiguousarray(getattr(part, field.name))
        file.write(b"\0" * (-file.tell() % _ALIGNED))
        layout.append((field.name, column.dtype.str, file.tell(), len(column)))
        column.tofile(file)
    return layout


# -- in the caller -------------------------------------------------------------------------------


def _mapped(table: Table, layout: Layout, file: IO[bytes]) -> Table:
    """The table with its columns as views of the file, which lives until they are gone."""
    size = os.fstat(file.fileno()).st_size
    # the reader wrote to the file under its name; the name goes, the mapping stays
    data: Any = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    columns = {
        name: np.frombuffer(data, kind, count, place) if count else np.empty(0, kind)
        for name, kind, place, count in layout
    }
    events = Events(**{field.name: columns[field.name] for field in fields(Events)})
    details = Details(**{field.name: columns[field.name] for field in fields(Details)})
    return replace(table, events=events, details=details)


def _error(kind: str, value: tuple[str, str, int | None]) -> PlanishError:
    message, hint, position = value
    if kind == "TraceError":
        return TraceError(message, position=position, hint=hint)
    return (UsageError if kind == "UsageError" else PlanishError)(message, hint=hint)


def _failed(path: Path, reply: Reply, limits: Limits) -> PlanishError:
    if reply.failure == Failure.TIMEOUT:
        return TraceError(
            f"{path}: not read within {limits.seconds:,.0f} s", hint="--max-seconds gives it longer"
        )
    if reply.failure == Failure.MEMORY or "MemoryError" in reply.reason:
        return TraceError(
            f"{path}: reading needs more than {limits.memory / 1e9:.1f} GB of memory",
            hint="--max-memory gives it more",
        )
    return TraceError(f"{path}: the reader died ({reply.reason})", hint="report this file")


_kept: dict[Limits, Pool] = {}


def _ask(request: _Request, limits: Limits) -> Reply:
    call = [Call(None, request)]
    if not _forkable():
        # the limits are the pool's; the clean process is worth keeping for files of equal size
        return _clean_pool(limits).run(call)[0]
    held.load(_HANDLER, None)
    with warnings.catch_warnings():
        # NumPy's threads make Python warn of the fork; they idle, and the fork calls no BLAS
        warnings.simplefilter("ignore", DeprecationWarning)
        with Pool(_HANDLER, seconds=limits.seconds, memory=_WHOLE) as pool:
            return pool.run(call)[0]


def _clean_pool(limits: Limits) -> Pool:
    # rounded up, so that few different ones are kept
    limits = Limits(limits.memory, _LEAST_SECONDS * 2.0 ** max(
        0, int(np.ceil(np.log2(max(limits.seconds, 1e-3) / _LEAST_SECONDS)))
    )) if limits.seconds >= _LEAST_SECONDS else limits  # fmt: skip
    if limits not in _kept:
        while _kept:
            _kept.popitem()[1].close()
        _kept[limits] = Pool(_HANDLER, seconds=limits.seconds, memory=_WHOLE)
        atexit.register(_kept[limits].close)
    return _kept[limits]


def _forkable() -> bool:
    """Whether a fork of this process is safe (no other Python thread holds a lock) and quick."""
    if sys.platform != "linux" or threading.active_count() != 1:
        return False
    return _pages()[1] < _FORKED_PAGES


def _pages() -> tuple[int, int]:
    """Pages of address space, and those in memory."""
    try:
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
        return int(size), int(resident)
    except (OSError, ValueError):
        return 0, 0


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
