"""What the processor is: its features, caches and a fingerprint that timings are kept under."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from pathlib import Path

from planish.base.hashing import digest


@dataclass(frozen=True)
class Processor:
    """The machine this runs on.

    model     family, model and stepping: virtual machines call many processors by one name
    features  names as Linux gives them (avx2, fma, avx512f, ..)
    l1, l2    bytes of the data caches of one core
    """

    name: str
    architecture: str
    model: str
    features: frozenset[str]
    l1: int
    l2: int

    @property
    def vector(self) -> int:
        """Bytes of the widest vectors that generated x86 code may use; 0 for none.

        64 needs AVX-512 F, VL, BW and DQ; 32 needs AVX2, FMA and F16C.
        """
        if self.architecture not in ("x86_64", "AMD64"):
            return 0
        if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= self.features:
            return 64
        return 32 if {"avx2", "fma", "f16c"} <= self.features else 0

    @property
    def fingerprint(self) -> str:
        """Timings of machines with different fingerprints are never compared."""
        return digest(self.name, self.architecture, self.model, str(self.l1), str(self.l2))[:16]


@functools.cache
def processor() -> Processor:
    """This machine's, read once. Unknown caches count as 32 KiB and 512 KiB."""
    name, features = platform.processor() or "unknown", frozenset[str]()
    model = dict.fromkeys(("cpu family", "model", "stepping"), "")
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            if key.strip() in model:
                model[key.strip()] = value.strip()
            if key.strip() in ("flags", "Features"):
                features = frozenset(value.split())
                break
    except OSError:
        pass
    sizes = _caches()
    numbers = ".".join(model.values())
    return Processor(
        name, platform.machine(), numbers, features, sizes.get(1, 32 << 10), sizes.get(2, 512 << 10)
    )


def _caches() -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (folder / "type").read_text().strip() == "Instruction":
                continue
            size = (folder / "size").read_text().strip()
            found[int((folder / "level").read_text())] = int(size.rstrip("K")) << 10
        except (OSError, ValueError):
            continue
    return found
