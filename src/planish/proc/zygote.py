"""The process that workers are forked from: started by exec, single-threaded, holding the library.

`python -m planish.proc.zygote FD PARENT` is started by the pool; FD is a Unix socket, PARENT the
pool's process. It imports the handler's module once (so that a shared library is loaded once) and
forks a worker for each request. Forking the user's own process instead would copy its threads'
locks and its heap.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from planish.proc import held, wire


class Handler(Protocol):
    """What runs in a worker: one object per worker, one call per request.

    `blobs` holds data that came with this request and is not sent again: keep it.
    """

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any: ...


HandlerFactory = Callable[[Any], Handler]
_PR_SET_PDEATHSIG = 1
_LOOK_MILLISECONDS = 1000


def die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when `parent` dies; elsewhere the closed socket ends it.

    For workers only: Linux means the thread that forked, and the zygote has but one.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    parent = int(sys.argv[2])
    serve(channel, parent)


def fork(channel: socket.socket, ours: socket.socket) -> Forked:
    """A zygote that is a fork of this process, which must have one thread only."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return Forked(pid)
    try:
        ours.close()
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        serve(channel, parent)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


class Forked:
    """A forked zygote, handled as `subprocess.Popen` is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        """The exit code, once it has ended."""
        return self._reap(0)

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def serve(channel: socket.socket, parent: int) -> None:
    """Load what the parent names, then fork workers for it until it goes away."""
    # Whoever sends a Ctrl-C to all, the parent decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A program that blocks signals passes its mask on; a blocked SIGALRM would never time out.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        handler, argument = wire.receive(channel)
        try:
            factory, info = held.load(handler, argument)
            hello = ("ready", info)
        except Exception as error:
            wire.send(channel, ("failed", f"{type(error).__name__}: {error}"))
            return
        wire.send(channel, hello)
        while True:
            _wait(channel, parent)
            command, details = wire.receive(channel)
            if command == "fork":
                _fork(channel, factory, *details)
            else:
                wire.send(channel, _reap(details))
    except wire.Closed:
        os._exit(0)


def _wait(channel: socket.socket, parent: int) -> None:
    """Wait for a command; raises Closed when the parent is gone."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while not poll.poll(_LOOK_MILLISECONDS):
        # Its end of the socket may live on in a child that it forked.
        if os.getppid() != parent:
            raise wire.Closed


def _fork(
    channel: socket.socket, factory: HandlerFactory, start: Any, seconds: float, memory: int
) -> None:
    zygote = os.getpid()
    try:
        parent_end, worker_end = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - handed to the parent below
        pid = os.fork()
    except OSError as error:  # no memory, processes or file descriptors left
        socket.send_fds(channel, [f"{error}".encode()], [])
        return
    if pid == 0:
        channel.close()
        parent_end.close()
        os.dup2(errors.fileno(), 2)
        os.dup2(errors.fileno(), 1)
        code = 1
        try:
            # A group of its own: what the worker starts (a clang) is killed with it.
            os.setpgid(0, 0)
            die_with_parent(zygote)
            limit(memory)
            _serve(worker_end, factory, start, seconds)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(code)
    worker_end.close()
    socket.send_fds(channel, [pid.to_bytes(8, "little")], [parent_end.fileno(), errors.fileno()])
    parent_end.close()
    errors.close()


def limit(memory: int, *, forever: bool = True) -> None:
    """No core files, at most so many bytes of addresses; SIGALRM ends the process.

    forever  whether the limits cannot be raised again
    """
    _limit(resource.RLIMIT_CORE, 0, forever)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, memory, forever)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _limit(kind: int, value: int, forever: bool) -> None:
    _, most = resource.getrlimit(kind)
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(kind, (value, value if forever else most))


def _serve(channel: socket.socket, factory: HandlerFactory, start: Any, seconds: float) -> None:
    # The timer's default action kills the process even deep inside C code; a Python signal
    # handler would wait for the interpreter to get control back.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        handler = factory(start)
    except Exception as error:
        handler = _failing(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True:
        try:
            request, blobs = wire.receive(channel)
        except wire.Closed:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            reply = ("ok", handler(request, blobs))
        except MemoryError:
            reply = ("memory", "out of memory")
        except Exception as error:
            reply = ("error", f"{type(error).__name__}: {error}")
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            wire.send(channel, reply)
        except wire.Closed:
            return


def _failing(error: Exception) -> Handler:
    def handler(request: Any, blobs: dict[str, bytes]) -> Any:
        raise error

    return handler


def _reap(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # forked by an earlier zygote
        return None


if __name__ == "__main__":
    main()
