"""Ask a warm process to run a command: what a replay would load first, it holds already.

A replay is a part of a build, which starts a thousand of them; starting Python and loading a
compiler's library takes longer than compiling a small file. The first replay starts a server
(`server.py`) beside its own work and does not wait for it; those that follow are run by it, each
in a process forked for it, with the caller's arguments, folder, environment and open files. It
ends after a while without work. Where there is none, the caller does the work itself.

This file imports next to nothing: that is what makes it worth having.
"""

from __future__ import annotations

import marshal
import os
import sys
from binascii import crc32

from planish.base.config import ServerConfig, read_server_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

_LENGTH_BYTES, CODE_BYTES, _INT_BYTES = 8, 4, 4
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
INTERRUPT = b"i"

# Set in a process that the server forked: it must not ask the server again.
served = False


def run(words: Sequence[str], warm: str, command: str) -> int | None:
    """The exit code of `command` for these words, run by the server; None where there is none.

    warm, command  `module:function`: what the server loads before it waits, and what it calls
                   with the words in `sys.argv`
    """
    given = read_server_config()
    if served or not given.seconds or not sys.platform.startswith("linux"):
        return None
    folder = _private(given.folder)
    if folder is None:
        return None
    identity = _identity(given, warm, command)
    path = f"{folder}/{crc32(identity):08x}"
    # What the module `socket` is made of: that one takes as long to import as all of this file.
    from _socket import AF_UNIX, SOCK_STREAM, socket

    channel = socket(AF_UNIX, SOCK_STREAM)
    try:
        try:
            channel.connect(path)
        except OSError:
            _start(path, given, warm, command, identity)
            return None
        try:
            _send(channel, identity, words)
            return _wait(channel)
        except OSError:  # it died; files are written whole or not at all, so begin again
            return None
    finally:
        channel.close()


def _private(folder: str) -> str | None:
    """The folder, made if need be; None where others could put a socket of theirs into it."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)  # noqa: PTH103
        state = os.lstat(folder)
    except OSError:
        return None
    return None if state.st_uid != os.getuid() or state.st_mode & 0o077 else folder


def _identity(given: ServerConfig, warm: str, command: str) -> bytes:
    """What a server must have been started with, to do what this process would do itself."""
    # Not the folder that the caller stands in, which every object file changes.
    packages = [path for path in sys.path if path.endswith("-packages")]
    wheels = os.path.dirname(os.path.dirname(os.__file__)), *packages  # noqa: PTH120
    changed = [os.stat(path).st_mtime_ns for path in wheels if os.path.isdir(path)]  # noqa: PTH112, PTH116
    return marshal.dumps((sys.executable, _changed(), max(changed), warm, command, given.identity))


def _changed() -> int:
    """When the package was last changed, in ns; 0 where installers change a folder of `wheels`."""
    installed = os.path.basename(os.path.dirname(_PACKAGE)).endswith("-packages")  # noqa: PTH119, PTH120
    return 0 if installed else _newest(_PACKAGE)


def _newest(folder: str) -> int:
    """When a file of the folder was last changed, in ns."""
    newest = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    newest = max(newest, _newest(entry.path))
            elif entry.name.endswith(".py"):
                newest = max(newest, entry.stat().st_mtime_ns)
    return newest


def _start(path: str, given: ServerConfig, warm: str, command: str, identity: bytes) -> None:
    """Start the server and leave it to itself; one that cannot start is not missed."""
    words = [sys.executable, "-P", "-m", "planish.proc.server", path, f"{given.seconds}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    files = [(os.POSIX_SPAWN_OPEN, at, os.devnull, os.O_RDWR, 0) for at in range(3)]
    try:
        os.posix_spawn(
            sys.executable, [*words, warm, command, identity.hex()], environment,
            file_actions=files, setsid=True,
        )  # fmt: skip
    except (OSError, NotImplementedError):
        return


def _send(channel: socket, identity: bytes, words: Sequence[str]) -> None:
    from _socket import SCM_RIGHTS, SOL_SOCKET

    mask = os.umask(0o077)
    os.umask(mask)
    body = marshal.dumps(
        (
            identity, list(words), os.getcwd(), dict(os.environ), mask,  # noqa: PTH109
            os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)),
        )
    )  # fmt: skip
    streams = b"".join(at.to_bytes(_INT_BYTES, sys.byteorder) for at in range(3))
    channel.sendmsg(
        [len(body).to_bytes(_LENGTH_BYTES, "little")], [(SOL_SOCKET, SCM_RIGHTS, streams)]
    )
    channel.sendall(body)


def _wait(channel: socket) -> int | None:
    """The exit code; None when the server has nothing to say (it refused, or died)."""
    code = b""
    while len(code) < CODE_BYTES:
        try:
            part = channel.recv(CODE_BYTES - len(code))
        except KeyboardInterrupt:
            channel.sendall(INTERRUPT)
            continue
        if not part:
            return None
        code += part
    return int.from_bytes(code, "little")
