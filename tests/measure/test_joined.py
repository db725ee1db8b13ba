"""Energy, throttling and clocks of simulated devices, joined to steps, kernels and call paths."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.traces import Builder

from planish.cli.main import main
from planish.cli.profile_show import show_profile
from planish.measure.energy import Sampler, Series, clocks, limited
from planish.measure.meters import Meters, Nvml, find_meters
from planish.measure.profile import Profile, profile, read_samples, write_samples
from planish.trace.energy import IDLE, joules_by_context, joules_by_kernel, joules_by_step

MS = 1_000_000  # nanoseconds


class NvmlError(Exception):
    pass


class Gpu:
    """A GPU on a clock that the test owns: power, MHz and throttling as functions of time.

    Its energy counter is the exact integral of its power, in whole millijoules, as NVML's is.
    """

    NVMLError = NvmlError

    def __init__(self, pieces: list[tuple[int, float, float, int]]) -> None:
        self.pieces = pieces  # end in nanoseconds, watts, MHz, reasons
        self.now = 0

    def _piece(self) -> tuple[int, float, float, int]:
        return next((p for p in self.pieces if self.now < p[0]), self.pieces[-1])

    def joules(self, end: int) -> float:
        total, begin = 0.0, 0
        for finish, watts, _, _ in self.pieces:
            total += watts * max(0, min(end, finish) - begin) * 1e-9
            begin = finish
        return total

    def nvmlDeviceGetTotalEnergyConsumption(self, _: object) -> int:  # noqa: N802
        return round(self.joules(self.now) * 1000)

    def nvmlDeviceGetPowerUsage(self, _: object) -> int:  # noqa: N802
        return round(self._piece()[1] * 1000)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: object) -> int:  # noqa: N802
        return self._piece()[3]

    def nvmlDeviceGetClockInfo(self, _: object, kind: int) -> float:  # noqa: N802
        assert kind == 1  # the multiprocessors' clock
        return self._piece()[2]

    def nvmlDeviceGetUtilizationRates(self, _: object) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=100)


def sampled(gpu: Gpu, period: int, end: int, *, counter: bool = True) -> Series:
    """The series of a run from 0 to `end`, sampled every `period` nanoseconds."""
    meter = Nvml("gpu 0", gpu, None, counter)
    with Sampler([meter], period=3600, clock=lambda: gpu.now) as sampler:
        while gpu.now < end:
            gpu.now += period
            sampler.sample()
    return sampler.series[0]


def steps(length: int, count: int) -> Builder:
    """Steps of `length` ms; in each the forward pass launches a kernel, then the backward pass."""
    made, link = Builder(), 1
    for step in range(count):
        base = 1000.0 * length * step
        made.host(f"ProfilerStep#{step}", base, 1000 * length, cat="user_annotation")
        for name, offset, part in (("forward", 0, 0.25), ("backward", 0.5, 0.25)):
            begin = base + 1000 * length * offset
            made.host(name, begin, 1000 * length * part)
            made.call("cudaLaunchKernel", begin, 5, link)
            made.kernel(f"{name}_kernel", begin, 1000 * length * part, link)
            link += 1
    return made


THROTTLED = [(400 * MS, 300.0, 1980.0, 0), (800 * MS, 200.0, 1410.0, 0x04),
             (1200 * MS, 300.0, 1980.0, 0)]  # fmt: skip


@pytest.mark.parametrize("counter", [True, False])
def test_joules_of_a_step_with_what_held_it_back(tmp_path: Path, counter: bool) -> None:
    series = sampled(Gpu(THROTTLED), 2 * MS, 1200 * MS, counter=counter)
    rows = joules_by_step(steps(400, 3).trace(tmp_path), series)
    assert [row.joules for row in rows] == pytest.approx([120, 80, 120], abs=0.2)
    assert [row.time for row in rows] == [400 * MS] * 3
    assert [row.flags for row in rows] == [
        (), ("power cap", "clock 1,410 of 1,980 MHz"), (),
    ]  # fmt: skip


def test_joules_by_kernel_context_and_idleness_sum_to_the_whole(tmp_path: Path) -> None:
    gpu = Gpu(THROTTLED)
    series = sampled(gpu, MS, 1200 * MS)
    trace = steps(400, 3).trace(tmp_path)
    end = trace.span[1]  # the last kernel's: the last step's end
    kernels = {row.what: row for row in joules_by_kernel(trace, series, 0)}
    paths = {row.what: row for row in joules_by_context(trace, series, 0)}
    whole = gpu.joules(1100 * MS)
    assert end == 1200 * MS
    for rows in (kernels, paths):
        assert sum(row.joules for row in rows.values()) == pytest.approx(whole, abs=0.05)
    for part in ("forward", "backward"):
        path = f"ProfilerStep > {part} > cudaLaunchKernel"
        assert paths[path].joules == pytest.approx(kernels[f"{part}_kernel"].joules)
        assert paths[path].joules == pytest.approx(30 + 20 + 30, abs=0.05)
        assert paths[path].time == 300 * MS
    assert paths[IDLE].joules == pytest.approx(kernels[IDLE].joules)


def test_a_meter_of_the_host_is_shared_among_the_threads_that_run(tmp_path: Path) -> None:
    made = Builder().kernel("k", 0, 1, 1)
    made.host("one", 0, 400_000).host("two", 200_000, 400_000, thread=2)
    made.host("<built-in method acquire of _thread.lock object>", 0, 600_000, thread=3)
    series = Series("intel-rapl:0 package-0", False, times=[0, 800 * MS], values=[50.0, 50.0])
    rows = {row.what: row.joules for row in joules_by_context(made.trace(tmp_path), series, None)}
    # 0-200 ms one alone, 200-400 both, 400-600 two alone; who waits for a lock uses nothing
    assert rows["one"] == pytest.approx(50 * 0.3)
    assert rows["two"] == pytest.approx(50 * 0.3)
    assert set(rows) == {"one", "two", IDLE}


def test_an_event_without_a_launch_has_no_context(tmp_path: Path) -> None:
    made = Builder().kernel("k", 0, 1000, 1)
    series = Series("gpu 0", False, times=[0, MS], values=[100.0, 100.0])
    (row, idle) = joules_by_context(made.trace(tmp_path), series, 0)
    assert (row.what, row.joules) == ("(launch not traced)", pytest.approx(0.1))
    assert (idle.what, idle.joules) == (IDLE, 0.0)


def test_clock_changes() -> None:
    def series(*mhz: float) -> Series:
        return Series("gpu 0", True, times=list(range(len(mhz))), clocks=list(mhz))

    steady = clocks(series(1980, 1980, 1975, 1980))
    assert steady is not None
    assert (steady.changes, steady.slow) == (0, 0.0)
    fell = clocks(series(1980, 1980, 1410, 1410, 0, 1980))
    assert fell is not None
    assert (fell.least, fell.most, fell.changes) == (1410, 1980, 2)
    assert fell.slow == pytest.approx(2 / 5)  # the sample that knew no clock does not count
    assert clocks(series(0, 0)) is None
    assert clocks(series()) is None


def test_a_short_stretch_takes_the_nearest_sample() -> None:
    series = Series("g", True, times=[0, 100, 200], limits=["", "power cap; power brake", ""],
                    clocks=[1980, 1000, 1980])  # fmt: skip
    assert limited(series, 120, 130) == ("power cap", "power brake", "clock 1,000 of 1,980 MHz")
    assert limited(series, 10, 20) == ()
    assert limited(Series("g", True), 0, 10) == ()
    # samples of an older version know neither
    assert limited(Series("g", True, times=[0, 100]), 0, 100) == ()


def a_run(gpu: Gpu, series: Series) -> Profile:
    found = profile(["true"], 0.05, Meters((), ()))
    return replace(found, series=(series,), energy=found.energy, period=0.002)


def test_from_samples_to_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = Gpu(THROTTLED)
    series = sampled(gpu, 2 * MS, 1200 * MS)
    write_samples(a_run(gpu, series), tmp_path / "energy.json")
    assert read_samples(tmp_path / "energy.json")[1] == [series]
    trace = steps(400, 3).write(tmp_path / "t.json")
    main(["trace", str(trace), "--energy", str(tmp_path / "energy.json"), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["energy"]
    assert found["flags"] == ["power cap", *found["flags"][1:]]
    assert found["steps"][1]["flags"] == ["power cap", "clock 1,410 of 1,980 MHz"]
    assert [row["what"][:12] for row in found["contexts"]] == ["(idle)", *["ProfilerStep"] * 2]
    main(["trace", str(trace), "--energy", str(tmp_path / "energy.json")])
    out = capsys.readouterr().out
    assert "held back: power cap" in out
    (line,) = [text for text in out.splitlines() if "step 1 " in text]
    assert line.split()[:4] == ["80.00", "400.00", "ms", "200"]
    assert "(power cap; clock 1,410 of 1,980 MHz)" in line


def test_a_program_on_a_device_whose_clock_falls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    gpu: Any = Gpu(THROTTLED)
    # the device's clock falls a tenth of a second after the program has begun
    gpu._piece = lambda: (0, 100.0, 1980.0 if time.monotonic() - begun < 0.1 else 990.0, 0x40)
    more = SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 1,
                           nvmlDeviceGetHandleByIndex=lambda i: i)  # fmt: skip
    vars(gpu).update(vars(more))
    found = profile(["sleep", "0.4"], 0.01, find_meters(tmp_path, tmp_path, gpu))
    clock = found.to_json()["meters"][0]["clock"]
    assert (clock["least"], clock["most"], clock["changes"]) == (990.0, 1980.0, 1)
    show_profile(found)
    out = capsys.readouterr().err
    assert "clock changed 1 times: 990 to 1,980 MHz" in out
    assert "thermal slowdown (hardware) in" in out


def test_an_amd_gpus_clock(tmp_path: Path) -> None:
    mhz = 2100
    amd = SimpleNamespace(
        AmdSmiException=NvmlError, AmdSmiClkType=SimpleNamespace(GFX="gfx"),
        amdsmi_init=lambda: None, amdsmi_get_processor_handles=lambda: ["gpu"],
        amdsmi_get_energy_count=lambda h: {"energy_accumulator": 1.0, "counter_resolution": 1.0},
        amdsmi_get_clock_info=lambda h, kind: {"clk": mhz if kind == "gfx" else 0},
    )  # fmt: skip
    none = SimpleNamespace(NVMLError=NvmlError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 0)
    (meter,) = find_meters(tmp_path, tmp_path, none, amd).sources
    assert meter.read().clock == mhz
    amd.amdsmi_get_clock_info = lambda h, kind: {"clk": "N/A"}
    assert meter.read().clock == 0
