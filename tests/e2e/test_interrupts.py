"""Ctrl-C and kill -9 in the middle of a search: what is kept, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planish.llvm.recipe import Recipe
from planish.measure.machine import processor
from planish.store.lockfile import load

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return run(folder, "opt", str(LZSS), *words)


def run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "planish.cli.main", *words]
    # Apart from this process' group, so that a signal reaches the command alone.
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def wait_for(condition: object, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def stored(folder: Path) -> int:
    import sqlite3

    path = Path(os.environ["PLANISH_CACHE"]) / "store.db"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(path, timeout=5) as db:
            return int(db.execute("SELECT count(*) FROM outcomes").fetchone()[0])
    except sqlite3.Error:
        return 0


def using(cache: str) -> set[int]:
    """Processes that were started with this cache, whoever their parent is by now."""
    found = set()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PLANISH_CACHE={cache}".encode() in environment.read_bytes().split(b"\0"):
                found.add(int(environment.parent.name))
        except OSError:
            continue
    return found - {os.getpid()}


def test_ctrl_c_keeps_the_best_so_far(tmp_path: Path) -> None:
    process = start(tmp_path, "--budget", "100000")
    assert wait_for(lambda: stored(tmp_path) >= 8)
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"interrupted" in out
    [entry] = load(tmp_path / "planish.lock").entries
    assert entry.result < entry.baseline
    assert (tmp_path / "lzss.o").exists()
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), 10)


def test_a_killed_search_leaves_no_process_and_goes_on_where_it_was(tmp_path: Path) -> None:
    process = start(tmp_path, "--budget", "100000")
    assert wait_for(lambda: stored(tmp_path) >= 8)
    family = descendants(process.pid)
    assert family
    process.kill()
    process.communicate(timeout=60)
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in family), 10)
    assert [p.name for p in tmp_path.iterdir()] == ["cache"], "nothing is half-written"
    before = stored(tmp_path)
    resumed = start(tmp_path, "--budget", "12", "--json")
    out, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    assert before > 0
    fresh = start(tmp_path, "--budget", "12", "--no-store", "--lock", "fresh.lock", "-o", "f.o")
    fresh.communicate(timeout=120)
    [one] = load(tmp_path / "planish.lock").entries
    [two] = load(tmp_path / "fresh.lock").entries
    assert Recipe.parse(one.recipe) == Recipe.parse(two.recipe)
    assert (tmp_path / "lzss.o").read_bytes() == (tmp_path / "f.o").read_bytes()
    assert b'"cached"' in out


@pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")
@pytest.mark.parametrize("policy", ["genetic", "random"])
def test_a_killed_kernel_search_goes_on_from_what_is_stored(tmp_path: Path, policy: str) -> None:
    lock, cache = tmp_path / "planish.lock", os.environ["PLANISH_CACHE"]
    words = ["tune-kernel", "mk,kn->mn", "--lock", "planish.lock", "--json", "--shape"]
    other = run(tmp_path, *words, "m=8,k=8,n=16", "--budget", "1", "--no-store")
    other.communicate(timeout=120)
    kept = lock.read_bytes()
    words += ["m=20,k=24,n=70", "--budget", "100", "--policy", policy, "--seed", "5"]
    process = run(tmp_path, *words)
    assert wait_for(lambda: stored(tmp_path) >= 8)
    assert len(using(cache)) > 1
    process.kill()
    process.communicate(timeout=60)
    assert wait_for(lambda: not using(cache), 10), "its workers end with it"
    assert lock.read_bytes() == kept
    before = stored(tmp_path)
    resumed = run(tmp_path, *words)
    out, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    found = json.loads(out)
    # The rules' schedule is on record, too, and is no candidate. The same seed and the same values
    # lead to the same candidates, so that each record is met again.
    assert found["cached"] >= before - 1 >= 7
    assert found["measured"] == stored(tmp_path) - before <= 100 - (before - 1)
    assert {entry.source for entry in load(lock).entries} == {
        "einsum mk,kn->mn m=8,k=8,n=16 f32", "einsum mk,kn->mn m=20,k=24,n=70 f32",
    }  # fmt: skip
    again = run(tmp_path, *words)
    assert json.loads(again.communicate(timeout=120)[0])["measured"] == 0
    assert not using(cache)
