"""The meters of this machine: RAPL and hwmon from /sys, GPUs through NVML and AMD SMI.

RAPL: Linux, Documentation/power/powercap. hwmon: Documentation/hwmon/sysfs-interface; AMD's GPUs
show their power there without root. NVML needs the package nvidia-ml-py, AMD SMI the package
amdsmi that ROCm brings.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planish.measure.energy import Reading, Source

POWERCAP, HWMON = Path("/sys/class/powercap"), Path("/sys/class/hwmon")
_MICRO = 1e-6
_MILLI = 1e-3
# nvmlClocksThrottleReasons: those that mean that the device could not run as fast as asked
_THROTTLED = {
    0x04: "power cap", 0x08: "hardware slowdown", 0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)", 0x80: "power brake",
}  # fmt: skip


_NVML_CLOCK_SM = 1


@dataclass(frozen=True)
class FileMeter:
    """One file of /sys with micro-joules (counter) or micro-watts."""

    name: str
    path: Path
    is_counter: bool
    wraps_at: float = 0.0

    def read(self) -> Reading:
        """Raises OSError where the file cannot be read or holds no number."""
        text = self.path.read_text()
        try:
            return Reading(int(text) * _MICRO)
        except ValueError as error:
            raise OSError(f"{self.path} holds {text!r}") from error


@dataclass(frozen=True)
class Nvml:
    """One NVIDIA GPU: its energy counter where it has one (Volta and later), else its power."""

    name: str
    library: Any
    handle: Any
    is_counter: bool
    wraps_at: float = 0.0

    def read(self) -> Reading:
        """Raises OSError where NVML does not answer."""
        try:
            if self.is_counter:
                value = self.library.nvmlDeviceGetTotalEnergyConsumption(self.handle) * _MILLI
            else:
                value = self.library.nvmlDeviceGetPowerUsage(self.handle) * _MILLI
            reasons = int(self.library.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle))
        except self.library.NVMLError as error:
            raise OSError(f"NVML: {error}") from error
        flags = tuple(words for bit, words in _THROTTLED.items() if reasons & bit)
        return Reading(value, flags, self._busy(), self._clock())

    def _clock(self) -> float:
        try:
            return float(self.library.nvmlDeviceGetClockInfo(self.handle, _NVML_CLOCK_SM))
        except self.library.NVMLError:
            return 0.0

    def _busy(self) -> float | None:
        """The share of time in which a kernel ran; MIG instances and old drivers have none."""
        try:
            return float(self.library.nvmlDeviceGetUtilizationRates(self.handle).gpu) / 100
        except self.library.NVMLError:
            return None


@dataclass(frozen=True)
class AmdSmi:
    """One AMD GPU through AMD SMI: its energy counter where it has one, else its power."""

    name: str
    library: Any
    handle: Any
    is_counter: bool
    wraps_at: float = 0.0

    def read(self) -> Reading:
        """Raises OSError where AMD SMI does not answer, or says that it does not know."""
        try:
            if self.is_counter:
                value = _amd_joules(self.library.amdsmi_get_energy_count(self.handle))
            else:
                value = _amd_watts(self.library.amdsmi_get_power_info(self.handle))
            flags = self._throttled()
        except self.library.AmdSmiException as error:
            raise OSError(f"AMD SMI: {error}") from error
        return Reading(value, flags, self._busy(), self._clock())

    def _clock(self) -> float:
        ask = getattr(self.library, "amdsmi_get_clock_info", None)
        if ask is None:
            return 0.0
        try:
            found: Any = ask(self.handle, self.library.AmdSmiClkType.GFX)
        except self.library.AmdSmiException:
            return 0.0
        clock: Any = found.get("clk", found.get("cur_clk"))  # the key has changed once
        return float(clock) if _is_number(clock) else 0.0

    def _busy(self) -> float | None:
        ask = getattr(self.library, "amdsmi_get_gpu_activity", None)
        try:
            share: Any = ask(self.handle).get("gfx_activity") if ask is not None else None
        except self.library.AmdSmiException:
            return None
        return float(share) / 100 if _is_number(share) else None

    def _throttled(self) -> tuple[str, ...]:
        """What AMD SMI says of violations; GPUs and versions without it have none to tell."""
        ask = getattr(self.library, "amdsmi_get_violation_status", None)
        if ask is None:
            return ()
        try:
            found = ask(self.handle)
        except self.library.AmdSmiException:
            return ()
        return tuple(words for key, words in _VIOLATIONS.items() if found.get(key) is True)


_VIOLATIONS = {
    "active_ppt_pwr": "power cap", "active_socket_thrm": "thermal slowdown (socket)",
    "active_vr_thrm": "thermal slowdown (regulator)", "active_hbm_thrm": "thermal slowdown (HBM)",
    "active_prochot_thrm": "hardware slowdown",
}  # fmt: skip


def _amd_joules(found: dict[str, Any]) -> float:
    """The counter in joules: ticks of so many micro-joules. Its name has changed once."""
    ticks: Any = found.get("energy_accumulator", found.get("power"))
    unit: Any = found.get("counter_resolution")
    if not _is_number(ticks) or not _is_number(unit):
        raise OSError("AMD SMI knows no energy counter")
    return float(ticks) * float(unit) * _MICRO


def _amd_watts(found: dict[str, Any]) -> float:
    for key in ("current_socket_power", "average_socket_power", "socket_power"):
        if _is_number(found.get(key)):
            return float(found[key])
    raise OSError("AMD SMI knows no power")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Meters:
    """What can be read, and what is there but cannot, with the reason."""

    sources: tuple[Source, ...]
    missing: tuple[str, ...]


def find_meters(
    powercap: Path = POWERCAP, hwmon: Path = HWMON, nvml: Any = None, amdsmi: Any = None
) -> Meters:
    """All meters; `nvml` and `amdsmi` are the modules (looked for where None).

    A GPU that AMD SMI shows is not counted a second time from hwmon.
    """
    sources: list[Source] = []
    missing: list[str] = []
    _add_amdsmi(sources, missing, amdsmi)
    without = ("amdgpu",) if sources else ()
    for meter in [*_rapl(powercap), *_hwmon(hwmon, without)]:
        try:
            meter.read()
            sources.append(meter)
        except PermissionError:
            missing.append(f"{meter.name}: {meter.path} needs more rights (chmod a+r, or root)")
        except OSError as error:
            missing.append(f"{meter.name}: {error}")
    _add_nvml(sources, missing, nvml)
    return Meters(tuple(sources), tuple(missing))


def _rapl(folder: Path) -> list[FileMeter]:
    """Packages and memory. Cores and graphics lie inside their package and are left out."""
    found = []
    for zone in sorted(folder.glob("*-rapl:*")) if folder.is_dir() else ():
        try:
            name = (zone / "name").read_text().strip()
            most = int((zone / "max_energy_range_uj").read_text()) * _MICRO
        except (OSError, ValueError):
            continue
        if name in ("core", "uncore", "psys"):
            continue
        found.append(FileMeter(f"{zone.name} {name}", zone / "energy_uj", True, most))
    return found


def _hwmon(folder: Path, without: tuple[str, ...] = ()) -> list[FileMeter]:
    found = []
    for chip in sorted(folder.glob("hwmon*")) if folder.is_dir() else ():
        try:
            name = (chip / "name").read_text().strip()
        except OSError:
            continue
        if name in without:
            continue
        counters = sorted(chip.glob("energy*_input"))
        powers = sorted(chip.glob("power*_average")) or sorted(chip.glob("power*_input"))
        for path in counters or powers:
            label = f"{chip.name} {name} {path.name.split('_')[0]}"
            found.append(FileMeter(label, path, bool(counters)))
    return found


def _add_amdsmi(sources: list[Source], missing: list[str], amdsmi: Any) -> None:
    try:
        library = amdsmi or importlib.import_module("amdsmi")
    except (ImportError, KeyError, OSError, AttributeError):
        return  # the package, or the driver's library that it loads while it is imported
    try:
        library.amdsmi_init()
        for number, handle in enumerate(library.amdsmi_get_processor_handles()):
            meters = [AmdSmi(f"gpu {number}", library, handle, counts) for counts in (True, False)]
            reasons = []
            for meter in meters:
                try:
                    meter.read()
                    sources.append(meter)
                    break
                except OSError as error:
                    reasons.append(str(error))
            else:
                missing.append(f"gpu {number}: {'; '.join(reasons)}")
    except library.AmdSmiException as error:
        missing.append(f"AMD SMI: {error}")


def _add_nvml(sources: list[Source], missing: list[str], nvml: Any) -> None:
    try:
        library = nvml or importlib.import_module("pynvml")
    except ImportError:
        return
    try:
        library.nvmlInit()
        for number in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(number)
            try:
                library.nvmlDeviceGetTotalEnergyConsumption(handle)
                counts = True
            except library.NVMLError:
                counts = False
            sources.append(Nvml(f"gpu {number}", library, handle, counts))
    except library.NVMLError as error:
        missing.append(f"NVML: {error}")
