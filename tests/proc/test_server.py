"""The warm process: it does what the caller would have done, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
_CLIENT = """
import sys
from planish.proc import client
code = client.run(sys.argv[1:], "commands:warm", "commands:run")
print("nobody" if code is None else "", file=sys.stderr)
sys.exit(77 if code is None else code)
"""


class Ask:
    """Asks for commands with a folder of its own for the server's socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir(exist_ok=True)
        path = os.pathsep.join([str(FOLDER), *filter(None, sys.path)])
        self.environment = {
            **os.environ, "XDG_RUNTIME_DIR": str(folder / "run"), "PYTHONPATH": path,
            "PLANISH_SERVER": "20", "COLOUR": "green",
        }  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _CLIENT, *words], cwd=self.folder, env=self.environment,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            process_group=0,
        )  # fmt: skip

    def __call__(self, *words: str, data: str = "") -> tuple[int, str, str]:
        process = self.start(*words)
        out, errors = process.communicate(data, timeout=60)
        return process.returncode, out, errors

    def until_there(self) -> None:
        wait_for(lambda: self("tell")[0] == 3)

    def servers(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"planish.proc.server\0{self.folder}/".encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    asking = Ask(tmp_path)
    yield asking
    for pid in asking.servers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def test_files_that_appear_in_the_caller_s_folder_need_no_other_server(ask: Ask) -> None:
    # `python -m` puts the folder it is started in before all others.
    ask.environment["PYTHONPATH"] += os.pathsep + str(ask.folder)
    ask.until_there()
    for number in range(3):
        (ask.folder / f"{number}.o").write_bytes(b"")
        assert ask("tell")[0] == 3
    assert len(ask.servers()) == 1


def test_the_first_works_alone_and_the_next_are_run(ask: Ask) -> None:
    assert ask("tell")[0] == 77, "the first does not wait for a server"
    ask.until_there()
    code, out, errors = ask("tell", "a b", "ü", data="from stdin")
    assert (code, errors.strip()) == (3, "to stderr")
    assert out.splitlines() == ["begins tell", f"1 {ask.folder} green from stdin a b ü"]
    ask.environment["COLOUR"] = "red"
    assert "red" in ask("tell")[1], "nothing of one command is left for the next"


def test_off_is_off(ask: Ask) -> None:
    ask.environment["PLANISH_SERVER"] = "off"
    assert ask("tell")[0] == 77
    time.sleep(0.3)
    assert not ask.servers()


def test_failures_are_the_commands_own(ask: Ask) -> None:
    ask.until_there()
    code, _, errors = ask("fails")
    assert code == 1 and "ValueError: a bug" in errors
    assert ask("dies")[0] == 77, "a crash is no answer: the client does it itself"
    assert ask("tell")[0] == 3, "the server outlives what it forked"


def test_interrupts_and_kills_reach_what_was_forked(ask: Ask) -> None:
    ask.until_there()
    for how in (signal.SIGINT, signal.SIGKILL):
        note = ask.folder / f"pid-{how}"
        client = ask.start("waits", str(note))
        wait_for(lambda note=note: note.exists() and note.read_text())  # type: ignore[misc]
        client.send_signal(how)
        out, _ = client.communicate(timeout=60)
        pid = int(note.read_text())
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())  # type: ignore[misc]
        if how == signal.SIGINT:
            assert client.returncode == 130 and "interrupted" in out


def test_where_the_server_dies_the_caller_works_alone(ask: Ask) -> None:
    ask.until_there()
    note = ask.folder / "pid"
    client = ask.start("waits", str(note))
    wait_for(note.exists)
    for server in ask.servers():
        os.kill(server, signal.SIGKILL)
    client.communicate(timeout=60)
    assert client.returncode == 77
    wait_for(lambda: not Path(f"/proc/{note.read_text()}").exists())


def test_many_at_once(ask: Ask) -> None:
    ask.until_there()
    clients = [ask.start("tell", str(at)) for at in range(8)]
    for at, client in enumerate(clients):
        out, _ = client.communicate("", timeout=60)
        assert client.returncode == 3 and out.endswith(f" {at}\n")
    assert len(ask.servers()) == 1


def test_a_server_without_work_ends(ask: Ask) -> None:
    ask.environment["PLANISH_SERVER"] = "0.3"
    ask("tell")
    wait_for(ask.servers)
    wait_for(lambda: not ask.servers())
    folder = ask.folder / "run" / f"planish-{os.getuid()}"
    assert not [path for path in folder.iterdir() if path.suffix != ".lock"]


def test_a_folder_of_others_is_not_used(ask: Ask) -> None:
    folder = ask.folder / "run" / f"planish-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert ask("tell")[0] == 77
    time.sleep(0.3)
    assert not ask.servers()


def test_another_version_gets_another_server(ask: Ask) -> None:
    ask.until_there()
    ask.environment["PLANISH_LLVM"] = "/elsewhere/libLLVM.so"
    assert ask("tell")[0] == 77
