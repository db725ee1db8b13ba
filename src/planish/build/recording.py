"""What is noted of one command of a recorded build, after the real compiler has done it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planish.base.errors import PlanishError
from planish.base.hashing import digest
from planish.build import archives
from planish.build.at_once import compile_plainly, in_parts
from planish.build.blobs import Blobs
from planish.build.invocation import Command, Unit
from planish.build.units import Input, Link, Recorded, append

_CODE = (".text", ".eh_frame", ".ARM.ex", "code")


def run_and_note(
    compiler: Sequence[str],
    words: Sequence[str],
    real: Mapping[str, str],
    command: Command,
    record: Path,
    *,
    direct: bool = False,
    target: str = "",
) -> int:
    """Run the command as it stands and note its units or its link; the compiler's exit code.

    real    the real compiler's environment
    direct  whether it is the linker itself
    target  the triple that the compiler's name says
    """
    if command.units and command.links:
        code = _at_once(compiler, words, real, command, record, target)
        if code is not None:
            return code
        command = Command()  # the compiler says itself what is wrong
    # Without the shims: what a compiler calls (gcc calls `ld`) is no command of the build.
    code = subprocess.run([*compiler, *words], env=real).returncode
    if code:
        return code
    for unit in command.units:
        append(record, _note(unit, (*compiler, *words), command, record, target))
    if command.links:
        append(record, _link(compiler, command, record, direct))
    return code


def _at_once(
    compiler: Sequence[str],
    words: Sequence[str],
    real: Mapping[str, str],
    command: Command,
    record: Path,
    target: str,
) -> int | None:
    """Compile and link in parts, and note them; None where an object cannot be made so."""
    named = iter(command.units)  # by what the units are called afterwards
    noted: list[Recorded] = []

    def make(unit: Unit) -> bool:
        made = compile_plainly(compiler, unit, real)
        if made:
            output = Path(unit.output)
            whole = (*compiler, *words)
            noted.append(_note(next(named), whole, command, record, target, output))
        return made

    def note(link: Command) -> None:
        for unit in noted:
            append(record, unit)
        append(record, _link(compiler, link, record, False))

    return in_parts(compiler, command, real, make, note)


def _note(
    unit: Unit,
    words: tuple[str, ...],
    command: Command,
    record: Path,
    target: str,
    path: Path | None = None,
) -> Recorded:
    """path: where the object lies, if not at its name."""
    made = _read(path or Path(unit.output))
    # An object that is bitcode for the linker has no size of its own.
    sections = {} if command.lto else _sections(made)
    flags = (f"--target={target}", *unit.flags) if target else unit.flags
    bitcode, problem = "", command.problem
    try:
        bitcode = Blobs(record).put(_bitcode(unit, flags))
    except PlanishError as error:
        problem = problem or str(error)
    return Recorded(
        str(Path.cwd()), unit.source, unit.output, flags, sum(sections.values()), words, bitcode,
        digest(made), problem, sum(s for n, s in sections.items() if n.startswith(_CODE)),
    )  # fmt: skip


def _bitcode(unit: Unit, flags: tuple[str, ...]) -> bytes:
    from planish.llvm.toolchain import find_toolchain
    from planish.tune.source import Request, read_source

    return read_source(Path(unit.source), Request(flags, named=unit.source), find_toolchain())


def _link(compiler: Sequence[str], command: Command, record: Path, direct: bool) -> Link:
    inputs = tuple(_inputs(command, record))
    own = sum(_sections(_read(Path(command.output))).values())
    return Link(
        str(Path.cwd()), command.output, tuple(compiler), direct, command.words, inputs, own
    )


def _inputs(command: Command, record: Path) -> Iterator[Input]:
    """The link's own objects and archives; shared libraries and the system's are not kept."""
    blobs = Blobs(record)
    folders = _library_folders(command.words)
    for at in command.inputs:
        word = command.words[at]
        path = _library(word, command.words, at, folders) if _is_library(command, at) else word
        data = _read(Path(path)) if path else b""
        if archives.is_archive(data):
            try:
                found = list(archives.members(data, Path(path).parent))
            except PlanishError:
                continue  # left as the path that it is
            members = tuple((name, blobs.put(content)) for name, content in found)
            yield Input(at, path, True, members)
        elif _is_object(data):
            yield Input(at, path, False, ((path, blobs.put(data)),))


def _is_object(data: bytes) -> bool:
    """An ELF file to be linked (e_type is ET_REL), or bitcode."""
    return (data[:4] == b"\x7fELF" and 1 in (data[16], data[17])) or data[:2] == b"BC"


def _is_library(command: Command, at: int) -> bool:
    before = command.words[at - 1] if at else ""
    return before == "-l" or command.words[at].startswith("-l")


def _library_folders(words: Sequence[str]) -> list[str]:
    folders = [word[2:] for word in words if word.startswith("-L") and len(word) > 2]
    return folders + [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-L"]


def _library(word: str, words: Sequence[str], at: int, folders: Sequence[str]) -> str:
    """The archive of the build's own that `-lNAME` means; empty for all else."""
    name = word if at and words[at - 1] == "-l" else word[2:]
    static = "-static" in words[:at] or "-Wl,-Bstatic" in words[:at]
    for folder in folders:
        if not static and Path(f"{folder}/lib{name}.so").exists():
            return ""
        path = f"{folder}/lib{name}.a"
        if Path(path).exists() and not os.path.realpath(path).startswith(("/usr/", "/lib")):
            return path
    return ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _sections(data: bytes) -> dict[str, int]:
    """Allocated bytes; none where it cannot be read as an object or program."""
    from planish.measure.sizes import measure_object

    try:
        return measure_object(data, functions=False).sections if data else {}
    except PlanishError:
        return {}
