"""A live OpenCL program on the CPU (PoCL): traced, read back, blamed, advised upon."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import planish
from planish.trace.events import Kind
from planish.trace.idle import Cause

pytestmark = pytest.mark.skipif(
    find_spec("pyopencl") is None, reason="pyopencl is not installed: pip install 'planish[opencl]'"
)

PROGRAM = """
import sys, time
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices()]
if not devices:
    sys.exit(77)
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
code = "__kernel void work(__global float *a, int n) { int i = get_global_id(0);" \\
    " for (int k = 0; k < n; k++) a[i] = sin(a[i] + k); }"
kernel = cl.Kernel(cl.Program(context, code).build(), "work")
data = np.ones(4096, np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, data.nbytes)
cl.enqueue_fill_buffer(queue, buffer, np.float32(0), 0, data.nbytes)
for step in range(3):
    cl.enqueue_copy(queue, buffer, data)
    kernel(queue, data.shape, (64,), buffer, np.int32(100))
    queue.finish()
    time.sleep(0.05)
cl.enqueue_copy(queue, data, buffer)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencl")
    (folder / "program.py").write_text(PROGRAM)
    out = folder / "trace.json"
    done = subprocess.run(
        [sys.executable, "-m", "planish.trace.opencl", "-o", out, folder / "program.py", "3"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("no OpenCL device")
    assert done.returncode == 3, done.stderr
    return out


def test_all_commands_and_calls_are_there(traced: Path) -> None:
    trace = planish.read_trace(traced)
    (kernel,) = trace.kernels()
    assert (kernel.name, kernel.count, kernel.grid, kernel.block) == ("work", 3, 64, 64)
    copies = {row.name: (row.count, row.bytes) for row in trace.copies}
    assert copies == {
        "Memcpy HtoD": (3, 3 * 16384), "Memcpy DtoH": (1, 16384), "Memset": (1, 16384),
    }  # fmt: skip
    assert trace.launches is not None
    assert trace.launches.linked == 8
    called = {trace.strings[i] for i in trace.events.name[trace.events.of_kind(Kind.RUNTIME)]}
    assert {"clEnqueueNDRangeKernel", "clFinish", "clEnqueueCopyBuffer"} <= called


def test_the_clocks_agree(traced: Path) -> None:
    """Nothing starts before its call, and a finish returns behind what it waited for."""
    trace = planish.read_trace(traced)
    events, work = trace.events, trace.work
    slack = 200_000  # nanoseconds: what the alignment may be off on a loaded machine
    assert (work.start >= events.start[work.launch] - slack).all()
    names = [trace.strings[i] for i in events.name]
    finishes = [i for i, name in enumerate(names) if name == "clFinish"]
    kernels = [i for i, name in enumerate(names) if name == "work"]
    for kernel, finish in zip(kernels, finishes, strict=False):
        assert events.end[kernel] <= events.end[finish] + slack


def test_the_sleep_is_found(traced: Path) -> None:
    trace = planish.read_trace(traced)
    idle = trace.idle()
    (row,) = trace.breakdown()
    assert idle.total == row.idle == sum(charged.own for charged in trace.blame())
    assert idle.by_cause()[Cause.NO_WORK] >= 2 * 50_000_000
    # nothing traced ran while it slept; how long calls took beside that is the machine's affair
    assert max(row.own for row in trace.blame() if row.path == ()) >= 2 * 50_000_000
    assert any(advice.rule == "host-bound" for advice in trace.advise())
