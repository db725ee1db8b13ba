"""`read_table`: finds out which profiler wrote a file and reads it."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

from planish.base.errors import TraceError, UsageError
from planish.trace.chrome import is_chrome, read_chrome
from planish.trace.events import Table
from planish.trace.jsonstream import Scanner
from planish.trace.ncu import is_ncu
from planish.trace.perf import MAGIC, is_perf_script, read_perf
from planish.trace.rocprof import read_rocprof
from planish.trace.source import Blocks, head

_SQLITE = b"SQLite format 3\0"
_ROCPROF = b'"rocprofiler-sdk-tool"'
_HPCTOOLKIT = b"HPCTOOLKIT"
KNOWN = (
    "Kineto, Chrome, Perfetto and rocprofv3 JSON (also .gz and .zip), Nsight Systems SQLite,"
    " HPCToolkit databases, perf.data and perf script's text, Nsight Compute CSV"
)


def read_table(path: Path, *, salvage: bool = False) -> Table:
    """The file's events as columns.

    salvage  read what is whole of a damaged file; what was left out stands in the notes
    Raises UsageError (unreadable) and TraceError (damaged, cut short, no known format).
    """
    if path.is_dir() and (path / "trace.db").is_file():
        return _read_hpctoolkit(path, salvage)
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder", hint="give a file, or a folder with one trace for each rank"
        )
    first = head(path)
    if not first:
        raise TraceError(f"{path} is empty", position=0)
    if first.startswith(_SQLITE):
        from planish.trace.nsys import read_nsys

        return read_nsys(str(path), path, salvage)
    if first.startswith(_HPCTOOLKIT + b"trce"):
        return _read_hpctoolkit(path, salvage)
    if first.startswith(_HPCTOOLKIT):
        raise TraceError(
            f"{path} is an HPCToolkit database: samples, not events",
            hint=f"planish advise {path} reads it; its trace.db, if there is one, is a trace",
        )
    if first.startswith(MAGIC) or is_perf_script(first):
        return read_perf(str(path), path, first.startswith(MAGIC))
    if is_ncu(first):
        raise TraceError(
            f"{path} is a table of Nsight Compute: samples, not events",
            hint=f"planish advise {path} reads it",
        )
    return _read_json(path, salvage)


def _read_hpctoolkit(path: Path, salvage: bool) -> Table:
    from planish.trace.hpctrace import read_trace_db

    return read_trace_db(path, salvage)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection while events are decoded: they hold no cycles, and there are many."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read_json(path: Path, salvage: bool) -> Table:
    try:
        with _uncollected():
            scanner = Scanner(Blocks(path), salvage=salvage)
            first = scanner.start()
            if not is_chrome(first):
                if not first and scanner.problem:
                    raise TraceError(f"the file is damaged: {scanner.problem}", position=0)
                raise TraceError("no known trace format", position=0, hint=f"planish reads {KNOWN}")
            if _ROCPROF in first[:256]:
                return read_rocprof(str(path), scanner, salvage)
            return read_chrome(path, scanner, salvage)
    except TraceError as error:
        raise TraceError(
            f"{path}: {error.message}", position=error.position, hint=error.hint
        ) from error
