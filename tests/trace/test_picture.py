"""Pictures: what is drawn is the time that passed; files are PNGs where matplotlib is there."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.traces import DEVICE_EVENTS, HOST_EVENTS, Builder, random_trace, training

from planish.base.errors import UsageError
from planish.cli.main import main
from planish.trace.idle import Cause
from planish.trace.picture import _CAUSES, _COLOURS, picture, shares
from planish.trace.trace import Trace
from planish.trace.work import Work


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


def colours(trace: Trace) -> Counter[str]:
    """Pixels of the timeline (its lanes, not the legend) by colour."""
    image = pytest.importorskip("matplotlib.image")
    pixels = np.rint(255 * image.imread(io.BytesIO(picture(trace)), format="png")[..., :3])
    assert pixels.shape == (1000, 1600, 3)
    lanes = pixels[60:440, 200:1580].reshape(-1, 3).astype(int)
    return Counter("#{:02x}{:02x}{:02x}".format(*pixel) for pixel in lanes)


def test_a_picture_shows_what_ran_and_why_not(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    work = {Work.COMPUTE, Work.COMMUNICATION, Work.COPY}
    drawn = colours(training(3).trace(tmp_path))
    assert all(drawn[_COLOURS[kind]] > 50 for kind in work)
    assert drawn[_CAUSES[Cause.HOST_BUSY]] > 1000  # loading data takes half of each step
    made = Builder().call("cudaLaunchKernel", 0, 1, 1).kernel("a", 10, 100, 1)
    drawn = colours(made.kernel("b", 200, 100, 2).trace(tmp_path))
    assert drawn[_COLOURS[Work.COMPUTE]] > 1000
    assert not drawn[_COLOURS[Work.COMMUNICATION]]
    assert not drawn[_COLOURS[Work.COPY]]
    assert not drawn[_CAUSES[Cause.HOST_BUSY]]
    assert drawn[_CAUSES[Cause.UNKNOWN]] > 1000


def test_nothing_to_draw() -> None:
    pytest.importorskip("matplotlib")
    with tempfile.TemporaryDirectory() as folder:
        trace = Builder().host("f", 0, 10).trace(Path(folder))
        with pytest.raises(UsageError, match="nothing to draw"):
            picture(trace)
    assert np.isfinite(trace.span).all()
