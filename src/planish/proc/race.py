"""Forks that answer: several ways to one answer of which the first useful one counts (`race`),
and one that works while the caller goes on (`beside`).

For use inside a worker: the caller must have one thread only. A child that crashes, exceeds its
memory or is late is no answer.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from planish.proc.zygote import die_with_parent

_LATE = "no answer within"


@dataclass(frozen=True)
class Finish:
    """Who answered what. `ends` says, by name, how those that gave no useful answer ended."""

    winner: str
    value: Any
    ends: Mapping[str, str]


def race(
    runners: Mapping[str, Callable[[], Any]],
    useful: Callable[[Any], bool],
    *,
    seconds: float,
    cpu: float | None = None,
    memory: int = 3 << 30,
) -> Finish:
    """Run all at once; the first answer that is useful ends the others.

    seconds  wall time for all of them
    cpu      processor time for each: what is answered then does not depend on how busy the
             machine is
    memory   address space that each may add to what this process has
    Where none is useful, `winner` is empty and `value` None.
    """
    running: dict[int, tuple[str, int, bytearray]] = {}
    ends: dict[str, str] = {}
    deadline = time.monotonic() + seconds
    try:
        for name, runner in runners.items():
            pid, handle = _fork(runner, lambda: _limited(seconds, cpu, memory))
            running[handle] = (name, pid, bytearray())
        while running:
            left = deadline - time.monotonic()
            ready, _, _ = select.select(list(running), [], [], max(left, 0))
            if not ready:
                break
            for handle in ready:
                name, pid, data = running[handle]
                chunk = os.read(handle, 1 << 16)
                data += chunk
                if chunk:
                    continue
                del running[handle]
                os.close(handle)
                ok, value = _result(pid, bytes(data))
                if ok and useful(value):
                    return Finish(name, value, ends)
                ends[name] = f"{_LATE} {cpu:g} s" if value == signal.SIGPROF.name else str(value)
        ends.update({name: f"{_LATE} {seconds:g} s" for name, _, _ in running.values()})
        return Finish("", None, ends)
    finally:
        for handle, (_, pid, _) in running.items():
            os.close(handle)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextlib.contextmanager
def beside(runner: Callable[[], Any]) -> Iterator[Callable[[], tuple[bool, Any]]]:
    """Run it in a fork while the caller goes on; it is killed when the context ends.

    What is yielded waits for the answer: (True, value), or (False, what was raised or how the
    fork ended). The fork has the caller's limits and no more time than the caller takes.
    """
    pid, handle = _fork(runner, lambda: None)
    try:
        with os.fdopen(handle, "rb") as file:
            yield lambda: _answer(file)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _answer(file: IO[bytes]) -> tuple[bool, Any]:
    try:
        ok, value = pickle.load(file)
    except (EOFError, pickle.UnpicklingError):
        return False, "died"
    return ok, value


def _fork(runner: Callable[[], Any], prepare: Callable[[], None]) -> tuple[int, int]:
    """The child's number and the end of a pipe on which its pickled answer comes."""
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 1
    try:
        os.close(reader)
        die_with_parent(parent)
        prepare()
        try:
            answer = (True, runner())
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}")
        with os.fdopen(writer, "wb") as file:
            pickle.dump(answer, file, pickle.HIGHEST_PROTOCOL)
        code = 0
    finally:
        os._exit(code)


def _limited(seconds: float, cpu: float | None, memory: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)
    if cpu is not None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, cpu)
    _limit(memory)


def _limit(memory: int) -> None:
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - opened in a forked child
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # no Linux: the worker's own limit holds
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + memory if most == resource.RLIM_INFINITY else min(used + memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _result(pid: int, data: bytes) -> tuple[bool, Any]:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code or not data:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return False, how
    ok, value = pickle.loads(data)
    return ok, value
