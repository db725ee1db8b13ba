"""Traces with planted causes of idleness, and programs simulated again with a change.

What a builder plants is known: each piece of idle time has one cause, in the order in which a
host and a device go through them. The analysis must find these, to the nanosecond.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.traces import Builder

from planish.trace.idle import Cause
from planish.trace.trace import Trace

US = 1000
MAIN, SIDE = 100, 7
LAUNCH, SYNC = "cudaLaunchKernel", "cudaDeviceSynchronize"
OTHERS = {
    Cause.OTHER_STREAM: ("gemm", "kernel"),
    Cause.COMMUNICATION: ("ncclDevKernel_AllReduce_Sum", "kernel"),
    Cause.COPY: ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy"),
}

LENGTH = st.integers(1, 60)
# what the launching thread does before it launches
BEFORE = st.lists(
    st.tuples(st.sampled_from([Cause.HOST_BUSY, Cause.SYNCHRONISATION, Cause.NO_WORK,
                               Cause.LAUNCHING]), LENGTH), max_size=4,
)  # fmt: skip
# what passes after it has launched
QUEUED = st.lists(
    st.tuples(st.sampled_from([Cause.LAUNCH_LATENCY, *OTHERS]), LENGTH), max_size=4
)  # fmt: skip


@dataclass
class Planted:
    """Builds a trace gap by gap; `causes` and `contexts` are what must be found (nanoseconds)."""

    made: Builder = field(default_factory=Builder)
    clock: int = 0
    link: int = 0
    causes: Counter[Cause] = field(default_factory=Counter)
    contexts: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def kernel(self, length: int = 10) -> None:
        """What ends a gap, or begins the run."""
        self.made.kernel("k", self.clock, length, self.link)
        self.clock += length

    def begin(self) -> None:
        self.link += 1
        self.made.call(LAUNCH, 0, 1, self.link)
        self.clock = 1
        self.kernel()

    def passes(self, cause: Cause, length: int, ran: tuple[str, ...], beside: bool) -> None:
        """A piece of the gap in which `ran` is what the launching thread ran (nothing: nobody)."""
        self.causes[cause] += length * US
        runs = [*([ran] if ran else []), *([("beside",)] if beside else [])]
        for path in runs or [()]:
            self.contexts[path] += length * US // max(1, len(runs))
        self.clock += length

    def gap(
        self, before: list[tuple[Cause, int]], launch: int, queued: list[tuple[Cause, int]],
        thread: int = MAIN, beside: bool = False,
    ) -> None:  # fmt: skip
        begun = self.clock
        for cause, length in before:
            path: tuple[str, ...] = ()
            if cause == Cause.HOST_BUSY:
                path = (f"work {self.clock % 3}",)
                self.made.host(path[0], self.clock, length, thread=thread)
            elif cause != Cause.NO_WORK:
                path = (LAUNCH if cause == Cause.LAUNCHING else SYNC,)
                self.made.call(path[0], self.clock, length, 10**6 + self.clock, thread)
            self.passes(cause, length, path, beside)
        self.link += 1
        mine = self.link
        self.made.call(LAUNCH, self.clock, launch, mine, thread)
        self.passes(Cause.LAUNCHING, launch, (LAUNCH,), beside)
        for number, (cause, length) in enumerate(queued):
            if cause in OTHERS:
                name, category = OTHERS[cause]
                self.link += 1
                self.made.call(LAUNCH, 0, 0, self.link)
                self.made.kernel(name, self.clock, length, self.link, 20 + number, cat=category)
            self.passes(cause, length, (), beside)
        if beside:
            self.made.host("beside", begun, self.clock - begun, thread=SIDE)
        self.made.kernel("k", self.clock, 10, mine)
        self.clock += 10

    def unknown(self, length: int) -> None:
        """The next kernel's launch is not in the trace."""
        self.passes(Cause.UNKNOWN, length, (), False)
        self.made.kernel("k", self.clock, 10, 10**7 + self.clock)
        self.clock += 10

    def trace(self) -> Trace:
        with tempfile.TemporaryDirectory() as folder:
            return self.made.trace(Path(folder))


GAPS = st.lists(
    st.one_of(
        LENGTH,
        st.tuples(BEFORE, LENGTH, st.integers(0, 30), st.sampled_from([MAIN, 55]), st.booleans()),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(GAPS)
def test_causes_and_contexts_of_a_device(gaps: list[int | tuple]) -> None:
    planted = Planted()
    planted.begin()
    for gap in gaps:
        if isinstance(gap, int):
            planted.unknown(gap)
            continue
        before, launch, latency, thread, beside = gap
        queued = [(Cause.LAUNCH_LATENCY, latency)] if latency else []
        planted.gap(before, launch, queued, thread, beside)
    trace = planted.trace()
    idle = trace.idle()
    assert idle.by_cause() == dict(planted.causes)
    assert idle.total == sum(planted.causes.values())
    rows = {row.path: row.own for row in trace.blame()}
    assert rows == {path: time for path, time in planted.contexts.items() if time}
    assert sum(rows.values()) == idle.total
    named = idle.call[idle.cause == Cause.SYNCHRONISATION].tolist()
    assert {trace.strings[trace.events.name[row]] for row in named} <= {SYNC}
    assert -1 not in named


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(BEFORE, LENGTH, QUEUED), min_size=1, max_size=6))
def test_causes_of_a_stream(gaps: list[tuple]) -> None:
    planted = Planted()
    planted.begin()
    for before, launch, queued in gaps:
        planted.gap(before, launch, queued)
    trace = planted.trace()
    idle = trace.idle(0, 7)
    assert idle.by_cause() == dict(planted.causes)
    # for the whole device, what other streams do is no idle time
    waited = sum(planted.causes[cause] for cause in OTHERS)
    whole = trace.idle(0)
    assert whole.total == idle.total - waited
    assert not set(whole.by_cause()) & set(OTHERS)
    assert sum(row.own for row in trace.blame()) == whole.total


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_can_be_planted(cause: Cause) -> None:
    planted = Planted()
    planted.begin()
    if cause == Cause.UNKNOWN:
        planted.unknown(40)
    elif cause in (*OTHERS, Cause.LAUNCH_LATENCY):
        planted.gap([], 1, [(cause, 40)])
    else:
        planted.gap([(cause, 40)], 1, [])
    found = planted.trace().idle(0, 7).by_cause()
    assert found[cause] == 40 * US + (US if cause == Cause.LAUNCHING else 0)


# -- what-if -----------------------------------------------------------------------------------

Step = tuple[str, str, int, int]
KERNELS = st.lists(
    st.tuples(st.just("kernel"), st.sampled_from("abc"), st.sampled_from([7, 20, 21]),
              st.integers(1, 80)), min_size=1, max_size=4,
)  # fmt: skip
HOST_WORK = st.lists(st.tuples(st.just("host"), st.just(""), st.just(0), st.integers(1, 60)),
                     max_size=1)  # fmt: skip
SYNCHRONISES = st.sampled_from([[], [("sync", "", 0, 0)]])


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Rounds of kernels on several streams, host work, and perhaps a synchronisation."""
    rounds = draw(st.lists(st.tuples(KERNELS, HOST_WORK, SYNCHRONISES, HOST_WORK), max_size=5))
    return [step for parts in rounds for part in parts for step in part]


def simulate(steps: list[Step], faster: dict[str, int], syncs: bool) -> tuple[Builder, int]:
    """Run a host and the streams of a device; returns the trace and its length in nanoseconds.

    A launch takes 2 us; its kernel starts at once, or when its stream's last one has ended. A
    synchronisation returns when all kernels that were launched have ended.
    """
    made, host, free, ends = Builder(), 0, {7: 0, 20: 0, 21: 0}, [0]
    for link, (what, name, stream, length) in enumerate(steps, start=1):
        if what == "host":
            made.host("work", host / US, length)
            host += length * US
        elif what == "sync":
            end = max([host, *free.values()]) if syncs else host
            made.call(SYNC, host / US, (end - host) / US, 1000 + link)
            host = end
        else:
            took = round(length * US / faster.get(name, 1))
            begun = max(host, free[stream])
            made.call(LAUNCH, host / US, 2, link)
            made.kernel(name, begun / US, took / US, link, stream)
            free[stream] = begun + took
            host += 2 * US
        # host work at the very end is no node of the graph: calls and kernels are
        ends.append(max(host if what != "host" else ends[-1], *free.values()))
    return made, max(ends)


@settings(max_examples=300, deadline=None)
@given(programs(), st.sampled_from("abc"), st.integers(2, 10))
def test_a_faster_kernel_is_what_a_simulation_says(
    steps: list[Step], name: str, factor: int
) -> None:
    steps = [("kernel", name, 7, 10), *steps]
    with tempfile.TemporaryDirectory() as folder:
        what = simulate(steps, {}, True)[0].trace(Path(folder)).what_if(name, faster=factor)
    assert what.before == simulate(steps, {}, True)[1]
    assert what.after == simulate(steps, {name: factor}, True)[1]


@settings(max_examples=300, deadline=None)
@given(programs())
def test_without_synchronisation_as_in_a_simulation(steps: list[Step]) -> None:
    steps = [("kernel", "a", 7, 10), ("sync", "", 0, 0), *steps]
    with tempfile.TemporaryDirectory() as folder:
        what = simulate(steps, {}, True)[0].trace(Path(folder)).what_if(SYNC)
    assert what.before == simulate(steps, {}, True)[1]
    assert what.after == simulate(steps, {}, False)[1]
