from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planish.base.errors import PlanishError
from planish.base.records import Failure
from planish.proc.pool import Call, Pool, Reply

HANDLER = "handlers:factory"
FOLDER = Path(__file__).parent
MakePool = Callable[..., Pool]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def make_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePool]:
    """Makes pools whose zygote finds `handlers`, and closes them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    made: list[Pool] = []

    def make(**options: Any) -> Pool:
        made.append(Pool(HANDLER, **options))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


@pytest.fixture
def pool(make_pool: MakePool) -> Pool:
    return make_pool(argument="hello", jobs=2, seconds=60)


def _call(*request: Any, flavour: Any = "plain", blobs: tuple[str, ...] = ()) -> Call:
    return Call(flavour, request, blobs)


def _one(pool: Pool, *request: Any, **options: Any) -> Reply:
    return pool.run([_call(*request, **options)])[0]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def _gone(pid: int) -> bool:
    """No such process, or one that nobody has reaped yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


# -- replies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_replies_come_in_the_order_of_the_calls(make_pool: MakePool, jobs: int) -> None:
    pool = make_pool(jobs=jobs)
    # The first calls of each round take the longest.
    calls = [_call("echo", n, 0.02 * (3 - n % 4)) for n in range(12)]
    assert [reply.value for reply in pool.run(calls)] == list(range(12))
    assert pool.run([]) == []


def test_the_stream_names_the_call_of_each_reply(pool: Pool) -> None:
    calls = [_call("echo", n * n) for n in range(10)]
    assert sorted((at, reply.value) for at, reply in pool.stream(calls)) == [
        (n, n * n) for n in range(10)
    ]


def test_preload_runs_once_in_another_process(pool: Pool) -> None:
    info = pool.info
    assert info["argument"] == "hello" and info["loads"] == 1
    assert info["pid"] != os.getpid()
    pool.run([_call("who", flavour=n) for n in range(4)])
    assert pool.info == info


def test_a_worker_is_kept_for_its_flavour(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1)
    first, again, other = (
        _one(pool, "who", flavour=flavour).value for flavour in (("-a",), ("-a",), ("-b",))
    )
    assert again == (first[0], ("-a",), 2)
    assert other[0] != first[0] and other[1:] == (("-b",), 1)


def test_many_flavours_keep_few_workers(make_pool: MakePool) -> None:
    pool = make_pool(jobs=2)
    replies = pool.run([_call("who", flavour=n) for n in range(60)])
    assert [reply.value[1] for reply in replies] == list(range(60))
    assert len(pool._idle) <= 26


def test_blobs_are_sent_once_to_a_worker(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1)
    pool.keep("a", b"x" * 3_000_000)
    pool.keep("b", b"y")
    assert _one(pool, "blob_sizes", blobs=("a",)).value == ({"a": 3_000_000}, 1)
    assert _one(pool, "blob_sizes", blobs=("a", "b")).value == ({"a": 3_000_000, "b": 1}, 2)
    assert _one(pool, "blob_sizes", blobs=("b", "a")).value == ({"a": 3_000_000, "b": 1}, 2)
    assert _one(pool, "leave", 1).failure is Failure.CRASH
    assert _one(pool, "blob_sizes", blobs=("b",)).value == ({"b": 1}, 1), "a new worker has none"


def test_data_that_was_not_kept_is_an_error_and_the_pool_goes_on(pool: Pool) -> None:
    with pytest.raises(KeyError):
        _one(pool, "echo", 1, blobs=("missing",))
    assert _one(pool, "echo", 1).value == 1


def test_large_requests_and_replies(pool: Pool) -> None:
    data = os.urandom(5_000_000)
    assert [r.value for r in pool.run([_call("echo", data)] * 3)] == [data] * 3


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "failure", "reason"),
    [
        (("signal_self", signal.SIGSEGV), Failure.CRASH, "SIGSEGV"),
        (("abort", "LLVM ERROR: broken\nmore"), Failure.CRASH, "SIGABRT: LLVM ERROR: broken"),
        (("leave", 7), Failure.CRASH, "exit code 7"),
        (("leave", 1, "\n  LLVM ERROR: x"), Failure.CRASH, "exit code 1: LLVM ERROR: x"),
        (("leave", 0), Failure.CRASH, "exit code 0"),
        (("exit_python", 5), Failure.CRASH, "exit code 5"),
        (("fail", "not legal"), Failure.INVALID, "ValueError: not legal"),
        (("unsendable",), Failure.CRASH, "exit code 1: "),
        (("allocate", 1 << 40), Failure.MEMORY, "out of memory"),
        (("abort", "terminate: std::bad_alloc"), Failure.MEMORY, "terminate: std::bad_alloc"),
        (("leave", 1, "LLVM ERROR: out of memory"), Failure.MEMORY, "LLVM ERROR: out of memory"),
        (("signal_self", signal.SIGKILL), Failure.MEMORY, "killed from outside"),
    ],
)
def test_a_failure_is_a_reply_and_the_pool_goes_on(
    pool: Pool, request_: tuple[Any, ...], failure: Failure, reason: str
) -> None:
    before, bad, after = pool.run([_call("echo", 1), _call(*request_), _call("echo", 2)])
    assert (before.value, after.value) == (1, 2)
    assert bad.failure is failure
    assert bad.reason.startswith(reason)
    assert bad.value is None
    assert _one(pool, "echo", 3).value == 3


def test_a_reason_is_not_an_earlier_calls_words(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1)
    assert _one(pool, "leave", 1, "first").reason == "exit code 1: first"
    assert _one(pool, "leave", 1).reason == "exit code 1"


@pytest.mark.parametrize("verb", ["hang", "spin"])
def test_a_call_that_hangs_is_killed(make_pool: MakePool, verb: str) -> None:
    pool = make_pool(jobs=2, seconds=0.7)
    replies = pool.run([_call(verb), _call("echo", 1), _call("echo", 2)])
    assert replies[0] == Reply(failure=Failure.TIMEOUT, reason="no answer within 0.7 s")
    assert [reply.value for reply in replies[1:]] == [1, 2]


def test_the_limit_is_one_calls_and_not_the_workers(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1, seconds=2.0)
    assert [r.value for r in pool.run([_call("echo", n, 0.5) for n in range(5)])] == [*range(5)]


@pytest.mark.parametrize(("flavour", "failure"), [("hang", "timeout"), ("raise", "invalid")])
def test_a_worker_that_does_not_start(make_pool: MakePool, flavour: str, failure: str) -> None:
    pool = make_pool(jobs=1, seconds=0.7)
    reply = _one(pool, "echo", 1, flavour=flavour)
    assert reply.failure == failure
    assert _one(pool, "echo", 1).value == 1


def test_the_memory_limit_is_the_pools(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1, memory=1 << 30)
    assert _one(pool, "allocate", 1 << 20).value == 1 << 20
    assert _one(pool, "allocate", 1 << 30).failure is Failure.MEMORY
    assert _one(pool, "allocate", 1 << 20).value == 1 << 20


def test_a_zygote_that_was_killed_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool(jobs=2)
    first = pool.info["pid"]
    killer, *_ = pool.run([_call("kill_parent"), _call("echo", 1)])
    assert killer.failure is Failure.MEMORY
    assert [r.value for r in pool.run([_call("echo", n) for n in range(4)])] == [0, 1, 2, 3]
    os.kill(pool.info["pid"], signal.SIGKILL)
    assert _one(pool, "who", flavour="new").value[1] == "new"
    assert pool.info["pid"] != first


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_call_beside_one_that_kills_the_zygote_comes_back(make_pool: MakePool, jobs: int) -> None:
    pool = make_pool(jobs=jobs)
    for _ in range(3):
        calls = [_call("echo", n, 0.01) for n in range(6)]
        calls[2] = _call("kill_parent")
        replies = pool.run(calls)
        assert [reply.value for reply in replies] == [0, 1, None, 3, 4, 5]
        assert replies[2].failure is Failure.MEMORY


def test_a_blocked_alarm_is_unblocked(make_pool: MakePool) -> None:
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        pool = make_pool(jobs=1, seconds=0.3)
        assert _one(pool, "hang").failure is Failure.TIMEOUT
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


# -- starting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "argument", "words"),
    [
        (HANDLER, "raise", "cannot start: ValueError: no such library"),
        (HANDLER, "die", "died while loading"),
        ("no_such_module:factory", None, "cannot start: ModuleNotFoundError"),
        ("handlers:no_such_name", None, "cannot start: AttributeError"),
        ("handlers", None, "cannot start: ValueError"),
    ],
)
def test_a_zygote_that_does_not_start_is_one_error(
    monkeypatch: pytest.MonkeyPatch, handler: str, argument: object, words: str
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    with Pool(handler, argument) as pool:
        for _ in range(2):
            with pytest.raises(PlanishError, match=words) as caught:
                pool.run([_call("echo", 1)])
            assert caught.value.hint


def test_modules_in_the_current_folder_are_not_taken_for_pythons(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("signal.py", "pickle.py", "socket.py", "resource.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    files = _one(pool, "modules").value
    assert files and not any(str(tmp_path) in file for file in files)


def test_a_pool_that_was_closed_starts_again(pool: Pool) -> None:
    assert _one(pool, "echo", 1).value == 1
    pool.close()
    pool.close()
    assert _one(pool, "echo", 2).value == 2


def test_a_pool_outlives_the_thread_that_started_it(make_pool: MakePool) -> None:
    pool = make_pool(jobs=1)
    thread = threading.Thread(target=lambda: pool.info)
    thread.start()
    thread.join()
    zygote = pool.info["pid"]
    for flavour in range(3):
        assert _one(pool, "echo", 1, 0.05, flavour=flavour).value == 1
    assert pool.info["pid"] == zygote


# -- ending --------------------------------------------------------------------------------------


@linux
def test_closing_ends_all_processes(make_pool: MakePool) -> None:
    pool = make_pool(jobs=2)
    pids = [r.value[0] for r in pool.run([_call("who", flavour=n) for n in range(4)])]
    pids.append(pool.info["pid"])
    assert not any(_gone(pid) for pid in pids)
    pool.close()
    _until(lambda: all(_gone(pid) for pid in pids))


@linux
def test_closing_the_stream_early_kills_what_is_in_flight(make_pool: MakePool) -> None:
    pool = make_pool(jobs=2, seconds=600)
    stream = pool.stream([_call("who"), _call("hang", flavour="h"), _call("hang", flavour="h")])
    _, reply = next(stream)
    pids = [reply.value[0], pool.info["pid"], *_children(pool.info["pid"])]
    assert len(pids) >= 3
    stream.close()
    _until(lambda: all(_gone(pid) for pid in pids))
    assert _one(pool, "echo", 1).value == 1


@linux
def test_an_interrupt_kills_what_is_in_flight(make_pool: MakePool) -> None:
    pool = make_pool(jobs=2, seconds=600)
    zygote = pool.info["pid"]
    pids: list[int] = []

    def interrupt() -> None:
        _until(lambda: len(_children(zygote)) == 2)
        pids.extend(_children(zygote))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        pool.run([_call("hang"), _call("hang")])
    thread.join()
    assert len(pids) == 2
    _until(lambda: all(_gone(pid) for pid in [*pids, zygote]))
    assert _one(pool, "echo", 1).value == 1


@linux
def test_what_a_worker_started_is_killed_with_it(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(jobs=1, seconds=1.0)
    reply = _one(pool, "child_and_hang", str(tmp_path / "pid"))
    assert reply.failure is Failure.TIMEOUT
    child = int((tmp_path / "pid").read_text())
    _until(lambda: _gone(child))


_PARENT = """
from planish.proc.pool import Call, Pool

if "fork" not in globals():
    fork = int
if __name__ == "__main__":
    pool = Pool("handlers:factory", jobs=3, seconds=600)
    (reply,) = pool.run([Call("idle", ("who",))])
    print(pool.info["pid"], reply.value[0], fork(), flush=True)
    pool.run([Call("busy", ("hang",)), Call("busy", ("spin",))])
"""


# A child that keeps the parent's ends of all sockets open.
_FORK = """
import os, time

def fork():
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    return pid
"""


@linux
@pytest.mark.parametrize("forks", [False, True])
def test_a_killed_parent_leaves_no_orphan(tmp_path: Path, forks: bool) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_FORK + _PARENT if forks else _PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        zygote, idle, child = (int(word) for word in parent.stdout.readline().split())
        _until(lambda: len(_children(zygote)) == 3)
        pids = [zygote, *_children(zygote)]
        assert idle in pids
        parent.kill()
        _until(lambda: all(_gone(pid) for pid in pids))
        if child:
            os.kill(child, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
