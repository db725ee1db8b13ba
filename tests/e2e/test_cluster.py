"""The commands with the workers of a Ray cluster, through Ray's client."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import planish
from planish.measure.machine import processor

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
native = pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")


# A cluster of one machine with two processors, until nobody writes to it any more.
_HEAD = """
import sys
from ray.cluster_utils import Cluster
port = int(sys.argv[1])
local = Cluster(
    initialize_head=True, head_node_args={"num_cpus": 2, "ray_client_server_port": port}
)
sys.stdin.read()
local.shutdown()
"""


@contextlib.contextmanager
def _cluster() -> Iterator[str]:
    """The address at which a cluster's client server listens."""
    for module in ("ray", "grpc"):  # Ray's client needs both
        pytest.importorskip(module)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {
        "PYTHONPATH": str(Path(planish.__file__).parents[1]),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with subprocess.Popen(
        [sys.executable, "-c", _HEAD, str(port)], env={**os.environ, **more},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as head:  # fmt: skip
        while head.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"ray://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with _cluster() as found:
        yield found


def _run(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "planish.cli.main", *words]
    # Seconds for which Ray's client waits for a server that is gone.
    more = {"RAY_CLIENT_RECONNECT_GRACE_PERIOD": "2"}
    return subprocess.Popen(
        command, cwd=folder, env={**os.environ, **more}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return out


@native
def test_a_kernel_is_tuned_by_the_workers_of_a_cluster(tmp_path: Path, address: str) -> None:
    words = ["tune-kernel", "mk,kn->mn", "--shape", "m=20,k=24,n=70", "--budget", "8", "--json"]
    found = json.loads(_finished(_run(tmp_path, *words, "--workers", address)))
    assert 1 <= found["measured"] <= 8 and found["best_seconds"] <= found["baseline_seconds"]
    # The records are in the store of the machine that asks.
    again = json.loads(_finished(_run(tmp_path, *words)))
    assert again["measured"] == 0 and again["cached"] >= found["measured"]


def test_builds_of_a_cluster_give_the_same_bytes(tmp_path: Path, address: str) -> None:
    words = ["opt", str(LZSS), "--budget", "24", "--no-store"]
    files = {"here": (), "there": ("--workers", address)}
    for name, more in files.items():
        _finished(_run(tmp_path, *words, "-o", f"{name}.o", "--lock", f"{name}.lock", *more))
    assert (tmp_path / "here.o").read_bytes() == (tmp_path / "there.o").read_bytes()
    assert (tmp_path / "here.lock").read_text() == (tmp_path / "there.lock").read_text()


@native
def test_a_cluster_that_is_lost_for_good_is_one_line(tmp_path: Path) -> None:
    words = ["tune-kernel", "mk,kn->mn", "--shape", "m=20,k=24,n=70", "--budget", "100000"]
    with _cluster() as found:
        process = _run(tmp_path, *words, "--json", "--workers", found)
        while process.poll() is None and not _stored():
            time.sleep(0.1)
    _, err = process.communicate(timeout=240)
    # Whether its machine or its server is missed first is a matter of luck.
    [told] = [line for line in err.splitlines() if line.startswith("planish: error: ")]
    assert "out of reach" in told or "none that is alive" in told
    assert "outcomes so far are in the store" in told
    assert process.returncode == 2 and "Traceback" not in err, err
    assert _stored()


def _stored() -> int:
    path = Path(os.environ["PLANISH_CACHE"]) / "store.db"
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as db:
            return int(db.execute("SELECT count(*) FROM outcomes").fetchone()[0])
    except sqlite3.Error:
        return 0
