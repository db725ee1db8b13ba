"""Rows of AMD's, Meta's and other devices: the same analyses as for NVIDIA's.

Categories and names are Kineto's (libkineto, ActivityType); the layout of AMD's rows is that of a
real trace of an MI300.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import HOST, Builder

from planish.trace.events import Kind
from planish.trace.idle import Cause
from planish.trace.trace import Trace
from planish.trace.work import Work

MTIA_LAUNCH = "runFunction - job_prep_and_submit_for_execution"


def mtia() -> Builder:
    """Two jobs and a collective, each submitted from the host."""
    made = Builder(head={"distributedInfo": {"backend": "mtia:hccl", "rank": 3}})
    for link, (name, at) in enumerate((("gemm", 0), ("hccl_all_reduce", 100), ("relu", 220)), 1):
        made.host(f"aten::{name}", at, 30)
        made.host(MTIA_LAUNCH, at + 10, 20, cat="mtia_runtime", correlation=link)
        made.kernel(name, at + 40, 50, link, stream=1, cat="mtia_ccp_events")
    return made


def test_mtia_rows(tmp_path: Path) -> None:
    trace = mtia().trace(tmp_path)
    assert trace.table.format == "kineto"
    assert trace.table.rank == 3
    (row,) = trace.breakdown()
    assert (row.busy, row.compute, row.communication) == (150_000, 100_000, 50_000)
    assert {k.name: k.work for k in trace.kernels()}["gemm"] == Work.COMPUTE
    assert trace.launches is not None
    assert trace.launches.linked == 3
    # 90-100 nothing, 100-110 the operation, 110-130 its launch, 130-140 latency; and once more
    assert trace.idle().by_cause() == {
        Cause.LAUNCHING: 40_000, Cause.NO_WORK: 40_000, Cause.HOST_BUSY: 20_000,
        Cause.LAUNCH_LATENCY: 20_000,
    }  # fmt: skip
    paths = {charged.path for charged in trace.blame()}
    assert ("aten::relu", MTIA_LAUNCH) in paths
    assert trace.what_if("gemm", faster=2).speedup >= 1


def amd(number: int = 2) -> Builder:
    """Kernels on a device that the process calls 0 and the profiler `number`."""
    made = Builder(head={"deviceProperties": [
        {"id": 0, "name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64},
    ]})  # fmt: skip
    calls = [
        ("hipLaunchKernel", [2432, 1, 1], [512, 1, 1]),
        ("hipExtModuleLaunchKernel", [17920, 2, 1], [256, 1, 1]),  # threads, not blocks
        ("hipModuleLaunchKernel", [608, 1, 1], [256, 1, 1]),
    ]
    for link, (call, grid, block) in enumerate(calls, start=1):
        made.host(call, 100 * link, 10, cat="cuda_runtime", correlation=link, grid=grid,
                  block=block, **{"shared memory": 64 * link})  # fmt: skip
        # the kernel repeats the numbers of its call
        made.kernel(f"k{link}", 100 * link + 15, 50, link, stream=0, device=number, grid=grid,
                    block=block)  # fmt: skip
    made.host("hipMemcpyWithStream", 400, 10, cat="cuda_runtime", correlation=9)
    made.kernel("Memcpy HtoD (Host -> Device)", 415, 20, 9, device=number, cat="gpu_memcpy",
                bytes=4000)  # fmt: skip
    made.host("hipDeviceSynchronize", 420, 30, cat="cuda_runtime", correlation=10)
    return made.kernel("ncclDevKernel_Generic_1", 460, 40, 11, stream=1, device=number)


def test_amd_rows_take_the_geometry_of_their_launch(tmp_path: Path) -> None:
    trace = amd().trace(tmp_path)
    found = {k.name: (k.grid, k.block, k.shared) for k in trace.kernels()}
    assert found["k1"] == (2432, 512, 64)
    assert found["k2"] == (70 * 2, 256, 128)
    assert found["k3"] == (608, 256, 192)
    assert found["ncclDevKernel_Generic_1"][0] == -1
    (row,) = trace.breakdown()
    assert (row.compute, row.communication, row.copy) == (150_000, 40_000, 20_000)
    assert trace.copies[0].bandwidth == pytest.approx(4000 / 20e-6)
    assert trace.graph.awaited.max() >= 0  # hipDeviceSynchronize waits for the copy


def test_the_only_device_is_the_one_that_the_properties_are_of(tmp_path: Path) -> None:
    trace = amd().trace(tmp_path)
    assert trace.devices == [2]
    (device,) = trace.table.devices
    assert (device.index, device.name, device.processors) == (2, "AMD Instinct MI300X", 304)
    assert any("taken for 2's" in str(note) for note in trace.notes)
    same = amd(0).trace(tmp_path)
    assert not any("taken for" in str(note) for note in same.notes)
    two = amd(1)
    two.kernel("elsewhere", 600, 10, 20, device=3)
    assert two.trace(tmp_path).table.devices[0].index == 0


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("glow_runtime", Kind.RUNTIME), ("hpu_op", Kind.RUNTIME), ("xpu_driver", Kind.RUNTIME),
        ("privateuse1_driver", Kind.RUNTIME), ("CUDA_RUNTIME", Kind.RUNTIME),
        ("cuda_event", Kind.DEVICE_SYNC), ("kernel", Kind.KERNEL), ("Memcpy", Kind.MEMCPY),
        ("something new", Kind.OTHER),
    ],
)  # fmt: skip
def test_categories(tmp_path: Path, category: str, kind: Kind) -> None:
    made = Builder().host("x", 0, 10, cat=category, thread=HOST)
    trace: Trace = made.trace(tmp_path)
    assert trace.events.kind.tolist() == [kind]


def test_the_real_amd_trace(real_traces: Path) -> None:
    trace = Trace.read(real_traces / "traces" / "kineto-mi300-qwen.json.gz")
    # launches before the trace began have none; the others' were multiples of 256 threads
    grids = [k.grid for k in trace.kernels() if k.name.startswith("Cijk") and k.grid >= 0]
    assert grids
    assert all(0 < grid < 5000 for grid in grids)
    assert trace.table.devices[0].name.startswith("AMD Instinct MI300X")
