"""`planish cc` and `planish c++`: a compiler that replays what is locked and hands on the rest.

It starts before anything else of Planish is imported, since a build starts it a thousand times.
The object of a unit that is not in the lockfile, or whose replay fails, is the real compiler's.
"""

from __future__ import annotations

import os
import sys

from planish.base.config import BuildConfig, read_build_config, real_environment
from planish.build import flags, invocation
from planish.build.invocation import Unit
from planish.store import locktext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOCK = "planish.lock"
# What a process that is to be as this one starts with: faster than -m.
_START = "from planish.entry import main; main()"
# Folders where CMake and Meson try the compiler out; they keep what they have built there.
_PROBES = {"CMakeFiles", "meson-private"}
_VARIABLES = {"cc": "CC", "c++": "CXX", "ld": "LD"}
_NAMES = {
    "cc": ("clang", "cc", "gcc"), "c++": ("clang++", "c++", "g++"), "ld": ("ld", "ld.lld"),
}  # fmt: skip


def main(arguments: Sequence[str], ask_server: Callable[[list[str]], int | None]) -> int:
    """Run as `cc` or `c++`; the exit code is the compiler's.

    ask_server  has the words run by a warm process; None where there is none
    """
    role, words = arguments[0], list(arguments[1:])
    given = read_build_config()
    verbose = given.verbose or "-v" in words
    if given.within:
        print(
            f"planish: error: the real compiler of `planish {role}` is `planish {role}` again "
            f"(set PLANISH_{_VARIABLES[role]} to a compiler)",
            file=sys.stderr,
        )
        return 2
    compiler = real_compiler(role, given)
    real = real_environment(given)
    if given.record:
        if _PROBES & set(os.getcwd().split(os.sep)):  # noqa: PTH109, PTH206
            return _hand_on(compiler, words, real)
        return _record(role, compiler, words, real, given.record)
    command = invocation.read(words)
    if command.problem:
        _say(verbose, f"handed on: {command.problem}")
        return _hand_on(compiler, words, real)
    if len(command.units) > 1 or command.links:
        if not any(_find_lock(unit, given.lock) for unit in command.units):
            _say(verbose, "handed on: no lockfile names a source")
            return _hand_on(compiler, words, real)
        if not command.links:
            return max(_separately(arguments, unit, ask_server) for unit in command.units)
        from planish.build.at_once import in_parts

        done = in_parts(
            compiler, command, real, lambda unit: not _separately(arguments, unit, ask_server)
        )
        return _hand_on(compiler, words, real) if done is None else done
    unit = command.units[0]
    lock = _find_lock(unit, given.lock)
    if not lock:
        _say(verbose, "handed on: no lockfile names the source")
        return _hand_on(compiler, words, real)
    target = target_of(compiler)
    if target:
        unit = unit._replace(flags=(f"--target={target}", *unit.flags))
    code = ask_server(list(arguments))
    if code is not None:
        return code
    dependencies = flags.dependency_words(unit) if unit.dependencies else ()
    if dependencies is None:  # the real compiler writes them, and an object to fall back to
        import subprocess

        code = subprocess.run([*compiler, *words], env=real).returncode
        if code:
            return code
        _say(verbose, _replay(unit, lock, (), given.keep, quiet=True) or "replayed")
        return 0
    problem = _replay(unit, lock, dependencies, given.keep)
    _say(verbose, problem or "replayed")
    return _hand_on(compiler, words, real) if problem else 0


def real_compiler(role: str, given: BuildConfig) -> list[str]:
    """PLANISH_CC (or PLANISH_CXX), else clang, cc, gcc of the PATH, else the bundled front end."""
    named = given.compilers[role]
    if named and not set(named) & set(" \t\n'\"\\"):
        return [named]
    if named:
        import shlex

        return shlex.split(named)
    folders = [folder for folder in given.path if folder != given.shims]
    for name in _NAMES[role]:
        for folder in folders:
            found = os.path.join(folder, name)  # noqa: PTH118
            if os.access(found, os.X_OK) and os.path.isfile(found):  # noqa: PTH113
                return [found]
    import ziglang

    zig = os.path.join(os.path.dirname(ziglang.__file__), "zig")  # noqa: PTH118, PTH120
    return [zig, {"ld": "ld.lld"}.get(role, role)]


def _hand_on(compiler: list[str], words: list[str], real: dict[str, str]) -> int:
    """Become the real compiler."""
    try:
        os.execvpe(compiler[0], [*compiler, *words], real)
    except OSError as error:
        print(f"planish: error: cannot run {compiler[0]}: {error.strerror}", file=sys.stderr)
        return 2


def _separately(
    arguments: Sequence[str], unit: Unit, ask_server: Callable[[list[str]], int | None]
) -> int:
    """One source of several in a command of its own; its exit code."""
    import subprocess

    # A process, since handing on ends this one; the server's where there is one.
    words = [arguments[0], *unit.flags, "-c", unit.source, "-o", unit.output]
    code = ask_server(words)
    if code is not None:
        return code
    return subprocess.run([sys.executable, "-P", "-c", _START, *words]).returncode


def target_of(compiler: Sequence[str]) -> str:
    """The triple that a cross compiler's name says (`arm-none-eabi-gcc`), or nothing."""
    name = os.path.basename(compiler[-1])  # noqa: PTH119
    if name.count("-") < 2:
        return ""
    import re

    match = re.fullmatch(r"(.+-.+)-(gcc|g\+\+|cc|c\+\+)(-[\d.]+)?", name)
    return match[1] if match else ""


def _record(
    role: str, compiler: list[str], words: list[str], real: dict[str, str], record: str
) -> int:
    from pathlib import Path

    from planish.build.recording import run_and_note

    direct = role == "ld"
    command = invocation.read_linker(words) if direct else invocation.read(words)
    return run_and_note(
        compiler, words, real, command, Path(record), direct=direct, target=target_of(compiler)
    )


def _find_lock(unit: Unit, given: str) -> str:
    """The lockfile that names the source: the one given, or the nearest above it; else nothing."""
    source = os.path.abspath(unit.source)  # noqa: PTH100
    path, folder = given, os.path.dirname(source)  # noqa: PTH120
    while not path:
        candidate = os.path.join(folder, _LOCK)  # noqa: PTH118
        if os.path.isfile(candidate):  # noqa: PTH113
            path = candidate
        elif folder == os.path.dirname(folder):  # noqa: PTH120
            return ""
        folder = os.path.dirname(folder)  # noqa: PTH120
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return ""
    return path if locktext.names(text, _name_in(path, source)) else ""


def _name_in(lock: str, source: str) -> str:
    return os.path.relpath(source, os.path.dirname(lock) or ".").replace(os.sep, "/")  # noqa: PTH120


def _replay(
    unit: Unit, lock: str, dependencies: tuple[str, ...], keep: bool, *, quiet: bool = False
) -> str:
    """Write the object by the lockfile; the reason where that cannot be done.

    dependencies  words that make the front end write the file of dependencies, too
    quiet         the compiler's warnings have been seen already
    """
    from pathlib import Path

    from planish.base.errors import PlanishError
    from planish.base.files import write_atomic
    from planish.proc import client
    from planish.store import lockfile
    from planish.tune.replay import replay
    from planish.tune.session import Options, Session
    from planish.tune.source import Request

    warnings: list[bytes] = []
    try:
        path = Path(lock)
        held = lockfile.load(path, source=_name_in(lock, unit.source))
        request = Request(
            unit.flags, dependencies=dependencies, hear=warnings.append, named=unit.source
        )
        sources, folder = [Path(unit.source)], path.parent
        with Session(jobs=1, store=None, here=client.served) as session:
            # A stale entry is the real compiler's work: nothing is built to compare.
            (result,) = replay(
                session, sources, request, Options(), held, folder, locked=True, kept=keep
            )
        if isinstance(result, PlanishError):
            return str(result)
        write_atomic(Path(unit.output), result.artefact)
    except PlanishError as error:
        return str(error)
    if not quiet:  # only now: where a replay fails, the real compiler says them
        sys.stderr.flush()
        sys.stderr.buffer.write(b"".join(warnings))
        sys.stderr.flush()
    return ""


def _say(verbose: bool, words: str) -> None:
    if verbose:
        print(f"planish cc: {words}", file=sys.stderr)
