"""Differential runs: does a program built by a recipe still behave as its -O0 build does?

The verifier does not see miscompiles. Programs of the corpus that can run are built once without
optimisation, and again by each recipe; what their checks print, and how they end, must be equal.
"""

from __future__ import annotations

import hashlib
import platform
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planish.base.errors import CompileError, PlanishError, UsageError
from planish.base.hashing import digest
from planish.llvm import frontend
from planish.llvm.requests import Build, Job
from planish.llvm.toolchain import FrontEnd, Toolchain
from planish.model.corpus import compile_flags
from planish.model.projects import Program, Project
from planish.proc.command import run_command
from planish.proc.pool import Call, Pool
from planish.search.protocol import Plan
from planish.tune.pass_space import to_recipe
from planish.tune.source import front_end_for
from planish.tune.targets import find_target

# The program itself decides how long a check may take: so many times what its -O0 build took, and
# some seconds more, since other work may share the machine.
_TIMES_LONGER = 20.0
_MORE_SECONDS = 30.0
_REFERENCE_SECONDS = 600.0
_TIMEOUT = "timeout"


@dataclass(frozen=True)
class Run:
    """One check of a program: how it ended (exit code or "timeout"), the hash of what it printed,
    and how many seconds it took, which is not part of its behaviour."""

    ending: str
    output: str
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class Platform:
    """What programs are built for.

    flags   of the compiler
    links   the commands that link C, and C++
    runner  command that stands before the program, where this machine cannot run it itself
    """

    flags: tuple[str, ...]
    links: tuple[tuple[str, ...], tuple[str, ...]]
    runner: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subject:
    """A program that can be rebuilt: unoptimised bitcode by source, and its -O0 behaviour."""

    name: str
    root: Path
    program: Program
    blobs: tuple[str, ...]
    frames: bool
    clang: tuple[str, ...]
    link: tuple[str, ...]
    runner: tuple[str, ...]
    expected: tuple[Run, ...] = ()


def find_platform(architecture: str, front_end: FrontEnd) -> Platform:
    """How programs for libLLVM's `architecture` are built and run here.

    Raises UsageError where they cannot be: no linker, no QEMU.
    """
    target = find_target(architecture)
    if architecture == "X86" and platform.machine() in ("x86_64", "AMD64"):
        return Platform((), (_linker("cc", "gcc"), _linker("c++", "g++")))
    if not target.links:
        raise UsageError(f"programs for {architecture} cannot be run here")
    name = target.machine
    runner = shutil.which(f"qemu-{name}") if platform.machine() != name else ""
    if runner is None:
        raise UsageError(
            f"programs for {name} cannot be run here", hint=f"install QEMU (qemu-{name})"
        )
    words = (f"--target={target.links}", "-static")  # no library of the target is needed then
    zig = front_end.command[0]
    flags = (f"--target={target.links}", *target.flags[1:])
    return Platform(flags, ((zig, "cc", *words), (zig, "c++", *words)), (runner,) if runner else ())


def prepare(
    project: Project,
    program: Program,
    sources: Path,
    target: Platform,
    toolchain: Toolchain,
    pool: Pool,
) -> Subject:
    """Compile and run the reference; raises PlanishError when it does not build or run the same
    way twice, since it then cannot judge anything."""
    front_end = toolchain.need_front_end()
    root = (sources / project.name).resolve()
    paths = sorted({path for pattern in program.sources for path in root.glob(pattern)})
    if not paths:
        raise UsageError(f"{program.name}: no sources below {root}", hint="build the corpus first")
    flags = (*target.flags, *compile_flags(project, root), *program.flags)
    link = target.links[any(path.suffix in frontend.CXX_SUFFIXES for path in paths)]
    reference, blobs = [], []
    for path in paths:
        reference.append(frontend.compile_baseline(front_end, path, flags, "O0"))
        data = frontend.compile_to_bitcode(front_end, path, flags)
        blobs.append(digest(data))
        pool.keep(blobs[-1], data)
    frames = frontend.asks_for_frames(flags)
    clang = front_end_for(target.flags, toolchain, pool)
    subject = Subject(program.name, root, program, tuple(blobs), frames, clang, link, target.runner)
    expected = behaviour(subject, reference)
    if any(run.ending == _TIMEOUT for run in expected):
        raise PlanishError(f"{program.name} runs longer than {_REFERENCE_SECONDS:.0f} s")
    if expected != behaviour(subject, reference):
        raise PlanishError(f"{program.name} does not behave the same way twice")
    return replace(subject, expected=expected)


def differs(subject: Subject, plan: Plan, pool: Pool) -> str:
    """Empty when the program built by the plan behaves as before; else what is different.

    Modules on which the plan fails to build are reported, too: such a plan is not to be trusted.
    """
    recipe = to_recipe(plan)
    calls = [
        Call(
            recipe.options,
            Build(
                Job(blob, clang=subject.clang, frames=subject.frames),
                recipe,
                everywhere=plan.everywhere,
                keep=("obj",),
            ),
            (blob,),
        )
        for blob in subject.blobs
    ]
    objects = []
    for reply in pool.run(calls):
        if reply.failure is not None:
            return f"{reply.failure} while building: {reply.reason.splitlines()[0][:120]}"
        objects.append(reply.value.artefacts["obj"])
    try:
        got = behaviour(subject, objects)
    except CompileError as error:
        return f"does not link: {error.diagnostics.strip().splitlines()[-1][:120]}"
    for command, before, after in zip(subject.program.checks, subject.expected, got, strict=True):
        if before != after:
            what = "takes too long" if after.ending == _TIMEOUT else "differs"
            return f"{what} in: {command[:80]}"
    return ""


def behaviour(subject: Subject, objects: Sequence[bytes]) -> tuple[Run, ...]:
    """Link and run every check."""
    with tempfile.TemporaryDirectory(prefix="planish-") as name:
        folder = Path(name)
        files = []
        for at, data in enumerate(objects):
            files.append(folder / f"{at}.o")
            files[-1].write_bytes(data)
        program = folder / subject.name
        built = folder / f"{subject.name}.bin" if subject.runner else program
        words = [*subject.link, "-o", str(built), *map(str, files), *subject.program.libraries]
        linked = run_command(shlex.join(words))
        if not linked.ok:
            raise CompileError(
                f"{subject.name} does not link", diagnostics=linked.output.decode(errors="replace")
            )
        if subject.runner:
            program.write_text(
                f'#!/bin/sh\nexec {shlex.join([*subject.runner, str(built)])} "$@"\n'
            )
            program.chmod(0o755)
        limits = [_MORE_SECONDS + _TIMES_LONGER * run.seconds for run in subject.expected]
        checks = subject.program.checks
        pairs = zip(checks, limits or [_REFERENCE_SECONDS] * len(checks), strict=True)
        return tuple(_run(check, program, subject.root, folder, limit) for check, limit in pairs)


def expel(
    subjects: Sequence[Subject], plans: Sequence[Plan], pool: Pool, say: Callable[[str], None]
) -> dict[Plan, str]:
    """The plans that break a subject, each with the first reason."""
    found: dict[Plan, str] = {}
    for at, plan in enumerate(plans):
        for subject in subjects:
            reason = differs(subject, plan, pool)
            if reason:
                found[plan] = f"{subject.name}: {reason}"
                say(f"expelled: {plan}: {found[plan]}")
                break
        if at % 10 == 9:
            say(f"checked {at + 1} of {len(plans)} plans on {len(subjects)} programs")
    return found


def _run(check: str, program: Path, root: Path, folder: Path, seconds: float) -> Run:
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    given = f"export PROGRAM={shlex.quote(str(program))} SOURCE={shlex.quote(str(root))} LC_ALL=C"
    start = time.monotonic()
    done = run_command(f"{given}; cd {shlex.quote(str(work))}; {check}", seconds=seconds)
    took = time.monotonic() - start
    # The folder has another name in every run, and programs print their own names.
    output = done.output.replace(str(folder).encode(), b"")
    ending = _TIMEOUT if done.timed_out else str(done.code)
    return Run(ending, hashlib.sha256(output).hexdigest(), took)


def _linker(*names: str) -> tuple[str, ...]:
    for name in names:
        found = shutil.which(name)
        if found:
            return (found,)
    raise UsageError("programs can only be checked where a C compiler can link", hint="install gcc")
