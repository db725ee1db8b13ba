"""The graph replays what was measured; changes do what they must."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.traces import DEVICE_EVENTS, HOST_EVENTS, Builder, random_trace, training

from planish.base.errors import UsageError
from planish.trace.critical import base_durations, replay, summarise


@settings(max_examples=150, deadline=None)
@given(HOST_EVENTS, DEVICE_EVENTS)
def test_an_unchanged_replay_is_the_measurement(host: list[tuple], device: list[tuple]) -> None:
    graph = random_trace(host, device).graph
    start, end = replay(graph, base_durations(graph), np.zeros(len(graph), np.bool_))
    assert start.tolist() == graph.start.tolist()
    assert end.tolist() == graph.end.tolist()


@settings(max_examples=150, deadline=None)
@given(HOST_EVENTS, DEVICE_EVENTS)
def test_the_path_is_without_a_gap(host: list[tuple], device: list[tuple]) -> None:
    trace = random_trace(host, device)
    path = trace.critical_path()
    for before, after in pairwise(path):
        assert before.end == after.start
    if path:
        assert path[-1].end == int(trace.graph.end.max())
        assert sum(step.length for step in path) == path[-1].end - path[0].start
        assert (
            sum(time for _, time in summarise(trace.table, path, trace.state))
            == path[-1].end - path[0].start
        )


def chain(tmp_path: Path) -> Builder:
    """Ten kernels launched ahead of time, one behind the other: the device is the bottleneck."""
    made = Builder()
    for i in range(10):
        made.call("cudaLaunchKernel", 2 * i, 1, i + 1)
        made.kernel("slow" if i % 2 else "fast", 10 + 100 * i, 100, i + 1)
    made.call("cudaDeviceSynchronize", 30, 985, 99)
    return made


def test_what_if_on_a_chain(tmp_path: Path) -> None:
    trace = chain(tmp_path).trace(tmp_path)
    what = trace.what_if("slow", faster=2)
    assert what.before - what.after == 5 * 50_000
    assert trace.what_if("cudaDeviceSynchronize").after <= what.before


def test_a_hidden_kernel_gains_nothing(tmp_path: Path) -> None:
    made = chain(tmp_path)
    made.call("cudaLaunchKernel", 25, 1, 50).kernel("hidden", 40, 500, 50, stream=9)
    what = made.trace(tmp_path).what_if("hidden", faster=10)
    assert what.speedup == 1.0


def test_without_a_synchronisation_the_host_runs_ahead(tmp_path: Path) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 10, 1).kernel("a", 10, 200, 1)
    made.call("cudaStreamSynchronize", 10, 210, 8)
    made.host("prepare", 220, 100)
    made.call("cudaLaunchKernel", 320, 10, 2).kernel("b", 330, 200, 2)
    trace = made.trace(tmp_path)
    what = trace.what_if("cudaStreamSynchronize")
    # the launch moves from 320 to 110, and b then starts when a has ended
    assert what.before == 530_000
    assert what.after == 410_000


def test_unknown_names_and_factors(tmp_path: Path) -> None:
    trace = training().trace(tmp_path)
    with pytest.raises(UsageError, match="did you mean gemm"):
        trace.what_if("gem", faster=2)
    with pytest.raises(UsageError, match="times as fast"):
        trace.what_if("gemm", faster=0)


def test_the_path_goes_through_the_thread_that_does_the_work(tmp_path: Path) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 5, 1).kernel("forward", 5, 10, 1)
    made.host("## backward ##", 20, 200, cat="user_annotation")
    made.host("autograd::AddBackward0", 30, 180, thread=5)
    made.call("cudaLaunchKernel", 40, 160, 2, thread=5).kernel("grad", 60, 20, 2)
    made.call("cudaLaunchKernel", 230, 5, 3).kernel("step", 240, 10, 3)
    trace = made.trace(tmp_path)
    rows = {trace.events.thread[step.row] for step in trace.critical_path()}
    threads = {trace.table.threads[i].thread for i in rows}
    assert 5 in threads
    charged = {row.path: row.own for row in trace.blame()}
    # 20-30 and 210-220 us, when no thread but the blocked one runs
    assert charged["## backward ##",] == 20_000
