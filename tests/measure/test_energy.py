"""Energy against simulated meters whose integral is known."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import Builder

from planish.base.errors import UsageError
from planish.cli.main import main
from planish.cli.profile_show import show_profile
from planish.measure.energy import Reading, Sampler, Series, cumulative, energy, used
from planish.measure.meters import Meters, find_meters
from planish.measure.profile import profile, read_samples, write_samples
from planish.trace.energy import joules_by_kernel
from planish.trace.traced import traced_command

S = 1_000_000_000


def sampled(times: list[int], values: list[float], counter: bool, wrap: float = 0.0) -> Series:
    return Series("m", counter, wrap, times, values)


def test_constant_power() -> None:
    series = sampled([0, S, 2 * S, 4 * S], [50.0] * 4, False)
    found = energy(series, S // 2, 3 * S, period=1.0)
    assert found.joules == pytest.approx(125)
    assert found.watts == pytest.approx(50)
    assert found.covered == 1.0


def test_a_ramp_is_integrated_exactly() -> None:
    series = sampled([0, S, 2 * S], [0.0, 10.0, 20.0], False)
    assert energy(series, 0, 2 * S, 1.0).joules == pytest.approx(20)


@given(
    st.lists(st.floats(0, 900), min_size=1, max_size=30), st.floats(1000, 5000),
    st.floats(0, 1000),
)  # fmt: skip
def test_counters_wrap(steps: list[float], wrap: float, first: float) -> None:
    totals = first + np.concatenate(([0], np.cumsum(steps)))
    # a step below half the range cannot be told from a reset; meters are sampled far more often
    series = sampled([i * S for i in range(len(totals))], (totals % wrap).tolist(), True, wrap)
    if max(steps) < wrap / 2:
        _, found = cumulative(series)
        assert found[-1] == pytest.approx(sum(steps), abs=1e-6 * wrap)


def test_a_reset_is_no_wrap() -> None:
    series = sampled([0, S, 2 * S], [100.0, 90.0, 95.0], True, 1000.0)
    assert energy(series, 0, 2 * S, 1.0).joules == pytest.approx(5)


def test_gaps_and_ends_are_known() -> None:
    series = sampled([0, S, 100 * S, 101 * S], [10.0] * 4, False)
    found = energy(series, 0, 101 * S, period=1.0)
    assert found.covered == pytest.approx(2 / 101)
    assert energy(series, 200 * S, 300 * S, 1.0).covered == 0
    assert energy(sampled([], [], False), 0, S, 1.0).joules == 0
    assert used(series, np.array([-5 * S]), np.array([0])).tolist() == [0]


class Fake:
    """A meter of 40 W on a clock that the test owns; every third reading fails."""

    name, is_counter, wraps_at = "fake", True, 3.0

    def __init__(self) -> None:
        self.now, self.count = 0, 0

    def clock(self) -> int:
        return self.now

    def read(self) -> Reading:
        self.count += 1
        if self.count % 3 == 0:
            raise OSError("busy")
        return Reading(40 * self.now / S % self.wraps_at, ("power cap",))


def test_the_sampler() -> None:
    fake = Fake()
    with Sampler([fake], period=3600, clock=fake.clock) as sampler:
        for _ in range(90):
            fake.now += S // 100
            sampler.sample()
    (series,) = sampler.series
    assert series.failed == 30
    assert energy(series, 0, fake.now, 0.01).joules == pytest.approx(36)
    assert series.flags == {"power cap": len(series.times)}


def sysfs(folder: Path) -> tuple[Path, Path]:
    files = {
        "powercap/intel-rapl:0/name": "package-0\n",
        "powercap/intel-rapl:0/max_energy_range_uj": "262143328850",
        "powercap/intel-rapl:0/energy_uj": "5000000",
        "powercap/intel-rapl:0:0/name": "core\n",
        "powercap/intel-rapl:0:0/max_energy_range_uj": "1",
        "powercap/intel-rapl:0:0/energy_uj": "1",
        "hwmon/hwmon0/name": "coretemp",
        "hwmon/hwmon1/name": "amdgpu",
        "hwmon/hwmon1/power1_average": "75000000",
        "hwmon/hwmon2/name": "broken",
        "hwmon/hwmon2/power1_input": "none",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "powercap", folder / "hwmon"


class NvmlError(Exception):
    pass


def nvml(old: bool) -> Any:
    def counter(_: object) -> int:
        if old:
            raise NvmlError("not supported")
        return 123_000

    def busy(_: object) -> SimpleNamespace:
        if old:
            raise NvmlError("not supported")
        return SimpleNamespace(gpu=40)

    return SimpleNamespace(
        NVMLError=NvmlError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda i: i, nvmlDeviceGetTotalEnergyConsumption=counter,
        nvmlDeviceGetPowerUsage=lambda h: 250_000,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda h: 0x44,
        nvmlDeviceGetUtilizationRates=busy, nvmlDeviceGetClockInfo=lambda h, kind: 1410,
    )  # fmt: skip


@pytest.mark.parametrize("old", [False, True])
def test_meters(tmp_path: Path, old: bool) -> None:
    found = find_meters(*sysfs(tmp_path), nvml=nvml(old))
    assert [source.name for source in found.sources] == [
        "intel-rapl:0 package-0", "hwmon1 amdgpu power1", "gpu 0",
    ]  # fmt: skip
    package, amd, gpu = found.sources
    assert package.read().value == 5.0
    assert package.wraps_at == pytest.approx(262143.32885)
    assert amd.read().value == 75.0
    assert gpu.is_counter is not old
    assert gpu.read() == Reading(
        250.0 if old else 123.0, ("power cap", "thermal slowdown (hardware)"),
        None if old else 0.4, 1410.0,
    )  # fmt: skip
    assert len(found.missing) == 1


def test_a_program_is_run(tmp_path: Path) -> None:
    fake = Fake()
    found = profile(
        [sys.executable, "-c", "raise SystemExit(7)"], 0.01, Meters((fake,), ("rapl: no rights",))
    )
    assert found.code == 7
    assert found.to_json()["meters"][0]["name"] == "fake"
    write_samples(found, tmp_path / "s.json")
    period, series = read_samples(tmp_path / "s.json")
    assert (period, series) == (0.01, list(found.series))
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(UsageError, match="no energy samples"):
        read_samples(tmp_path / "bad.json")
    with pytest.raises(UsageError, match="cannot start"):
        profile(["/no/such/program"], 0.01, Meters((), ()))


def test_how_busy_a_gpu_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_meters(tmp_path, tmp_path, nvml=nvml(False))
    row = profile([sys.executable, "-c", ""], 0.01, found)
    assert row.to_json()["meters"][0]["utilisation"] == pytest.approx(0.4)
    show_profile(row)
    assert "busy 40% of the time" in capsys.readouterr().err
    old = profile([sys.executable, "-c", ""], 0.01, find_meters(tmp_path, tmp_path, nvml(True)))
    assert old.to_json()["meters"][0]["utilisation"] is None


def test_processor_time_and_memory_are_the_programs() -> None:
    busy = "data = bytearray(100_000_000)\nimport time\n" \
           "while time.process_time() < 0.2: pass"  # fmt: skip
    found = profile([sys.executable, "-c", busy], 0.01, Meters((), ()))
    assert 0.2 <= found.cpu < 5
    assert found.utilisation == pytest.approx(found.cpu / found.seconds)
    assert found.memory > 100e6


def test_kernels_share_the_energy(tmp_path: Path) -> None:
    made = Builder()
    made.kernel("a", 0, 100, 1).kernel("b", 50, 100, 2, stream=9).kernel("c", 200, 100, 3)
    with tempfile.TemporaryDirectory() as folder:
        trace = made.trace(Path(folder))
    series = sampled([0, 300_000], [100.0, 100.0], False)
    rows = {row.what: row for row in joules_by_kernel(trace, series, 0)}
    assert rows["a"].joules == pytest.approx(100 * 75e-6)
    assert rows["b"].joules == pytest.approx(100 * 75e-6)
    assert rows["(idle)"].joules == pytest.approx(100 * 50e-6)
    assert sum(row.joules for row in rows.values()) == pytest.approx(100 * 300e-6)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["profile", "--json", "--", sys.executable, "-c", ""])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["code"] == 0
    with pytest.raises(SystemExit) as ended:
        main(["profile"])
    assert ended.value.code == 2
    assert "behind --" in capsys.readouterr().err
    made = Builder().host("ProfilerStep#1", 0, 300, cat="user_annotation").kernel("a", 0, 300, 1)
    path = made.write(tmp_path / "t.json")
    rows = [{"name": "gpu 0", "is_counter": False, "times": [0, 300_000], "values": [90.0, 90.0]}]
    (tmp_path / "e.json").write_text(json.dumps({"version": 1, "period": 1.0, "series": rows}))
    main(["trace", str(path), "--energy", str(tmp_path / "e.json"), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["energy"]
    assert found["steps"][0]["joules"] == pytest.approx(0.027)
    assert found["kernels"][0]["what"] == "a"
    main(["trace", str(path), "--energy", str(tmp_path / "e.json")])
    assert "energy of gpu 0" in capsys.readouterr().out


class AmdGpus:
    """AMD SMI as its package shows it: two GPUs, one with a counter, one with power only."""

    class AmdSmiException(Exception):
        pass

    def __init__(self, counters: list[float], watts: list[object]) -> None:
        self.counters, self.watts = iter(counters), iter(watts)

    def amdsmi_init(self) -> None:
        pass

    def amdsmi_get_processor_handles(self) -> list[str]:
        return ["counter", "power"]

    def amdsmi_get_energy_count(self, handle: str) -> dict[str, float]:
        if handle == "power":
            raise self.AmdSmiException("not supported")
        return {"energy_accumulator": next(self.counters), "counter_resolution": 15.3}

    def amdsmi_get_power_info(self, handle: str) -> dict[str, object]:
        return {"current_socket_power": "N/A", "average_socket_power": next(self.watts)}

    def amdsmi_get_violation_status(self, handle: str) -> dict[str, object]:
        return {"active_ppt_pwr": handle == "counter", "active_vr_thrm": "N/A"}


def test_amd_gpus_with_a_known_integral(tmp_path: Path) -> None:
    ticks = [1000 + 100_000 * i for i in range(12)]
    gpus = AmdGpus([float(t) for t in ticks], [300.0] * 12)
    chip = tmp_path / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("amdgpu\n")
    (chip / "power1_average").write_text("300000000\n")
    found = find_meters(tmp_path / "none", tmp_path / "hwmon", SimpleNamespace(
        NVMLError=OSError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 0), gpus)  # fmt: skip
    # what AMD SMI shows is not counted again from hwmon
    assert [s.name for s in found.sources] == ["gpu 0", "gpu 1"]
    now = iter(range(0, 100 * S, S // 2))
    sampler = Sampler(found.sources, 1000.0, lambda: next(now))
    for _ in range(4):
        sampler.sample()
    sampler.close()
    counter, power = sampler.series
    steps = len(counter.times) - 1
    spent = energy(counter, counter.times[0], counter.times[-1], 1000.0)
    assert spent.joules == pytest.approx(steps * 100_000 * 15.3e-6)
    length = power.times[-1] - power.times[0]
    assert energy(power, power.times[0], power.times[-1], 1000.0).joules == pytest.approx(
        300.0 * length / S
    )
    assert counter.flags == {"power cap": len(counter.times)}
    assert power.flags == {}


def test_amd_gpus_that_know_nothing(tmp_path: Path) -> None:
    gpus = AmdGpus([], ["N/A"])
    gpus.amdsmi_get_processor_handles = lambda: ["power"]  # type: ignore[method-assign]
    found = find_meters(tmp_path, tmp_path, SimpleNamespace(
        NVMLError=OSError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 0), gpus)  # fmt: skip
    assert found.sources == ()
    assert "knows no power" in found.missing[0]


def test_hwmon_power_and_energy_with_a_known_integral(tmp_path: Path) -> None:
    for number, (name, file) in enumerate((("cpu", "power1_input"), ("board", "energy1_input"))):
        chip = tmp_path / f"hwmon{number}"
        chip.mkdir()
        (chip / "name").write_text(name)
        (chip / file).write_text("0")
    found = find_meters(tmp_path / "none", tmp_path)
    assert [s.is_counter for s in found.sources] == [False, True]
    now = iter(range(0, 100 * S, S // 2))
    sampler = Sampler(found.sources, 1000.0, lambda: next(now))
    for step in range(1, 9):  # watts rise by 10 a sample; the counter by 3 J
        (tmp_path / "hwmon0" / "power1_input").write_text(str(10_000_000 * step))
        (tmp_path / "hwmon1" / "energy1_input").write_text(str(3_000_000 * step))
        sampler.sample()
    sampler.close()
    power, counter = sampler.series
    apart = (power.times[1] - power.times[0]) / S
    wanted = sum((10 * i + 10 * (i + 1)) / 2 * apart for i in range(8))
    assert energy(power, power.times[0], power.times[8], 1000.0).joules == pytest.approx(wanted)
    assert energy(counter, counter.times[0], counter.times[8], 1000.0).joules == pytest.approx(24)


def test_the_command_line_of_a_traced_program(capsys: pytest.CaptureFixture[str]) -> None:
    made = traced_command(["/usr/bin/python3.11", "a.py", "-x"], Path("t.json"))
    assert made[1:] == ["-m", "planish.trace.opencl", "-o", "t.json", "a.py", "-x"]
    for words in (["ls", "a.py"], ["python"], ["python", "-c", "1"]):
        with pytest.raises(SystemExit) as ended:
            main(["profile", "--opencl", "t.json", "--", *words])
        assert ended.value.code == 2
        assert "no Python script" in capsys.readouterr().err
