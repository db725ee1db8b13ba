"""Idle time: its causes on hand-made traces, and that nothing is lost or charged twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support.traces import DEVICE_EVENTS, HOST, HOST_EVENTS, Builder, random_trace, training

from planish.trace.contexts import host_contexts, segments
from planish.trace.idle import Cause
from planish.trace.read import read_table
from planish.trace.trace import Trace


def causes(trace: Trace, stream: int | None = None) -> dict[Cause, int]:
    """Microseconds by cause."""
    found = trace.idle(stream=stream).by_cause()
    return {cause: time // 1000 for cause, time in found.items()}


def test_launching_latency_and_host_work(tmp_path: Path) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 5, 1).kernel("a", 10, 10, 1)  # runs 10..20
    made.host("tokenize", 22, 60)
    made.call("cudaLaunchKernel", 90, 10, 2).kernel("b", 130, 10, 2)
    # 20-22 nothing, 22-82 host, 82-90 nothing, 90-100 launching, 100-130 latency
    assert causes(made.trace(tmp_path)) == {
        Cause.NO_WORK: 10, Cause.HOST_BUSY: 60, Cause.LAUNCHING: 10, Cause.LAUNCH_LATENCY: 30,
    }  # fmt: skip


def test_synchronisation_is_named(tmp_path: Path) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 5, 1).kernel("a", 10, 10, 1)
    made.host("aten::item", 5, 100)
    made.call("cudaStreamSynchronize", 6, 90, 9)
    made.call("cudaLaunchKernel", 110, 5, 2).kernel("b", 115, 10, 2)
    trace = made.trace(tmp_path)
    found = causes(trace)
    assert found == {
        Cause.SYNCHRONISATION: 76, Cause.HOST_BUSY: 9, Cause.NO_WORK: 5, Cause.LAUNCHING: 5,
    }  # fmt: skip
    idle = trace.idle()
    calls = idle.call[idle.cause == Cause.SYNCHRONISATION]
    assert {trace.strings[trace.events.name[row]] for row in calls} == {"cudaStreamSynchronize"}
    assert trace.blame(limit=1)[0].path == ("aten::item", "cudaStreamSynchronize")


@pytest.mark.parametrize(
    ("name", "category", "cause"),
    [
        ("gemm", "kernel", Cause.OTHER_STREAM),
        ("ncclDevKernel_AllReduce_Sum", "kernel", Cause.COMMUNICATION),
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", Cause.COPY),
    ],
)
def test_a_stream_that_waits_for_another(
    tmp_path: Path, name: str, category: str, cause: Cause
) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 1, 1).kernel("first", 5, 5, 1)
    made.call("cudaLaunchKernel", 1, 1, 2).kernel(name, 10, 80, 2, stream=20, cat=category)
    made.call("cudaLaunchKernel", 2, 1, 3).kernel("second", 95, 5, 3)
    trace = made.trace(tmp_path)
    assert causes(trace, 7) == {cause: 80, Cause.LAUNCH_LATENCY: 5}
    assert causes(trace) == {Cause.LAUNCH_LATENCY: 5}


def test_without_launches_the_cause_is_unknown(tmp_path: Path) -> None:
    made = Builder().kernel("a", 0, 10, 1).kernel("b", 50, 10, 2)
    assert causes(made.trace(tmp_path)) == {Cause.UNKNOWN: 40}


def test_blame_is_shared_among_threads_and_sleepers_pay_nothing(tmp_path: Path) -> None:
    made = Builder()
    made.call("cudaLaunchKernel", 0, 1, 1).kernel("a", 2, 8, 1)
    made.host("one", 10, 101, thread=1)
    made.host("two", 10, 101, thread=2)
    made.host("<built-in method acquire of _thread.lock object>", 10, 101, thread=3)
    made.kernel("b", 111, 10, 2)
    rows = {row.path: row.own for row in made.trace(tmp_path).blame()}
    assert rows == {("one",): 50_500, ("two",): 50_500}


def test_steps_are_one_context(tmp_path: Path) -> None:
    rows = training(3).trace(tmp_path).blame()
    paths = [row.path for row in rows]
    assert len(set(paths)) == len(paths)
    assert ("ProfilerStep", "data loading") in paths


@settings(max_examples=150, deadline=None)
@given(HOST_EVENTS, DEVICE_EVENTS)
def test_causes_and_blame_sum_to_the_idle_time(
    host: list[tuple[int, int, int, str, int]], device: list[tuple]
) -> None:
    trace = random_trace(host, device)
    for row in trace.breakdown():
        idle = trace.idle(row.device)
        assert idle.total == row.idle == sum(idle.by_cause().values())
        assert (idle.start[1:] >= idle.end[:-1]).all()
        charged = trace.charges(row.device)
        assert int(charged.own.sum()) == row.idle
        assert int(charged.total[0]) == row.idle
        assert (charged.own >= 0).all()
        assert row.busy + row.idle == row.span
        assert row.compute + row.other == row.busy
    for row in trace.streams:
        assert trace.idle(row.device, row.stream).total == row.idle


@settings(max_examples=100, deadline=None)
@given(HOST_EVENTS)
def test_nesting(host: list[tuple[int, int, int, str, int]]) -> None:
    """Children lie within their parents, each thread runs one leaf at a time, none is lost."""
    trace = random_trace(host, [(0, 1, 0, 7, "gemm", 0)])
    tree = host_contexts(trace.table)
    has = tree.parent >= 0
    assert (tree.start[has] >= tree.start[tree.parent[has]]).all()
    assert (tree.end[has] <= tree.end[tree.parent[has]]).all()
    assert (tree.end >= tree.start).all()
    assert (tree.thread[has] == tree.thread[tree.parent[has]]).all()
    for seg in segments(tree):
        assert (seg.start[1:] >= seg.end[:-1]).all()
        assert (tree.start[seg.leaf] <= seg.start).all()
        assert (tree.end[seg.leaf] >= seg.end).all()
        events = np.flatnonzero(tree.thread == seg.thread)
        times = set()
        for i in events.tolist():
            times |= set(range(int(tree.start[i]), int(tree.end[i]), 1000))
        assert int((seg.end - seg.start).sum()) == 1000 * len(times)


def test_an_annotation_outlives_the_call_that_opened_it(tmp_path: Path) -> None:
    made = Builder()
    made.host("step", 0, 1000).host("enter", 10, 12).host("annotation", 20, 500)
    made.host("inner", 100, 50)
    trace = made.kernel("k", 0, 1, 1).trace(tmp_path)
    host = trace.host
    paths = {host.tree.path(int(node), trace.strings) for node in host.node}
    assert ("step", "annotation", "inner") in paths
    assert ("step", "enter") in paths


def test_deep_nesting_is_no_trap(tmp_path: Path) -> None:
    made = Builder()
    for level in range(1500):
        made.host(f"f{level}", level, 4000 - 2 * level, thread=HOST)
    made.kernel("a", 0, 1, 1).kernel("b", 1999, 1, 2)
    trace = made.trace(tmp_path)
    assert int(trace.charges().own.sum()) == trace.idle().total


def test_times_too_far_apart_to_be_shifted(tmp_path: Path) -> None:
    made = Builder()
    for thread, base in ((1, -9e15), (2, 0), (3, 9e15)):
        made.host("outer", base, 100, thread=thread).host("inner", base + 10, 50, thread=thread)
    made.kernel("a", 0, 10, 1).kernel("b", 90, 10, 2)
    trace = made.trace(tmp_path)
    assert {trace.host.tree.path(int(n), trace.strings) for n in trace.host.node} == {
        ("outer",), ("outer", "inner"),
    }  # fmt: skip
    assert int(trace.charges().own.sum()) == trace.idle().total == 80_000


@pytest.mark.parametrize("size", [1, 3, 50])
def test_idle_time_is_the_same_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = training(3).write(tmp_path / "t.json")

    def columns() -> list[list[int]]:
        trace = Trace(read_table(path))
        found = [trace.idle(trace.devices[0])]
        found += [trace.idle(row.device, row.stream) for row in trace.streams]
        return [getattr(idle, name).tolist() for idle in found
                for name in ("start", "end", "gap", "cause", "next", "call")]  # fmt: skip

    whole = columns()
    assert len(whole[0]) > 3
    monkeypatch.setattr("planish.trace.idle._PART", size)
    assert columns() == whole
