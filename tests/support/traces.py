"""Small traces made by hand: events in microseconds, as Kineto writes them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from planish.trace.events import Table
from planish.trace.read import read_table
from planish.trace.trace import Trace

HOST = 100  # the process of the host, and its main thread


def same(one: Table, other: Table) -> None:
    """Asserts that the two tables are equal to the last bit, types of columns included."""
    for part in ("events", "details"):
        for column in fields(getattr(one, part)):
            first, second = (getattr(getattr(t, part), column.name) for t in (one, other))
            assert first.dtype == second.dtype, column.name
            np.testing.assert_array_equal(first, second, err_msg=column.name)
    for name in ("strings", "threads", "notes", "devices", "properties", "rank", "format"):
        assert getattr(one, name) == getattr(other, name), name


@dataclass
class Builder:
    """Collects events; `write` makes a file of them."""

    events: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=lambda: {"schemaVersion": 1})

    def host(
        self, name: str, ts: float, dur: float, *, thread: int = HOST, cat: str = "cpu_op",
        **args: Any,
    ) -> Builder:  # fmt: skip
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": thread, "ts": ts, "dur": dur,
             "args": args}
        )  # fmt: skip
        return self

    def call(
        self, name: str, ts: float, dur: float, correlation: int, thread: int = HOST
    ) -> Builder:
        return self.host(name, ts, dur, thread=thread, cat="cuda_runtime", correlation=correlation)

    def kernel(
        self, name: str, ts: float, dur: float, correlation: int, stream: int = 7, device: int = 0,
        cat: str = "kernel", **args: Any,
    ) -> Builder:  # fmt: skip
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": ts,
             "dur": dur, "args": {"device": device, "stream": stream, "correlation": correlation,
                                  **args}}
        )  # fmt: skip
        return self

    def text(self, indent: int | None = None) -> str:
        return json.dumps({**self.head, "traceEvents": self.events}, indent=indent)

    def write(self, path: Path) -> Path:
        path.write_text(self.text())
        return path

    def trace(self, folder: Path) -> Trace:
        return Trace(read_table(self.write(folder / "synthetic.json")))


def training(steps: int = 3) -> Builder:
    """Steps with launches, a copy, a synchronisation and a collective on a stream of its own."""
    made = Builder()
    link = 1
    for step in range(steps):
        base = 1000.0 * step
        made.host(f"ProfilerStep#{step}", base, 1000, cat="user_annotation")
        made.host("aten::mm", base + 10, 40, **{"Input Dims": [[64, 64], [64, 64]]})
        made.call("cudaLaunchKernel", base + 20, 5, link)
        made.kernel("gemm", base + 60, 100, link, grid=[8, 8, 1], block=[128, 1, 1],
                    **{"registers per thread": 64, "shared memory": 1024})  # fmt: skip
        made.host("aten::copy_", base + 60, 20)
        made.call("cudaMemcpyAsync", base + 65, 5, link + 1)
        made.kernel("Memcpy DtoH (Device -> Pinned)", base + 170, 50, link + 1, cat="gpu_memcpy",
                    bytes=1_000_000)  # fmt: skip
        made.host("nccl:all_reduce", base + 90, 20)
        made.call("cudaLaunchKernel", base + 95, 5, link + 2)
        made.kernel("ncclDevKernel_AllReduce", base + 150, 200, link + 2, stream=20)
        made.call("cudaStreamSynchronize", base + 120, 240, link + 3)
        made.host("data loading", base + 400, 500, cat="python_function")
        link += 4
    return made


HOST_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 120), st.integers(1, 3),
        st.sampled_from(["f", "g", "h", "cudaLaunchKernel", "cudaDeviceSynchronize"]),
        st.integers(0, 20),
    ),
    max_size=25,
)  # fmt: skip
DEVICE_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 400), st.integers(0, 60), st.integers(0, 20), st.sampled_from([7, 20]),
        st.sampled_from(["gemm", "ncclKernel", "Memcpy DtoH"]), st.integers(0, 1),
    ),
    min_size=1, max_size=25,
)  # fmt: skip


def random_trace(host: list[tuple[Any, ...]], device: list[tuple[Any, ...]]) -> Trace:
    """A trace of such events."""
    made = Builder()
    for start, length, thread, name, link in host:
        if name.startswith("cuda"):
            made.call(name, start, length, link, thread)
        else:
            made.host(name, start, length, thread=thread)
    for start, length, link, stream, name, number in device:
        category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        made.kernel(name, start, length, link, stream, number, category)
    with tempfile.TemporaryDirectory() as folder:
        return made.trace(Path(folder))
