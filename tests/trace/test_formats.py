"""rocprofv3 and Nsight Systems: small files of their layout."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from planish.base.errors import TraceError
from planish.trace.events import Kind
from planish.trace.read import read_table
from planish.trace.trace import Trace


def rocprof() -> dict[str, Any]:
    """Two GPUs, a kernel, a copy and the call that launched the kernel."""
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 9},
                "agents": [
                    {"id": {"handle": 1}, "type": 1, "name": "cpu"},
                    {"id": {"handle": 2}, "type": 2, "product_name": "MI300", "cu_count": 304,
                     "wave_front_size": 64, "max_waves_per_cu": 32, "lds_size_in_kb": 64},
                    {"id": {"handle": 3}, "type": 2, "name": "gfx942"},
                ],
                "strings": {
                    "buffer_records": [
                        {"kind": "NONE", "operations": []},
                        {"kind": "HIP", "operations": ["hipMalloc", "hipLaunchKernel"]},
                        {"kind": "COPY", "operations": ["NONE", "HOST_TO_DEVICE"]},
                    ]
                },
                "kernel_symbols": [
                    {"kernel_id": 8, "kernel_name": "_Z4gemm", "arch_vgpr_count": 96,
                     "formatted_kernel_name": 'gemm<"x">({int}, {int})'}
                ],
                "buffer_records": {
                    "kernel_dispatch": [
                        {"thread_id": 5, "correlation_id": {"internal": 77},
                         "start_timestamp": 2000, "end_timestamp": 5000,
                         "dispatch_info": {"agent_id": {"handle": 3}, "queue_id": {"handle": 4},
                                           "kernel_id": 8, "group_segment_size": 512,
                                           "workgroup_size": {"x": 64, "y": 2, "z": 1},
                                           "grid_size": {"x": 130, "y": 4, "z": 1}}}
                    ],
                    "hip_api": [
                        {"thread_id": 5, "correlation_id": {"internal": 77}, "kind": 1,
                         "operation": 1, "start_timestamp": 1000, "end_timestamp": 1500}
                    ],
                    "memory_copy": [
                        {"thread_id": 5, "correlation_id": {"internal": 78}, "kind": 2,
                         "operation": 1, "start_timestamp": 6000, "end_timestamp": 7000,
                         "dst_agent_id": {"handle": 2}, "bytes": 4096}
                    ],
                },
            }
        ]
    }  # fmt: skip


def test_rocprof(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(rocprof()))
    table = read_table(path)
    assert table.format == "rocprofv3"
    assert [device.name for device in table.devices] == ["MI300", "gfx942"]
    kernel = int(table.events.of_kind(Kind.KERNEL)[0])
    detail = int(table.events.detail[kernel])
    assert table.strings[table.events.name[kernel]] == 'gemm<"x">({int}, {int})'
    assert int(table.events.device[kernel]) == 1
    assert int(table.details.grid[detail]) == 3 * 2
    assert int(table.details.block[detail]) == 128
    trace = Trace(table)
    assert trace.launches is not None
    assert trace.launches.linked == 1
    assert trace.copies[0].name == "HOST_TO_DEVICE"
    assert trace.copies[0].bytes == 4096


def test_rocprof_cut_short(tmp_path: Path) -> None:
    text = json.dumps(rocprof())
    for length in (len(text) - 20, text.index("end_timestamp")):
        path = tmp_path / "r.json"
        path.write_text(text[:length])
        with pytest.raises(TraceError, match="byte"):
            read_table(path)
        read_table(path, salvage=True)


def nsys(path: Path) -> None:
    """One kernel, one copy, one call, one range: the columns that the reader uses."""
    with closing(sqlite3.connect(path)) as base, base:
        base.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'saxpy(int)'),
                (3, 'main thread');
            CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,
                globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
                gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
                blockZ INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER,
                copyKind INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
                globalTid INTEGER);
            """)
        tid = (7 << 24) | 8
        base.execute("INSERT INTO ThreadNames VALUES (3, 0, ?)", (tid,))
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, ?, 5, 1)", (tid,))
        base.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL"
            " VALUES (30, 90, 0, 7, 5, 0, 2, 4, 2, 1, 32, 1, 1)"
        )
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 0, 7, 6, 0, 999, 2)")
        base.execute("INSERT INTO NVTX_EVENTS VALUES (5, 300, 59, 'range', ?)", (tid,))
        base.execute("INSERT INTO NVTX_EVENTS VALUES (6, NULL, 34, 'mark', ?)", (tid,))


def test_nsys(tmp_path: Path) -> None:
    nsys(tmp_path / "n.sqlite")
    trace = Trace.read(tmp_path / "n.sqlite")
    assert trace.table.format == "nsys"
    assert [trace.strings[i] for i in trace.events.name] == [
        "range", "cudaLaunchKernel", "saxpy(int)", "Memcpy DtoH",
    ]  # fmt: skip
    assert trace.table.threads[int(trace.events.thread[1])].label == "main thread (7/8)"
    assert trace.kernels()[0].grid == 8
    assert trace.copies[0].bytes == 999
    assert [str(note) for note in trace.notes] == ["NVTX marks and open ranges"]


def test_other_and_damaged_databases(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as base, base:
        base.execute("CREATE TABLE t (x)")
    with pytest.raises(TraceError, match="not of Nsight"):
        read_table(tmp_path / "other.sqlite")
    nsys(tmp_path / "n.sqlite")
    data = (tmp_path / "n.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(data[: len(data) // 2])
    with pytest.raises(TraceError, match="damaged"):
        read_table(tmp_path / "cut.sqlite")
