"""Replays by a warm process and without one: the same bytes, exit codes and words."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.cli.main import main

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copy(LZSS, tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["opt", "lzss.c", "--budget", "3", "-q", "-o", "first.o"])
    yield tmp_path
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"planish.proc.server\0{tmp_path}/".encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def _run(folder: Path, server: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PLANISH_SERVER": server, "XDG_RUNTIME_DIR": str(folder),
        "PLANISH_VERBOSE": "1", "PLANISH_CC": "false",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "planish.entry", *words], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is Linux only")
def test_a_warm_process_gives_the_same(project: Path) -> None:
    replay = ("opt", "lzss.c", "--replay", "-o", "again.o")
    commands = [
        replay,
        ("cc", "-Oz", "-c", "lzss.c", "-o", "again.o"),
        ("opt", "no.c", "--replay"),
        ("opt", "lzss.c", "--replay", "--json", "-o", "again.o"),
    ]
    cold = {}
    for words in commands:
        done = _run(project, "off", *words)
        cold[words] = (done.returncode, done.stderr)
    _run(project, "30", *replay)
    sockets = project / f"planish-{os.getuid()}"
    deadline = time.monotonic() + 60
    while not any(path.is_socket() for path in sockets.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for words in commands:
        (project / "again.o").unlink(missing_ok=True)
        done = _run(project, "30", *words)
        assert (done.returncode, done.stderr) == cold[words]
        if done.returncode == 0:
            same = (project / "again.o").read_bytes() == (project / "first.o").read_bytes()
            assert same, words


def test_a_replay_imports_nothing_that_searches(project: Path) -> None:
    code = (
        "import sys; from planish.entry import run; sys.argv = ['planish', 'opt', 'lzss.c', "
        "'--replay', '-o', 'again.o']\n"
        "try: run()\nexcept SystemExit as end: assert not end.code\n"
        "heavy = ('numpy', 'rich', 'planish.search', 'planish.verify', 'planish.model', "
        "'planish.store.store', 'planish.measure.timer')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
