"""Reading in a process of its own: the same table, the same errors, and limits that hold."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest
from support.traces import same, training

from planish.base.errors import PlanishError, TraceError, UsageError
from planish.cli.main import main
from planish.trace import isolated
from planish.trace.events import Table
from planish.trace.isolated import Limits, read_isolated
from planish.trace.read import read_table
from planish.trace.trace import Trace


def test_the_same_table(tmp_path: Path) -> None:
    path = training(5).write(tmp_path / "t.json")
    same(read_isolated(path), read_table(path))


def test_from_a_thread_beside_others(tmp_path: Path) -> None:
    path = training(2).write(tmp_path / "t.json")
    found: list[Table] = []
    threads = [threading.Thread(target=lambda: found.append(read_isolated(path)))]
    for thread in threads:
        thread.start()
        thread.join()
    same(found[0], read_table(path))


def test_a_file_without_events(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"traceEvents": []}')
    assert len(read_isolated(tmp_path / "t.json").events) == 0


def test_errors_are_the_reader_s(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1,')
    for path in (tmp_path / "cut.json", tmp_path / "none.json"):
        with pytest.raises(PlanishError) as here:
            read_table(path)
        with pytest.raises(PlanishError) as there:
            read_isolated(path)
        assert type(here.value) is type(there.value)
        assert str(here.value) == str(there.value)
        assert getattr(here.value, "position", 0) == getattr(there.value, "position", 0)


def test_a_bomb_meets_the_limit_of_memory(tmp_path: Path) -> None:
    """A small file that inflates to 64 MB of text."""
    with gzip.open(tmp_path / "bomb.json.gz", "wb", compresslevel=1) as file:
        file.write(b'{"deviceProperties": "')
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b'", "traceEvents": []}')
    with pytest.raises(TraceError, match=r"more than 0\.1 GB"):
        read_isolated(tmp_path / "bomb.json.gz", limits=Limits(memory=50 << 20))


def test_what_takes_too_long_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = training(3000)
    made.write(tmp_path / "t.json")
    with pytest.raises(TraceError, match="not read within"):
        read_isolated(tmp_path / "t.json", limits=Limits(seconds=0.02))
    with pytest.raises(SystemExit) as stop:
        main(["trace", str(tmp_path / "t.json"), "--max-seconds", "0.02"])
    assert stop.value.code == 2
    assert "--max-seconds" in capsys.readouterr().err


def test_a_reader_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets an error of one line, not the crash."""
    path = training(1).write(tmp_path / "t.json")
    monkeypatch.setattr(isolated, "_forkable", lambda: True)
    monkeypatch.setattr(isolated, "read_table", lambda *_, **__: _crash())
    with pytest.raises(TraceError, match="the reader died") as error:
        read_isolated(path)
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    assert len(Trace.read(path).events)


def _crash() -> None:
    os._exit(7)


def test_no_room_for_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = training(1).write(tmp_path / "t.json")
    monkeypatch.setattr(isolated, "_forkable", lambda: True)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(isolated, "_write", full)
    with pytest.raises(UsageError, match="No space left"):
        read_isolated(path)
