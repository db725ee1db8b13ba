"""One call in this process: the limits of a worker, and no longer than the call."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from planish.base.records import Failure
from planish.proc import held
from planish.proc.here import Here
from planish.proc.pool import Call

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
HANDLER = "handlers:Worker"


def _here(seconds: float = 30.0, memory: int = 8 << 30) -> Here:
    pool = Here(HANDLER, "argument", seconds=seconds, memory=memory)
    pool.keep("blob", b"four")
    return pool


@pytest.fixture(autouse=True)
def _handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(held, "_held", {})


def _state() -> tuple[object, ...]:
    limits = [resource.getrlimit(kind) for kind in (resource.RLIMIT_CORE, resource.RLIMIT_AS)]
    return (*limits, signal.getsignal(signal.SIGINT), signal.getitimer(signal.ITIMER_REAL))


def test_the_call_runs_here_and_leaves_the_process_as_it_was() -> None:
    before = _state()
    with _here() as pool:
        assert pool.info["argument"] == "argument"
        [reply] = pool.run([Call("f", ("who",), ("blob",))])
    assert reply.value == (os.getpid(), "f", 1) and _state() == before
    with pytest.raises(AssertionError):  # flavours are global to a process
        pool.run([Call("g", ("who",))])


def test_a_failure_is_an_outcome() -> None:
    [reply] = _here().run([Call("raise", ("who",))])
    assert reply.failure is Failure.INVALID and "no such flavour" in reply.reason


@pytest.mark.parametrize(
    ("request_", "seconds", "ends"),
    [
        (("signal_self", signal.SIGSEGV), 30.0, signal.SIGSEGV),
        (("signal_self", signal.SIGINT), 30.0, signal.SIGINT),
        (("echo", 1, 20.0), 0.2, signal.SIGALRM),
    ],
)
def test_what_goes_wrong_ends_the_process(
    request_: tuple[object, ...], seconds: float, ends: int
) -> None:
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        _here(seconds).run([Call("f", request_)])
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -ends
