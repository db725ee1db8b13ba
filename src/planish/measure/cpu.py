"""Sampling a program's CPU time with Linux perf, where the kernel allows it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from planish.base.errors import UsageError

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_EVENT = "cpu-clock:u"  # a timer of the kernel's: there in virtual machines, too
_ALLOWED = 2  # the highest level that lets a user sample a program of their own


def perf_command(words: Sequence[str], out: Path, frequency: int) -> list[str]:
    """The command that runs a program under perf; raises UsageError where it is not allowed.

    frequency  samples a second of each thread's CPU time
    """
    perf = shutil.which("perf")
    if perf is None:
        raise UsageError("perf is not installed", hint="install it (Debian: linux-perf)")
    if shutil.which(words[0]) is None:
        raise UsageError(f"cannot start {words[0]}: no such program", hint="check the name")
    options = ["-q", "-e", _EVENT, "-F", str(frequency), "--call-graph", "fp"]
    with tempfile.NamedTemporaryFile(prefix="planish-perf-") as file:
        tried = subprocess.run(
            [perf, "record", *options, "-o", file.name, "--", "true"],
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if tried.returncode:
        raise UsageError(*_refused(tried.stderr))
    return [perf, "record", *options, "-o", str(out), "--", *words]


def _refused(said: str) -> tuple[str]:
    level = paranoid_level()
    if level is not None and level > _ALLOWED:
        return (
            f"the kernel does not let users sample programs (perf_event_paranoid is {level});"
            f" as root: sysctl kernel.perf_event_paranoid={_ALLOWED}",
        )
    why = next((line.strip() for line in said.splitlines() if line.strip()), "no reason given")
    return (f"perf cannot sample here: {why[:200]}",)


def paranoid_level() -> int | None:
    """The kernel's setting; None where there is no such file."""
    try:
        return int(PARANOID.read_text())
    except (OSError, ValueError):
        return None
