"""Recording a build: its compilers are replaced by ones that note every unit."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from planish.base.config import read_build_config, with_environment
from planish.base.errors import UsageError
from planish.build import units
from planish.build.cc import real_compiler

_NAMES = {
    "cc": "cc", "gcc": "cc", "clang": "cc", "c99": "cc", "c++": "c++", "g++": "c++",
    "clang++": "c++",
}  # fmt: skip


def record(command: Sequence[str], folder: Path) -> tuple[int, list[units.Recorded]]:
    """Run a build command; its exit code and the units it compiled.

    Compilers called by name (cc, gcc, clang, c++, ..) are found first in a folder of shims at the
    front of PATH; CC and CXX name them as well.
    """
    if not command:
        raise UsageError("nothing to record", hint="planish record -- make")
    record_folder = folder / units.FOLDER
    units.begin(record_folder)
    given = read_build_config()
    real = {role: shlex.join(real_compiler(role, given)) for role in ("cc", "c++")}
    with tempfile.TemporaryDirectory(prefix="planish-") as place:
        for name, role in _NAMES.items():
            _shim(Path(place) / name, role)
        environment = with_environment(
            PATH=os.pathsep.join([place, *given.path]),
            PLANISH_SHIMS=place,
            PLANISH_RECORD=str(record_folder.resolve()),
            PLANISH_CC=real["cc"],
            PLANISH_CXX=real["c++"],
            CC=str(Path(place) / "cc"),
            CXX=str(Path(place) / "c++"),
        )
        try:
            code = subprocess.run(list(command), env=environment).returncode
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error
    return code, units.load(record_folder)


def _shim(path: Path, role: str) -> None:
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m planish.entry {role} "$@"\n')
    path.chmod(0o755)
