"""The graph replays what was measured; changes do what they must."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.traces import DEVICE_EVENTS, HOST_EVENTS, Builder, random_trace, training

from planish.base.errors import UsageError
from planish.trace.critical import summarise
from planish.trace.whatif import base_durations, replay


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


def test_names_as_the_screen_shows_them(tmp_path: Path) -> None:
    made = Builder()
    for i, name in enumerate(("void f<int, 4>(float*)", "void f<int, 8>(float*)", "g(int)")):
        made.call("cudaLaunchKernel", 2 * i, 1, i + 1)
        made.kernel(name, 10 + 100 * i, 100, i + 1)
    trace = made.trace(tmp_path)
    for name in ("void f<int, 4>(float*)", "f<int, 4>", "f<int, 4...", "g", "g(int)"):
        what = trace.what_if(name, faster=2)
        assert what.before - what.after == 50_000
    for name in ("f", "f<int", "", "..."):  # of several kernels
        with pytest.raises(UsageError, match="kernel or call"):
            trace.what_if(name, faster=2)


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


LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(2, 5))
def test_a_chain_gains_what_its_kernels_lose(lengths: list[int], factor: int) -> None:
    """Launched ahead, one behind the other: the end moves by exactly what the kernels lose."""
    made, clock = Builder(), 1000
    for i, length in enumerate(lengths):
        made.call("cudaLaunchKernel", 2 * i, 1, i + 1)
        made.kernel("k", clock, length, i + 1)
        clock += length
    with tempfile.TemporaryDirectory() as folder:
        what = made.trace(Path(folder)).what_if("k", faster=factor)
    lost = sum(1000 * n - round(1000 * n / factor) for n in lengths)
    assert what.before - what.after == lost


@settings(max_examples=60, deadline=None)
@given(LENGTHS, LENGTHS)
def test_of_two_streams_the_longer_decides(one: list[int], other: list[int]) -> None:
    """Removing nothing but the shorter stream's time gains nothing; the longer's gains the rest."""
    made, link = Builder(), 1
    for stream, (name, lengths) in enumerate((("a", one), ("b", other)), start=7):
        clock = 1000
        for length in lengths:
            made.call("cudaLaunchKernel", link, 1, link)
            made.kernel(name, clock, length, link, stream=stream)
            clock, link = clock + length, link + 1
    with tempfile.TemporaryDirectory() as folder:
        trace = made.trace(Path(folder))
    for name, mine, rest in (("a", sum(one), sum(other)), ("b", sum(other), sum(one))):
        lengths = one if name == "a" else other
        faster = sum(round(1000 * n / 4) for n in lengths)
        what = trace.what_if(name, faster=4)
        assert what.before - what.after == 1000 * max(mine, rest) - max(faster, 1000 * rest)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 100)), min_size=1, max_size=6))
def test_without_synchronising_host_and_device_overlap(rounds: list[tuple[int, int]]) -> None:
    """Rounds of launch, kernel, wait, host work: without the waits they run side by side."""
    made, clock = Builder(), 0
    for i, (kernel, host) in enumerate(rounds):
        made.call("cudaLaunchKernel", clock, 1, i + 1)
        made.kernel("k", clock + 1, kernel, i + 1)
        made.call("cudaDeviceSynchronize", clock + 1, kernel, 100 + i)
        made.host("work", clock + 1 + kernel, host)
        clock += 1 + kernel + host
    with tempfile.TemporaryDirectory() as folder:
        what = made.trace(Path(folder)).what_if("cudaDeviceSynchronize")
    # the host goes on at once; a kernel starts when it is launched and the one before has ended
    launch = end = 0
    for kernel, host in rounds:
        end = max(end, launch + 1) + kernel
        launch += 1 + host
    assert what.after == 1000 * max(end, 0)
