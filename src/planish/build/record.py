"""Recording a build: its compilers are replaced by ones that note every unit and every link."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from planish.base.config import BuildConfig, named_compilers, read_build_config, with_environment
from planish.base.errors import UsageError
from planish.build import units
from planish.build.blobs import Blobs
from planish.build.cc import real_compiler

SHIMS = "shims"
_PLAIN = {
    "cc": "cc", "gcc": "cc", "clang": "cc", "c99": "cc", "c++": "c++", "g++": "c++",
    "clang++": "c++",
}  # fmt: skip
# Compilers of a version or for a target: gcc-12, arm-none-eabi-gcc, clang++-19.
_OTHERS = re.compile(r"(?:(.+)-)?(gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(-[\d.]+)?")
_LINKERS = re.compile(r"(?:(.+)-)?(ld|ld\.lld|ld\.bfd|ld\.gold)")


def record(command: Sequence[str], folder: Path) -> tuple[int, units.Recording]:
    """Run a build command; its exit code, and the units and links that it made.

    Compilers called by name are found first in a folder of shims at the front of PATH; CC and CXX
    name them as well. The shims stay in `.planish`, since what configures a build (CMake, Meson)
    writes down the compilers' paths: outside a recording they are `planish cc`.
    """
    if not command:
        raise UsageError("nothing to record", hint="planish record -- make")
    record_folder = (folder / units.FOLDER).resolve()
    units.begin(record_folder)
    shims = record_folder / SHIMS
    given = read_build_config()
    if str(shims) in given.path:
        raise UsageError("this is a recording already", hint="record the outer command only")
    named = named_compilers(shims)
    real = {
        role: shlex.join(real_compiler(role, given)) if given.compilers[role] or not named[role]
        else named[role]
        for role in ("cc", "c++")
    }  # fmt: skip
    _make_shims(shims, given, real)
    # Only a linker that was asked for: to many build files LD is the compiler.
    linker = {"LD": str(shims / "ld")} if given.compilers["ld"] else {}
    environment = with_environment(
        PATH=os.pathsep.join([str(shims), *given.path]),
        PLANISH_SHIMS=str(shims),
        PLANISH_RECORD=str(record_folder),
        CC=str(shims / "cc"),
        CXX=str(shims / "c++"),
        **linker,
    )
    try:
        code = subprocess.run(list(command), env=environment).returncode
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error
    found = units.read(record_folder)
    Blobs(record_folder).sweep(units.contents(found))
    return code, found


def _make_shims(shims: Path, given: BuildConfig, real: dict[str, str]) -> None:
    shutil.rmtree(shims, ignore_errors=True)
    shims.mkdir(parents=True)
    for path, role in _found(given):
        _shim(shims / path.name, role, str(path))
    for name, role in _PLAIN.items():
        _shim(shims / name, role, real[role])
    if given.compilers["ld"]:
        _shim(shims / "ld", "ld", given.compilers["ld"])


def _found(given: BuildConfig) -> Iterator[tuple[Path, str]]:
    """Compilers and linkers of PATH with a version, a target or none in their name."""
    seen: set[str] = set()
    for folder in given.path:
        try:
            names = sorted(path.name for path in Path(folder).iterdir())
        except OSError:
            continue
        for name in names:
            compiler, linker = _OTHERS.fullmatch(name), _LINKERS.fullmatch(name)
            if name in seen or name in _PLAIN or not (compiler or linker):
                continue
            seen.add(name)
            role = "ld" if linker else "c++" if "++" in name else "cc"
            yield Path(folder) / name, role


def _shim(path: Path, role: str, real: str) -> None:
    variable = {"cc": "PLANISH_CC", "c++": "PLANISH_CXX", "ld": "PLANISH_LD"}[role]
    path.write_text(
        f"#!/bin/sh\n{variable}={shlex.quote(real)} PLANISH_SHIMS={shlex.quote(str(path.parent))} "
        # Not -m, which takes longer to start; -P, or a file of the project may be imported.
        f"exec {shlex.quote(sys.executable)} -P -c 'from planish.entry import main; main()' "
        f'{role} "$@"\n'
    )
    path.chmod(0o755)
