"""Real files, where PLANISH_TRACES names their folder: read whole, equal to other tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from planish.trace.timeline import breakdown
from planish.trace.trace import Trace
from planish.trace.whatif import base_durations, replay

# HolisticTraceAnalysis 0.5.0 with include_last_profiler_step=True and HTA_DISABLE_NS_ROUNDING=1
# (by default it rounds starts up and ends down to whole microseconds, which adds idle time where
# the file has nanoseconds): idle, compute, non-compute and kernel time in nanoseconds.
HTA = {
    "kineto-diff-control": (76_007_000, 281_336_000, 107_251_000, 464_594_000),
    "kineto-nccl": (503_050_991, 115_655_847, 41_844_167, 660_551_005),
    "kineto-h100-qwen": (4_005_531, 45_432_698, 214_602, 49_652_831),
    "kineto-mi300-qwen": (4_022_998, 43_062_042, 760, 47_085_800),
    "kineto-timeline-sampled": (675_191_000, 210_320_000, 337_336_000, 1_222_847_000),
}
EVENTS = {
    "kineto-alexnet.json.gz": 868,
    "kineto-cpu-only.json.gz": 2467,
    "kineto-cupti-counters.json.gz": 2324,
    "kineto-diff-control.json.gz": 74_937,
    "kineto-diff-test.json.gz": 68_324,
    "kineto-h100-qwen.json.gz": 12_080,
    "kineto-mi300-qwen.json.gz": 12_112,
    "kineto-nccl.json.gz": 26_933,
    "kineto-simple-add.json.gz": 838,
    "kineto-timeline-sampled.json.gz": 4_811,
    "nsys-saxpy.sqlite": 137,
    "rocprofv3-908.json.gz": 43_915,
}


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_file_is_read_and_explained(real_traces: Path, name: str) -> None:
    trace = Trace.read(real_traces / "traces" / name)
    assert len(trace.events) == EVENTS[name]
    for row in trace.breakdown():
        assert trace.idle(row.device).total == row.idle
        assert int(trace.charges(row.device).own.sum()) == row.idle
    graph = trace.graph
    start, end = replay(graph, base_durations(graph), graph.device & False)
    assert (start == graph.start).all()
    assert (end == graph.end).all()


@pytest.mark.parametrize("name", sorted(HTA))
def test_numbers_of_holistic_trace_analysis(real_traces: Path, name: str) -> None:
    (row,) = Trace.read(real_traces / "traces" / f"{name}.json.gz").breakdown()
    found = (row.idle, row.compute, row.other, row.span)
    # its doubles of microseconds carry a few nanoseconds less than the file's text
    assert found == pytest.approx(HTA[name], abs=10)


def test_where_it_differs_it_left_events_out(real_traces: Path) -> None:
    """With several steps it drops device events whose launch is not in the trace (614 here)."""
    trace = Trace.read(real_traces / "traces" / "kineto-diff-test.json.gz")
    (row,) = trace.breakdown()
    launched = breakdown(trace.work.where(trace.work.launch >= 0), row.device, None)
    assert row.events - launched.events == 614
    assert (launched.idle, launched.compute, launched.other, launched.span) == (
        51_692_000, 514_576_000, 178_246_000, 744_514_000,
    )  # fmt: skip
