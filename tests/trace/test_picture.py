"""Pictures: what is drawn is the time that passed; files are PNGs where matplotlib is there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.traces import DEVICE_EVENTS, HOST_EVENTS, Builder, random_trace, training

from planish.base.errors import UsageError
from planish.cli.main import main
from planish.trace.picture import shares


@settings(max_examples=60, deadline=None)
@given(HOST_EVENTS, DEVICE_EVENTS)
def test_the_drawn_area_is_the_busy_time(host: list[tuple], device: list[tuple]) -> None:
    trace = random_trace(host, device)
    begin, end = trace.span
    if end == begin:
        return
    for row in trace.breakdown():
        mine = trace.work.of_device(row.device)
        drawn = shares(trace, mine.start, mine.end)
        assert (drawn > -1e-9).all()
        assert (drawn < 1 + 1e-9).all()
        assert drawn.sum() * (end - begin) / len(drawn) == pytest.approx(row.busy, abs=1)


def test_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = training(3).write(tmp_path / "t$1.json")
    main(["trace", str(path), "--png", str(tmp_path / "t.png")])
    assert f"wrote {tmp_path / 't.png'}" in capsys.readouterr().out
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw() -> None:
    from planish.trace.picture import picture

    pytest.importorskip("matplotlib")
    with tempfile.TemporaryDirectory() as folder:
        trace = Builder().host("f", 0, 10).trace(Path(folder))
        with pytest.raises(UsageError, match="nothing to draw"):
            picture(trace)
    assert np.isfinite(trace.span).all()
