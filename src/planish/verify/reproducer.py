"""A refutation as files: both modules and one command that replays it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from planish.base.files import check_writable, write_atomic
from planish.verify.requests import FunctionVerdict

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


def save_passes(folder: Path, module: bytes, passes: Sequence[str], function: str) -> Path:
    """Write a module and `replay.sh`, which runs the passes on it; the path of the script."""
    script = folder / "replay.sh"
    check_writable(script)
    path = folder / ("module.bc" if module.startswith(_BITCODE) else "module.ll")
    write_atomic(path, module)
    words = [path.name, "--passes", ",".join(passes), "--no-store", "-f", function]
    command = shlex.join(["planish", "verify", *words])
    plain = shlex.join(["opt", "-S", f"-passes={','.join(passes)}", path.name])
    text = f'#!/bin/sh\n# with LLVM alone: {plain}\ncd "$(dirname "$0")" && {command}\n'
    write_atomic(script, text)
    return script


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
