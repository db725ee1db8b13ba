"""A pool of persistent workers, restarted on death, keyed by how they were started.

Workers of one *flavour* (anything picklable and hashable, given to the handler's factory) are
kept for later requests of that flavour. Results come back in the order of the requests, so that
they never depend on the number of workers.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planish.base.closing import Closing
from planish.base.config import with_environment
from planish.base.errors import PlanishError
from planish.base.records import Failure
from planish.proc import held, wire
from planish.proc.calls import Call, Queue, Reply

if TYPE_CHECKING:
    from planish.proc.zygote import Forked

__all__ = ["Call", "Pool", "Reply"]

_KEPT_WORKERS = 12
_REASON_BYTES = 4096
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "MemoryError")
_DOCTOR = "run `planish doctor` to see which toolchain was found"
# Nothing in a worker sends SIGKILL; Linux does when the machine's memory runs out.
_KILLED = Reply(failure=Failure.MEMORY, reason="killed from outside, out of memory?")


@dataclass
class _Worker:
    pid: int
    flavour: Hashable
    channel: socket.socket
    errors: int
    zygote: subprocess.Popen[bytes] | Forked
    has: set[str] = field(default_factory=set)
    said: int = 0


class Pool(Closing):
    """Runs calls in worker processes.

    handler  import path `module:factory`; the module has `preload(argument)`, which runs once in
             the zygote and whose result is `info`; `factory(flavour)` makes a worker's handler
    jobs     calls in flight at once
    seconds  wall-time limit of one call; the worker is killed
    memory   address-space limit of a worker in bytes
    """

    def __init__(
        self,
        handler: str,
        argument: Any = None,
        *,
        jobs: int = 1,
        seconds: float = 30.0,
        memory: int = 4 << 30,
    ) -> None:
        self.jobs = max(1, jobs)
        self.seconds = seconds
        self.memory = memory
        self._handler = handler
        self._argument = argument
        self._blobs: dict[str, bytes] = {}
        self._idle: dict[int, _Worker] = {}
        self._zygote: subprocess.Popen[bytes] | Forked | None = None
        self._control: socket.socket | None = None
        self._loading: socket.socket | None = None
        self._info: Any = None

    @property
    def info(self) -> Any:
        """What `preload` returned in the zygote."""
        self._start()
        return self._info

    def keep(self, key: str, data: bytes) -> None:
        """Data that calls may name in `blobs`; new data under an old key is sent again."""
        if self._blobs.get(key) != data:
            for worker in self._idle.values():
                worker.has.discard(key)
        self._blobs[key] = data

    def kept(self, key: str) -> bytes:
        """Data that was kept under the key."""
        return self._blobs[key]

    def forget(self, key: str) -> None:
        """Drop data kept here (workers drop theirs when they end)."""
        self._blobs.pop(key, None)

    def retire(self, flavour: Hashable) -> None:
        """End the idle workers of a flavour, so that its next call gets a fresh process."""
        while (worker := self._idle_of(flavour)) is not None:
            self._kill(worker)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the workers; nothing where all of them are here."""
        return ()

    def run(self, calls: Sequence[Call]) -> list[Reply]:
        """All replies, in the order of the calls."""
        return self._ordered(calls, self.stream(calls))

    def alone(self, calls: Sequence[Call]) -> list[Reply]:
        """As `run`, but one call at a time on each machine, so that none disturbs another."""
        jobs, self.jobs = self.jobs, 1
        try:
            return self.run(calls)
        finally:
            self.jobs = jobs

    def _ordered(self, calls: Sequence[Call], stream: Iterator[tuple[int, Reply]]) -> list[Reply]:
        replies: list[Reply | None] = [None] * len(calls)
        for index, reply in stream:
            replies[index] = reply
        return [reply for reply in replies if reply is not None]

    def stream(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        """(index, reply) as they come back, at most `jobs` at once.

        A zygote that dies takes its workers with it, whichever call it died of: each of their
        calls is tried once more, alone, so that a call fails by its own doing only.
        Closing the iterator early (or an exception, Ctrl-C included) kills what is in flight.
        """
        queue = Queue(calls)
        busy: dict[int, _Worker] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while True:
                    while len(busy) < self.jobs and (following := queue.next(bool(busy))):
                        worker = self._dispatch(following[1])
                        busy[worker.pid] = worker
                        selector.register(worker.channel, selectors.EVENT_READ, (worker, following))
                    if not busy:
                        return
                    for key, _ in selector.select():
                        worker, (index, call) = key.data
                        selector.unregister(worker.channel)
                        del busy[worker.pid]
                        reply = self._collect(worker)
                        if reply is not None or not queue.again(index, call):
                            yield index, reply or _KILLED
            except BaseException:
                # An exchange with the zygote may have been cut in two, so everything goes;
                # the next call starts afresh.
                for worker in busy.values():
                    self._idle[worker.pid] = worker
                self.close()
                raise

    def close(self) -> None:
        """End all workers and the zygote."""
        self._drop_zygote()

    def start(self) -> None:
        """Begin to load the handler's module, without waiting for it."""
        if self._zygote is None:
            self._launch()

    def _start(self) -> socket.socket:
        """The socket to a zygote that is ready."""
        if self._control is not None:
            return self._control
        if self._zygote is None:
            self._launch()
        loading, self._loading = self._loading, None
        assert loading is not None
        try:
            state, info = wire.receive(loading)
            if state != "ready":
                raise PlanishError(f"the worker process cannot start: {info}", hint=_DOCTOR)
        except BaseException as error:
            loading.close()
            self.close()
            if isinstance(error, wire.Closed):
                raise PlanishError("the worker process died while loading", hint=_DOCTOR) from None
            raise
        self._control, self._info = loading, info
        return loading

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                if held.holds(self._handler, self._argument):
                    from planish.proc import zygote

                    self._zygote = zygote.fork(theirs, ours)
                else:
                    self._zygote = _start_zygote(theirs)
            wire.send(ours, (self._handler, self._argument))
        except BaseException as error:
            ours.close()
            self.close()
            if isinstance(error, wire.Closed):
                raise PlanishError("the worker process died while loading", hint=_DOCTOR) from None
            raise
        self._loading = ours

    def _dispatch(self, call: Call) -> _Worker:
        worker = self._idle_of(call.flavour) or self._fork(call.flavour)
        try:
            missing = {key: self._blobs[key] for key in call.blobs if key not in worker.has}
            worker.has.update(missing)
            worker.said = os.fstat(worker.errors).st_size
            with contextlib.suppress(wire.Closed):  # it died while starting; _collect says how
                wire.send(worker.channel, (call.request, missing))
        except BaseException:
            self._idle[worker.pid] = worker  # where close() finds it
            raise
        return worker

    def _idle_of(self, flavour: Hashable) -> _Worker | None:
        for pid, worker in self._idle.items():
            if worker.flavour == flavour:
                return self._idle.pop(pid)
        return None

    def _fork(self, flavour: Hashable) -> _Worker:
        if len(self._idle) >= _KEPT_WORKERS:
            self._kill(self._idle.pop(next(iter(self._idle))))
        data, handles = self._ask_for_worker(flavour)
        if not data:  # the zygote is gone (killed, out of memory), and its workers with it
            self._drop_zygote()
            data, handles = self._ask_for_worker(flavour)
        if len(handles) != 2:
            why = data.decode(errors="replace") or "its parent was killed"
            raise PlanishError(
                f"a worker process cannot be started: {why}", hint="free memory or processes"
            )
        assert self._zygote is not None
        for handle in handles:
            os.set_inheritable(handle, False)
        return _Worker(
            pid=int.from_bytes(data, "little"),
            flavour=flavour,
            channel=socket.socket(fileno=handles[0]),
            errors=handles[1],
            zygote=self._zygote,
        )

    def _ask_for_worker(self, flavour: Hashable) -> tuple[bytes, list[int]]:
        """The pid with two file descriptors; words and none on failure; nothing without zygote."""
        control = self._start()
        try:
            wire.send(control, ("fork", (flavour, self.seconds, self.memory)))
            data, handles, _, _ = socket.recv_fds(control, _REASON_BYTES, 2)
        except (wire.Closed, ConnectionError):
            return b"", []
        return data, handles

    def _drop_zygote(self) -> None:
        """Forget a zygote that died, with its idle workers; busy ones end by themselves."""
        idle, self._idle = self._idle, {}
        for channel in (self._control, self._loading):
            if channel is not None:
                channel.close()
        self._control = self._loading = None
        for worker in idle.values():
            self._kill(worker)
        if self._zygote is not None:
            self._zygote.kill()
            self._zygote.wait()
            self._zygote = None

    def _collect(self, worker: _Worker) -> Reply | None:
        """The worker's reply; None where its zygote died, and the worker with it."""
        try:
            kind, value = wire.receive(worker.channel)
        except wire.Closed:
            return self._bury(worker)
        self._idle[worker.pid] = worker
        if kind == "ok":
            return Reply(value=value)
        if kind == "memory":
            return Reply(failure=Failure.MEMORY, reason=value)
        return Reply(failure=Failure.INVALID, reason=value)

    def _bury(self, worker: _Worker) -> Reply | None:
        self._signal(worker)
        code = self._reap(worker)
        said = os.pread(worker.errors, _REASON_BYTES, worker.said).decode(errors="replace").strip()
        os.close(worker.errors)
        worker.channel.close()
        first = next((line for line in said.splitlines() if line.strip()), "")
        if code is None:
            return None
        if code == -signal.SIGALRM:
            return Reply(failure=Failure.TIMEOUT, reason=f"no answer within {self.seconds:g} s")
        if any(words in said for words in _OUT_OF_MEMORY):
            return Reply(failure=Failure.MEMORY, reason=first)
        if code == -signal.SIGKILL:
            return _KILLED
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Reply(failure=Failure.CRASH, reason=f"{how}: {first}" if first else how)

    def _kill(self, worker: _Worker) -> None:
        self._signal(worker)
        self._reap(worker)
        os.close(worker.errors)
        worker.channel.close()

    def _signal(self, worker: _Worker) -> None:
        """Kill the worker, if it lives, and what it has started."""
        # Its pid is its own until the zygote reaps it, and for no longer than the zygote lives.
        zygote = worker.zygote
        if zygote is not self._zygote or zygote.poll() is not None:
            return
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(worker.pid, signal.SIGKILL)

    def _reap(self, worker: _Worker) -> int | None:
        """Exit code, negative for a signal; None where the zygote does not know."""
        if self._control is None:
            return None
        try:
            wire.send(self._control, ("reap", worker.pid))
            code: int | None = wire.receive(self._control)
        except wire.Closed:
            return None
        return code


def _start_zygote(channel: socket.socket) -> subprocess.Popen[bytes]:
    # -P: no module is looked for in the current folder, where a user's `signal.py` may lie.
    command = [sys.executable, "-P", "-m", "planish.proc.zygote", str(channel.fileno())]
    return subprocess.Popen(
        [*command, str(os.getpid())],
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        process_group=0,  # a Ctrl-C at the terminal is for this process alone
        env=with_environment(PYTHONPATH=os.pathsep.join(part for part in sys.path if part)),
    )
