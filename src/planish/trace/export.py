"""A trace in other tools' formats: Perfetto (Chrome JSON), speedscope, Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from planish.base.errors import UsageError, unknown
from planish.base.files import write_atomic
from planish.trace.contexts import ROOT
from planish.trace.events import DEVICE_WORK, Kind, Thread
from planish.trace.intervals import distinct
from planish.trace.trace import Trace

_CATEGORY = {
    Kind.HOST_OP: "cpu_op", Kind.PYTHON: "python_function", Kind.ANNOTATION: "user_annotation",
    Kind.RUNTIME: "cuda_runtime", Kind.KERNEL: "kernel", Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset", Kind.DEVICE_ANNOTATION: "gpu_user_annotation",
    Kind.DEVICE_SYNC: "cuda_sync", Kind.SPAN: "Trace", Kind.OVERHEAD: "overhead",
    Kind.COUNTERS: "cuda_profiler_range",
}  # fmt: skip


def export_trace(trace: Trace, out: Path, form: str) -> None:
    """Write `out`; raises UsageError for an unknown format, or one that has nothing to show."""
    writers: dict[str, Callable[[Trace, Path], None]] = {
        "perfetto": _perfetto, "speedscope": _speedscope, "parquet": _parquet,
    }  # fmt: skip
    if form not in writers:
        raise unknown("format", form, writers)
    writers[form](trace, out)


def _perfetto(trace: Trace, out: Path) -> None:
    """Opens in ui.perfetto.dev and chrome://tracing; reads back into the same events."""
    encode = msgspec.json.encode
    body = b",\n".join(encode(event) for event in perfetto_events(trace))
    head: dict[str, Any] = {"schemaVersion": 1}
    if trace.table.rank is not None:
        head["distributedInfo"] = {"rank": trace.table.rank}
    devices = [
        {
            "id": d.index, "name": d.name, "numSms": d.processors,
            "maxThreadsPerMultiprocessor": d.max_threads, "regsPerMultiprocessor": d.registers,
            "sharedMemPerMultiprocessor": d.shared, "warpSize": d.warp,
        }
        for d in trace.table.devices
    ]  # fmt: skip
    if devices:
        head["deviceProperties"] = devices
    text = encode(head)[:-1] + b',"traceEvents":[\n' + body + b"\n]}\n"
    write_atomic(out, text)


def perfetto_events(trace: Trace) -> Iterator[dict[str, Any]]:
    """Metadata, then one complete event for each row."""
    events, strings, threads = trace.events, trace.strings, trace.table.threads
    for thread in threads:
        if thread.name:
            yield {"ph": "M", "name": "thread_name", "pid": thread.process, "tid": thread.thread,
                   "args": {"name": thread.name}}  # fmt: skip
    device_kinds = {int(kind) for kind in DEVICE_WORK}
    columns = zip(
        events.start.tolist(), events.duration.tolist(), events.name.tolist(),
        events.kind.tolist(), events.thread.tolist(), events.device.tolist(),
        events.stream.tolist(), events.correlation.tolist(), events.detail.tolist(),
        events.shape.tolist(), strict=True,
    )  # fmt: skip
    for start, duration, name, kind, place, device, stream, link, detail, shape in columns:
        where = threads[place] if place >= 0 else Thread(0, 0)
        on_device = device >= 0
        args: dict[str, Any] = {}
        if link >= 0:
            args["correlation"] = link
        if on_device:
            args |= {"device": device, "stream": stream}
        if kind in device_kinds and detail >= 0:
            args |= _details(trace, detail)
        if shape >= 0:
            args["Input Dims"] = msgspec.Raw(strings[shape].encode())
        yield {
            "ph": "X", "cat": _CATEGORY.get(Kind(kind), "other"), "name": strings[name],
            "pid": device if on_device else where.process,
            "tid": stream if on_device else where.thread,
            "ts": start / 1000, "dur": duration / 1000, "args": args,
        }  # fmt: skip


def _details(trace: Trace, row: int) -> dict[str, Any]:
    details = trace.table.details
    found: dict[str, Any] = {}
    for key, column in (
        ("bytes", details.bytes), ("registers per thread", details.registers),
        ("shared memory", details.shared),
    ):  # fmt: skip
        if column[row] >= 0:
            found[key] = int(column[row])
    for key, column in (("grid", details.grid), ("block", details.block)):
        if column[row] >= 0:
            found[key] = [int(column[row]), 1, 1]
    occupancy = float(details.occupancy[row])
    if np.isfinite(occupancy) and occupancy >= 0:
        found["est. achieved occupancy %"] = occupancy
    return found


def _speedscope(trace: Trace, out: Path) -> None:
    """The idle blame of each device as a sampled profile (https://www.speedscope.app)."""
    if not trace.devices:
        raise UsageError("no device did anything in this trace", hint="nothing to export")
    tree, strings = trace.host.tree, trace.strings
    names = distinct(tree.name[1:]).tolist()
    frame_of = {name: number for number, name in enumerate(names)}
    nobody = len(names)
    frames = [{"name": strings[name]} for name in names]
    frames.append({"name": "(no thread ran anything that was traced)"})
    profiles = []
    for device in trace.devices:
        own = trace.charges(device).own
        samples, weights = [], []
        for node in np.flatnonzero(own > 0).tolist():
            stack = [nobody] if node == ROOT else []
            weights.append(int(own[node]))
            while node != ROOT:
                stack.append(frame_of[int(tree.name[node])])
                node = int(tree.parent[node])
            samples.append(list(reversed(stack)))
        profiles.append(
            {
                "type": "sampled", "name": f"idle time of device {device}", "unit": "nanoseconds",
                "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights,
            }
        )  # fmt: skip
    text = msgspec.json.encode(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": frames}, "profiles": profiles,
            "name": Path(trace.table.source).name, "exporter": "planish",
        }
    )  # fmt: skip
    write_atomic(out, text)


def _parquet(trace: Trace, out: Path) -> None:
    """The events' columns, names spelled out."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("pyarrow is not installed", hint="pip install pyarrow") from error
    events = trace.events
    columns = {
        name: pyarrow.array(getattr(events, name))
        for name in ("start", "duration", "device", "stream", "correlation")
    }
    for name, codes in (("name", events.name), ("shape", events.shape)):
        index = pyarrow.array(codes, mask=codes < 0)
        columns[name] = pyarrow.DictionaryArray.from_arrays(index, list(trace.strings))
    kinds = pyarrow.array([kind.name.lower() for kind in Kind])
    columns["kind"] = pyarrow.DictionaryArray.from_arrays(pyarrow.array(events.kind), kinds)
    labels = pyarrow.array([thread.label for thread in trace.table.threads] or [""])
    threads = pyarrow.array(events.thread, mask=events.thread < 0)
    columns["thread"] = pyarrow.DictionaryArray.from_arrays(threads, labels)
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    write_atomic(out, sink.getvalue().to_pybytes())
