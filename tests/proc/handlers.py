"""What the pool's tests run in workers. Imported by the zygote, not by pytest."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_loads = 0


def preload(argument: Any) -> Any:
    global _loads
    _loads += 1
    if argument == "raise":
        raise ValueError("no such library")
    if argument == "die":
        os._exit(3)
    return {"argument": argument, "loads": _loads, "pid": os.getpid()}


class Worker:
    """Does what the request's first word says."""

    def __init__(self, flavour: Any) -> None:
        if flavour == "raise":
            raise ValueError("no such flavour")
        if flavour == "hang":
            _hang_in_c()
        self.flavour = flavour
        self.blobs: dict[str, bytes] = {}
        self.sent = 0
        self.calls = 0

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any:
        self.blobs.update(blobs)
        self.sent += len(blobs)
        self.calls += 1
        verb, *arguments = request
        return getattr(self, verb)(*arguments)

    def echo(self, value: Any, seconds: float = 0.0) -> Any:
        time.sleep(seconds)
        return value

    def who(self) -> tuple[int, Any, int]:
        return os.getpid(), self.flavour, self.calls

    def parent(self) -> int:
        return os.getppid()

    def blob_sizes(self) -> tuple[dict[str, int], int]:
        return {key: len(data) for key, data in self.blobs.items()}, self.sent

    def modules(self) -> list[str]:
        return [getattr(sys.modules[name], "__file__", None) or "" for name in ("signal", "pickle")]

    def signal_self(self, number: int) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    def abort(self, words: str) -> None:
        os.write(2, words.encode())
        os.abort()

    def leave(self, code: int, words: str = "") -> None:
        os.write(2, words.encode())
        os._exit(code)

    def exit_python(self, code: int) -> None:
        sys.exit(code)

    def fail(self, words: str) -> None:
        raise ValueError(words)

    def unsendable(self) -> Any:
        return lambda: None

    def allocate(self, size: int) -> int:
        return len(bytearray(size))

    def hang(self) -> None:
        _hang_in_c()

    def spin(self) -> None:
        while True:
            pass

    def child_and_hang(self, path: str) -> None:
        child = subprocess.Popen(["sleep", "600"])
        Path(path).write_text(str(child.pid))
        _hang_in_c()

    def kill_parent(self) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


def _hang_in_c() -> None:
    libc = ctypes.PyDLL(None)  # holds the interpreter's lock, as a compiler in a loop would
    while True:
        libc.sleep(60)


factory = Worker
