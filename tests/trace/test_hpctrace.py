"""HPCToolkit's trace.db: lines become nested host events and device events."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.hpctoolkit import write_database, write_traces
from support.mutate import mutations

from planish.base.errors import PlanishError, TraceError
from planish.trace.events import Kind
from planish.trace.read import read_table
from planish.trace.trace import Trace

# contexts: 1 main thread > 2 <gpu kernel> > 3 saxpy(int) > 4 loop > 10, 11, ... instructions
HOST = [("NODE", 0), ("THREAD", 0)]
STREAM = [("NODE", 0), ("GPUCONTEXT", 1), ("GPUSTREAM", 14)]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write_database(tmp_path / "db", {10: {"GCYCLES": 1.0}}, ["GCYCLES"])
    write_traces(
        tmp_path / "db",
        [
            (HOST, [(1000, 1), (2000, 3), (5000, 10), (6000, 1), (9000, 0)]),
            (STREAM, [(2500, 3), (4500, 0), (6000, 10), (7000, 0)]),
        ],
    )
    return tmp_path / "db"


def test_lines_become_events(database: Path) -> None:
    trace = Trace(read_table(database))
    events = trace.events
    rows = {
        (trace.strings[n], Kind(k).name, s, d)
        for n, k, s, d in zip(
            events.name.tolist(), events.kind.tolist(), events.start.tolist(),
            events.duration.tolist(), strict=True,
        )
    }  # fmt: skip
    assert rows == {
        # a function stays open while the path below it changes
        ("main thread", "HOST_OP", 1000, 8000),
        ("<gpu kernel>", "HOST_OP", 2000, 4000),
        ("saxpy(int)", "HOST_OP", 2000, 4000),
        # a stream's events are named by the kernel
        ("saxpy(int)", "KERNEL", 2500, 2000),
        ("saxpy(int)", "KERNEL", 6000, 1000),
    }
    (row,) = trace.breakdown()
    assert (row.device, row.busy, row.idle) == (1, 3000, 1500)
    assert int(trace.charges().own.sum()) == row.idle
    assert [s.stream for s in trace.streams] == [14]


def test_the_file_or_its_folder(database: Path) -> None:
    assert len(read_table(database / "trace.db").events) == len(read_table(database).events)
    (database / "meta.db").unlink()
    with pytest.raises(TraceError, match=r"meta\.db"):
        read_table(database / "trace.db")


def test_an_open_end_is_told(tmp_path: Path) -> None:
    write_database(tmp_path / "db", {10: {"GCYCLES": 1.0}}, ["GCYCLES"])
    write_traces(tmp_path / "db", [(STREAM, [(1, 3), (5, 10)])])
    table = read_table(tmp_path / "db")
    assert len(table.events) == 1
    assert any("no end" in note.what for note in table.notes)


def test_damage_is_an_error_or_salvaged(database: Path) -> None:
    whole = (database / "trace.db").read_bytes()
    for number, data in enumerate(mutations(whole, random.Random(3), 300)):
        (database / "trace.db").write_bytes(data)
        try:
            read_table(database / "trace.db", salvage=number % 2 == 1)
        except PlanishError as error:
            assert "\n" not in str(error)
