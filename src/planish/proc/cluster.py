"""The pool spread over a Ray cluster: killable workers on every machine that is like this one.

Ray finds the machines, carries calls and replies, and tells when a machine has died. What runs
there is the pool of `pool.py`, one for each processor, so that a call that crashes or hangs costs
no more than it does here. A call that was lost with its machine is done again by another one; its
reply is the same, since a call says everything that its reply depends on.
"""

from __future__ import annotations

import contextlib
import importlib
import socket
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from planish.base.config import keep_ray_quiet
from planish.base.errors import PlanishError, UsageError
from planish.base.records import Failure
from planish.proc.pool import Call, Pool, Reply

LOCAL = "ray"  # the cluster of this machine, which is started where there is none
_SECONDS_TO_START = 120.0
_SECONDS_TO_ANSWER = 10.0
_TRIES = 3
_AGAIN = "outcomes so far are in the store: run it again with other --workers"
_LESS_LOGGED: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


Identity = dict[str, str]


class Station:
    """One processor of a machine, as a Ray actor: a pool that runs one call at a time."""

    def __init__(self, handler: str, argument: Any, seconds: float, memory: int) -> None:
        self._pool = Pool(handler, argument, jobs=1, seconds=seconds, memory=memory)

    def identity(self, function: str) -> tuple[Identity, Any]:
        """Of this machine, with `Pool.info`; raises PlanishError where the handler cannot start."""
        return _identity(function), self._pool.info

    def run(self, call: Call, blobs: dict[str, bytes], seconds: float) -> Reply:
        """One call; `blobs` are kept for later ones."""
        for key, data in blobs.items():
            self._pool.keep(key, data)
        self._pool.seconds = seconds
        [reply] = self._pool.run([call])
        return reply

    def retire(self, flavour: Hashable) -> None:
        """See `Pool.retire`."""
        self._pool.retire(flavour)


@dataclass
class _Member:
    """A station as it is seen from here; `has` are the keys of the blobs that it keeps."""

    actor: Any
    node: str
    has: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Task:
    index: int
    call: Call
    losses: int = 0


class Cluster(Pool):
    """A pool whose workers are on the machines of a Ray cluster; `jobs` is what they hold at once.

    address   `ray`, `ray://HOST:PORT` (Ray's client) or `HOST:PORT`
    identity  import path `module:function` of what says, word by word, what a machine is; only
              those like this one are used: the timings of others would be mixed with its own
    The argument goes to every machine as it is: what it names must be there, too.
    Raises UsageError for an address that is none, PlanishError without Ray or a usable machine.
    """

    def __init__(
        self, address: str, handler: str, argument: Any = None, *, identity: str,
        seconds: float = 30.0, memory: int = 4 << 30,
    ) -> None:  # fmt: skip
        super().__init__(handler, argument, seconds=seconds, memory=memory)
        self._identity = identity
        self._address = address
        self._ray = connect(address)
        self._members: list[_Member] = []
        self._left_out: list[str] = []
        self._lost = 0
        with self._within_reach():
            self._recruit()

    @property
    def info(self) -> Any:
        return self._info

    @property
    def notes(self) -> tuple[str, ...]:
        lost = f"{self._lost} workers of the cluster died; their calls were done again"
        return (*self._left_out, *([lost] if self._lost else []))

    def keep(self, key: str, data: bytes) -> None:
        if self._blobs.get(key) != data:
            for member in self._members:
                member.has.discard(key)
        super().keep(key, data)

    def retire(self, flavour: Hashable) -> None:
        with self._within_reach():
            for member in self._members:
                member.actor.retire.remote(flavour)

    def start(self) -> None:
        """Nothing: its workers have been started."""

    def stream(self, calls: Iterable[Call]) -> Iterator[tuple[int, Reply]]:
        return self._stream(calls, lambda: list(self._members))

    def alone(self, calls: Sequence[Call]) -> list[Reply]:
        return self._ordered(calls, self._stream(calls, self._one_each))

    def close(self) -> None:
        members, self._members = self._members, []
        if not self._ray.is_initialized():
            return  # the connection is gone: Ray would start a cluster of its own now
        with contextlib.suppress(ConnectionError):
            for member in members:
                self._ray.kill(member.actor)

    @contextlib.contextmanager
    def _within_reach(self) -> Iterator[None]:
        """Raises PlanishError where Ray's client has lost the cluster for good."""
        try:
            yield
        except ConnectionError as error:
            raise PlanishError(
                f"the cluster {self._address} is out of reach: {_reason(error)}", hint=_AGAIN
            ) from None

    def _one_each(self) -> list[_Member]:
        """One member of each machine."""
        return list({member.node: member for member in reversed(self._members)}.values())

    def _stream(
        self, calls: Iterable[Call], members: Callable[[], list[_Member]]
    ) -> Iterator[tuple[int, Reply]]:
        try:
            with self._within_reach():
                yield from self._replies(calls, members)
        except BaseException:
            self.close()  # what is in flight ends with its station
            raise

    def _replies(
        self, calls: Iterable[Call], members: Callable[[], list[_Member]]
    ) -> Iterator[tuple[int, Reply]]:
        waiting = iter(_Task(at, call) for at, call in enumerate(calls))
        again: deque[_Task] = deque()
        free, busy = members(), {}
        while True:
            while free:
                task = again.popleft() if again else next(waiting, None)
                if task is None:
                    break
                member = free.pop(0)
                busy[self._send(member, task.call)] = member, task
            if not busy:
                if free:
                    return
                self._recruit()
                free = members()
                continue
            [reference], _ = self._ray.wait(list(busy), num_returns=1)
            member, task = busy.pop(reference)
            reply = self._receive(reference)
            if reply is not None:
                free.append(member)
                yield task.index, reply
                continue
            self._bury_member(member)
            if task.losses + 1 < _TRIES:
                again.append(_Task(task.index, task.call, task.losses + 1))
            else:
                why = f"{_TRIES} workers of the cluster died on it"
                yield task.index, Reply(failure=Failure.CRASH, reason=why)

    def _send(self, member: _Member, call: Call) -> Any:
        blobs = {key: self._blobs[key] for key in call.blobs if key not in member.has}
        member.has.update(blobs)
        return member.actor.run.remote(call, blobs, self.seconds)

    def _receive(self, reference: Any) -> Reply | None:
        """The reply; None where the station is gone."""
        gone = self._ray.exceptions
        try:
            reply: Reply = self._ray.get(reference)
        except (gone.RayActorError, gone.ObjectLostError, gone.WorkerCrashedError):
            return None
        return reply

    def _bury_member(self, member: _Member) -> None:
        self._lost += 1
        self._members.remove(member)
        self._ray.kill(member.actor)  # it may be out of reach only, and busy

    def _recruit(self) -> None:
        """A station for every processor that is free, on machines like this one."""
        self._members.clear()
        self._left_out.clear()
        asked = [(m, m.actor.identity.remote(self._identity)) for m in self._stations()]
        references = [reference for _, reference in asked]
        ready: set[Any] = set()
        if references:
            everyone = {"num_returns": len(references), "timeout": _SECONDS_TO_START}
            ready = set(self._ray.wait(references, **everyone)[0])
        for member, reference in asked:
            why = self._refused(reference) if reference in ready else "its processors are taken"
            if not why:
                self._members.append(member)
                continue
            self._ray.kill(member.actor)
            note = f"machine {member.node} is left out: {why}"
            if note not in self._left_out:
                self._left_out.append(note)
        self.jobs = len(self._members)
        if not self._members:
            raise PlanishError(
                "no machine of the cluster can be used: "
                + ("; ".join(self._left_out) or "it has none that is alive"),
                hint=_AGAIN,
            )

    def _stations(self) -> Iterator[_Member]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        station = self._ray.remote(Station)
        for node in sorted(self._ray.nodes(), key=lambda node: str(node["NodeID"])):
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            for _ in range(int(node["Resources"].get("CPU", 0)) if node["Alive"] else 0):
                actor = station.options(num_cpus=1, scheduling_strategy=place).remote(
                    self._handler, self._argument, self.seconds, self.memory
                )
                yield _Member(actor, f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})")

    def _refused(self, reference: Any) -> str:
        """Why a station cannot be used; nothing where it can. The first one settles `info`."""
        try:
            found, info = self._ray.get(reference)
        except Exception as error:  # whatever it is that this machine lacks
            return _reason(error, -1)
        for word, here in _identity(self._identity).items():
            if found.get(word) != here:
                return f"its {word} is {found.get(word)}, and {here} here"
        if self._info is not None and info != self._info:
            return "its workers have loaded another version"
        self._info = info
        return ""


def check_address(address: str) -> None:
    """Raises UsageError where it is no address of a Ray cluster."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address != LOCAL and not (host and colon and port.isdigit()):
        raise UsageError(f"'{address}' names no cluster", hint="ray, ray://HOST:10001 or HOST:6379")


def connect(address: str) -> Any:
    """Ray, connected to the cluster; what is connected already stays so."""
    check_address(address)
    try:
        import ray
    except ImportError:
        raise PlanishError(
            "workers of a cluster need Ray, which is not installed",
            hint="pip install 'planish[ray]'",
        ) from None
    if ray.is_initialized():
        return ray
    if address != LOCAL:
        _knock(address)
    keep_ray_quiet()
    given: dict[str, Any] = {"address": address}
    if address == LOCAL:
        given = {"include_dashboard": False}
    try:
        try:
            ray.init(**given, **_LESS_LOGGED)
        except ConnectionAbortedError:
            # The head starts a process for each client, and now and then that one does not come up.
            ray.init(**given, **_LESS_LOGGED)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(address, _reason(error)) from None
    return ray


def _reason(error: Exception, line: int = 0) -> str:
    """The first line of what Ray says, or another one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[line].rstrip(":")


def _knock(address: str) -> None:
    """Raises PlanishError where nothing listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str, why: str) -> PlanishError:
    return PlanishError(
        f"cannot connect to the cluster {address}: {why}",
        hint="is it running? `ray status` there says so",
    )


def _identity(function: str) -> Identity:
    module, name = function.split(":")
    found: Identity = getattr(importlib.import_module(module), name)()
    return found
