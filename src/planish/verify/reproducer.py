"""A refutation as files: both modules and one command that replays it."""

from __future__ import annotations

import shlex
from pathlib import Path

from planish.base.files import check_writable, write_atomic
from planish.verify.requests import FunctionVerdict

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


def save(folder: Path, before: bytes, after: bytes, refuted: FunctionVerdict) -> Path:
    """Write the modules and `replay.sh` below `folder`; the path of the script.

    Raises UsageError where nothing can be written.
    """
    script = folder / "replay.sh"
    check_writable(script)
    names = []
    for name, data in (("before", before), ("after", after)):
        path = folder / (name + (".bc" if data.startswith(_BITCODE) else ".ll"))
        write_atomic(path, data)
        names.append(path.name)
    command = shlex.join(["planish", "verify", *names, "--no-store", "-f", refuted.function])
    words = refuted.input.replace("\n", " ")
    write_atomic(script, f'#!/bin/sh\n# {words}\ncd "$(dirname "$0")" && {command}\n')
    return script
