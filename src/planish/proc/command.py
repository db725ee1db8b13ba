"""Run a user's shell command with a time limit; nothing it started outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass

_SECONDS = 600.0


@dataclass(frozen=True)
class Finished:
    """How the command ended; `output` is standard output and error together."""

    code: int
    output: bytes
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out


def run_command(command: str, *, seconds: float = _SECONDS) -> Finished:
    """Run by the shell in a process group of its own, which is killed at the end."""
    process = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    timed_out = False
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill_group(process.pid)
        output, _ = process.communicate()
    finally:
        _kill_group(process.pid)
    return Finished(process.returncode, output, timed_out)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
