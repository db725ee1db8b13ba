"""Two nodes of a local Ray cluster, one of which is killed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planish.base.errors import PlanishError, UsageError
from planish.base.records import Failure
from planish.proc import cluster
from planish.proc.cluster import Cluster, check_address
from planish.proc.pool import Call, Reply

FOLDER = Path(__file__).parent
IDENTITY = "steady:identity"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head with one processor; tests add others."""
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster as Local

    source = Path(cluster.__file__).parents[2]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), str(source)])
    sys.path.insert(0, str(FOLDER))
    local = Local(initialize_head=True, head_node_args={"num_cpus": 1})
    yield local
    ray.shutdown()
    local.shutdown()
    sys.path.remove(str(FOLDER))
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


def _open(nodes: Any, argument: Any = "hello", identity: str = IDENTITY) -> Cluster:
    return Cluster(
        nodes.address, "steady:factory", argument, identity=identity, seconds=20, memory=4 << 30
    )


def _echoes(count: int, seconds: float = 0.0) -> list[Call]:
    return [Call("plain", ("echo", at, seconds)) for at in range(count)]


def test_a_node_that_is_killed_loses_nothing(nodes: Any) -> None:
    calls = _echoes(16, 0.2)
    with _open(nodes) as alone:
        assert alone.jobs == 1 and not alone.notes
        expected = alone.run(calls)
    second = nodes.add_node(num_cpus=1)
    with _open(nodes) as both:
        assert both.jobs == 2
        found: dict[int, Reply] = {}
        for index, reply in both.stream(calls):
            found[index] = reply
            if len(found) == 4:
                nodes.remove_node(second, allow_graceful=False)
        assert [found[at] for at in range(len(calls))] == expected
        assert both.run(_echoes(3)) == expected[:3]
        assert any("died" in note for note in both.notes)


def test_calls_that_crash_or_hang_cost_themselves_only(nodes: Any) -> None:
    with _open(nodes) as pool:
        pool.seconds = 2
        bad = [Call("plain", request) for request in (("hang",), ("abort", "so"), ("fail", "no"))]
        replies = pool.run([*bad, *_echoes(1)])
    assert [r.failure for r in replies] == [
        Failure.TIMEOUT, Failure.CRASH, Failure.INVALID, None,
    ]  # fmt: skip


def test_blobs_are_sent_once_to_a_worker_and_again_when_they_change(nodes: Any) -> None:
    with _open(nodes) as pool:
        pool.keep("a", b"123")
        call = Call("plain", ("blob_sizes",), ("a",))
        assert [r.value for r in pool.run([call, call])] == [({"a": 3}, 1)] * 2
        pool.keep("a", b"12345")
        assert pool.run([call])[0].value == ({"a": 5}, 2)
        pool.retire("plain")
        assert pool.run([call])[0].value == ({"a": 5}, 1)


def test_one_call_at_a_time_on_each_machine(nodes: Any) -> None:
    wide = nodes.add_node(num_cpus=2)
    try:
        with _open(nodes, argument="each its own") as pool:
            assert pool.jobs == 1 and "another version" in pool.notes[0]
        with _open(nodes) as pool:
            assert pool.jobs == 3
            parents = {r.value for r in pool.alone([Call("plain", ("parent",))] * 8)}
            assert len(parents) == 2
    finally:
        nodes.remove_node(wide, allow_graceful=False)


def test_machines_that_differ_are_left_out(nodes: Any) -> None:
    with pytest.raises(PlanishError, match="left out: its machine is"):
        _open(nodes, identity="steady:another_each_time")
    with pytest.raises(PlanishError, match="no such library"):
        _open(nodes, argument="raise")


@pytest.mark.parametrize("address", ["rays", "ray://", "ray://host", "host:port", ":1"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(UsageError, match="names no cluster"):
        check_address(address)


@pytest.mark.parametrize("address", ["ray://127.0.0.1:{port}", "127.0.0.1:{port}"])
def test_where_nothing_listens_is_told_before_ray_tries_for_minutes(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens: no other process can have the port
        address = address.format(port=taken.getsockname()[1])
        with pytest.raises(PlanishError, match="cannot connect to the cluster"):
            cluster.connect(address)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_client_whose_server_did_not_come_up_tries_once_more(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    asked: list[str] = []

    def init(address: str, **_: object) -> None:
        asked.append(address)
        if len(asked) <= failures:
            raise ConnectionAbortedError("Initialization failure from server:\nit died")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
        if failures == 1:
            assert cluster.connect(address) is ray
        else:
            with pytest.raises(PlanishError, match="failure from server"):
                cluster.connect(address)
    assert asked == [address] * 2
