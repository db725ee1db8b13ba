"""The warm process behind `client.py`: it forks for each command, and supervises what it forked.

`python -m planish.proc.server SOCKET SECONDS WARM COMMAND IDENTITY`: calls WARM once, then waits on
SOCKET and runs COMMAND for each client in a fork, with the client's arguments, folder, environment
and open files. A client that goes away takes its process with it. After SECONDS without work it
ends. It holds one thread and no data of any command, so that forking it is safe and nothing of one
command is left for the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import marshal
import os
import selectors
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from planish.proc import client
from planish.proc.zygote import die_with_parent

_BACKLOG = 128
_REQUEST_SECONDS = 5.0
_LENGTH_BYTES = 8
_HIGHEST_HANDLE = 4096
# The exit code of a command that a Ctrl-C ended, as shells count.
_INTERRUPTED = 128 + signal.SIGINT


@dataclass
class _Job:
    """A client and the process that runs its command; `handle` tells when that ends."""

    channel: socket.socket
    pid: int
    handle: int


def main() -> None:
    path, seconds, warm, command, identity = sys.argv[1:]
    # A jobserver's pipe held open here would keep `make` waiting.
    os.closerange(3, _HIGHEST_HANDLE)
    os.chdir("/")
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # another one is there, or on its way
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _call(warm)
    gc.collect()
    gc.freeze()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(_BACKLOG)
        _Server(listener, path, command, bytes.fromhex(identity)).serve(float(seconds))


class _Server:
    def __init__(self, listener: socket.socket, path: str, command: str, identity: bytes) -> None:
        self._listener, self._path = listener, path
        self._command, self._identity = command, identity
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._jobs: dict[int, _Job] = {}

    def serve(self, seconds: float) -> None:
        """Until nothing has come for so many seconds."""
        while True:
            events = self._selector.select(None if self._jobs else seconds)
            if not events and not self._jobs:
                if self._path:
                    # A client may have connected meanwhile: look once more, without the name.
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self._path)  # noqa: PTH108
                    self._path, seconds = "", 0.0
                    continue
                return
            for key, _ in events:
                self._handle(key)

    def _handle(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            channel, _ = self._listener.accept()
            try:
                self._begin(channel)
            except (OSError, ValueError, EOFError, TypeError):
                channel.close()
            return
        job = self._jobs.get(key.data)
        if job is None:
            return
        if key.fd == job.handle:
            self._end(job)
            return
        said = b""
        with contextlib.suppress(OSError):
            said = job.channel.recv(1)
        if said == client.INTERRUPT:
            os.kill(job.pid, signal.SIGINT)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        self._selector.unregister(job.channel)

    def _begin(self, channel: socket.socket) -> None:
        channel.settimeout(_REQUEST_SECONDS)
        head, handles, _, _ = socket.recv_fds(channel, _LENGTH_BYTES, 3)
        try:
            body = _receive(channel, int.from_bytes(head, "little"))
            identity, *request = marshal.loads(body)
            if identity != self._identity or len(handles) != 3:
                raise ValueError("a request for another server")
            channel.settimeout(None)
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._run(parent, channel, handles, request)
        finally:
            for handle in handles:
                os.close(handle)
        job = _Job(channel, pid, os.pidfd_open(pid))
        self._jobs[pid] = job
        self._selector.register(channel, selectors.EVENT_READ, pid)
        self._selector.register(job.handle, selectors.EVENT_READ, pid)

    def _end(self, job: _Job) -> None:
        _, status = os.waitpid(job.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        code = _INTERRUPTED if code == -signal.SIGINT else code
        if code >= 0:  # after a crash the client does it again, in its own processes
            with contextlib.suppress(OSError):
                job.channel.sendall(code.to_bytes(client.CODE_BYTES, "little"))
        for watched in (job.handle, job.channel):
            with contextlib.suppress(KeyError):
                self._selector.unregister(watched)
        os.close(job.handle)
        job.channel.close()
        del self._jobs[job.pid]

    def _run(
        self, parent: int, channel: socket.socket, handles: list[int], request: list[Any]
    ) -> None:
        """In the fork: become the client's command. Never returns."""
        code = 1
        try:
            os.setpgid(0, 0)
            die_with_parent(parent)
            for at, handle in enumerate(handles):
                os.dup2(handle, at)
            for job in self._jobs.values():
                job.channel.close()
                os.close(job.handle)
            self._selector.close()
            self._listener.close()
            channel.close()
            for handle in handles:
                os.close(handle)
            code = _become(self._command, *request)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)


def _become(
    command: str,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    mask: int,
    priority: int,
    processors: list[int],
) -> int:
    client.served = True
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.umask(mask)
    if priority > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, processors)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = open(0, encoding=sys.stdin.encoding, closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = (_writer(at, sys.__stdout__, at == 2) for at in (1, 2))
    sys.argv = ["planish", *words]
    try:
        _call(command)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _writer(handle: int, like: Any, is_error: bool) -> io.TextIOWrapper:
    """Standard output or error as Python itself would have opened it."""
    raw = open(handle, "wb", closefd=False)  # noqa: SIM115
    errors = "backslashreplace" if is_error else like.errors
    return io.TextIOWrapper(
        raw, encoding=like.encoding, errors=errors, line_buffering=is_error or os.isatty(handle)
    )


def _receive(channel: socket.socket, length: int) -> bytes:
    body = b""
    while len(body) < length:
        part = channel.recv(min(length - len(body), 1 << 20))
        if not part:
            raise EOFError("the client went away")
        body += part
    return body


def _call(name: str) -> None:
    module, function = name.split(":")
    getattr(importlib.import_module(module), function)()


if __name__ == "__main__":
    main()
