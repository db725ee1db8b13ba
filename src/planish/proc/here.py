"""A pool of one call in this very process, for a process that may die: a fork of the server.

A worker would cost two more forks of a process that holds a compiler's library. What the call does
to this process does to the client what a dead server does: it does the work itself (`client.py`),
with workers, which say what went wrong.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator, Sequence
from typing import Any

from planish.base.records import Failure
from planish.proc import held
from planish.proc.pool import Call, Pool, Reply
from planish.proc.zygote import limit


class Here(Pool):
    """As a `Pool`, for one call in its life; the handler is loaded already."""

    _used = False

    @property
    def info(self) -> Any:
        """What `preload` returned."""
        return held.load(self._handler, self._argument)[1]

    def start(self) -> None:
        """Nothing: it runs."""

    def run(self, calls: Sequence[Call]) -> list[Reply]:
        """The replies: of the one call, or of none."""
        assert len(calls) <= 1 and not (calls and self._used), "one call, since flavours are global"
        self._used = self._used or bool(calls)
        return [self._run(call) for call in calls]

    def _run(self, call: Call) -> Reply:
        factory, _ = held.load(self._handler, self._argument)
        with _mortal(self.seconds, self.memory):
            try:
                blobs = {key: self._blobs[key] for key in call.blobs}
                return Reply(value=factory(call.flavour)(call.request, blobs))
            except MemoryError:
                return Reply(failure=Failure.MEMORY, reason="out of memory")
            except Exception as error:
                return Reply(failure=Failure.INVALID, reason=f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _mortal(seconds: float, memory: int) -> Iterator[None]:
    """With a worker's limits; a signal ends the process even deep inside C code.

    What a library says meanwhile is nobody's: the client that does it again hears it.
    """
    before = [
        (kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_CORE, resource.RLIMIT_AS)
    ]
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)
    said = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    limit(memory, forever=False)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for kind, limits in before:
            resource.setrlimit(kind, limits)
        os.dup2(said, 2)
        os.close(said)
        os.close(nothing)
        signal.signal(signal.SIGINT, interrupted)
