"""Samples of perf: what `perf script` prints becomes nested events; real perf where allowed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from support.mutate import mutations

from planish.base.errors import PlanishError, TraceError, UsageError
from planish.cli.main import main
from planish.measure import cpu
from planish.measure.cpu import perf_command
from planish.trace.read import read_table
from planish.trace.trace import Trace

TEXT = """\
# a comment that perf prints
prog 10/10   100.000000000:   10000000 cpu-clock:u: 
\t          1000 inner+0x10 (/usr/bin/prog)
\t          2000 outer+0x2 (/usr/bin/prog)
\t          3000 main+0x3 (/usr/bin/prog)

prog 10/10   100.010000000:   10000000 cpu-clock:u: 
\t          1100 outer+0x7 (/usr/bin/prog)
\t          3000 main+0x3 (/usr/bin/prog)

prog 10/10   100.020000000:   10000000 cpu-clock:u: 
\t          1100 outer+0x7 (/usr/bin/prog)
\t          3000 main+0x3 (/usr/bin/prog)

some worker 10/11   100.020000000:   10000000 cpu-clock:u: 
\t          9000 [unknown] (/lib/libm.so.6)

prog 10/10   100.100000000:   10000000 cpu-clock:u: 
\t          1100 outer+0x7 (/usr/bin/prog)
\t          3000 main+0x3 (/usr/bin/prog)

"""  # noqa: W291
MS = 1_000_000


def test_samples_become_nested_events(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(TEXT)
    trace = Trace(read_table(tmp_path / "p.txt"))
    rows = {row.path: (row.own, row.total) for row in trace.hot()}
    assert rows == {
        # 10 ms a sample; before the last sample the thread did not run for 80 ms: 15 ms count
        ("main", "outer"): (35 * MS, 45 * MS),
        ("main", "outer", "inner"): (10 * MS, 10 * MS),
        ("[libm.so.6]",): (10 * MS, 10 * MS),
    }
    assert {t.name for t in trace.table.threads} == {"prog", "some worker"}
    assert trace.devices == []


def test_the_first_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.txt").write_text(TEXT)
    main(["trace", str(tmp_path / "p.txt")])
    assert "main > outer" in capsys.readouterr().out


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    for data in mutations(TEXT.encode(), random.Random(5), 200):
        path.write_bytes(data)
        try:
            read_table(path)
        except PlanishError as error:
            assert "\n" not in str(error)
    path.write_text("# only a comment\nprog 1/1 1.0: 5 cpu-clock: \n")
    with pytest.raises(TraceError):
        path.write_bytes(b"PERFILE2" + bytes(100))
        read_table(path)


def test_without_perf_or_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="not installed"):
        perf_command(["true"], tmp_path / "x", 99)
    (tmp_path / "paranoid").write_text("4\n")
    fake = tmp_path / "perf"
    fake.write_text("#!/bin/sh\necho 'Access is limited.' >&2\nexit 255\n")
    fake.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(fake))
    monkeypatch.setattr(cpu, "PARANOID", tmp_path / "paranoid")
    with pytest.raises(UsageError, match="perf_event_paranoid is 4"):
        perf_command(["true"], tmp_path / "x", 99)
    with pytest.raises(UsageError, match="cannot start"):
        monkeypatch.setattr(shutil, "which", lambda name: str(fake) if name == "perf" else None)
        perf_command(["nosuchprogram"], tmp_path / "x", 99)
    monkeypatch.setattr(shutil, "which", lambda _: str(fake))
    (tmp_path / "paranoid").write_text("1\n")
    with pytest.raises(UsageError, match="Access is limited"):
        perf_command(["true"], tmp_path / "x", 99)


def test_a_real_program(tmp_path: Path) -> None:
    try:
        command = perf_command(["true"], tmp_path / "perf.data", 499)
    except UsageError as error:
        pytest.skip(str(error))
    assert command[-1] == "true"
    code = "x = 0\nfor i in range(3_000_000): x += i\nraise SystemExit(3)"
    with pytest.raises(SystemExit) as stop:
        main(["profile", "--cpu", str(tmp_path / "perf.data"), "--", "python3", "-c", code])
    assert stop.value.code == 3
    trace = Trace(read_table(tmp_path / "perf.data"))
    assert sum(row.own for row in trace.hot()) > 0
