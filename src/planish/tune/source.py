"""From a file the user named to a task: unoptimised bitcode, its facts, and the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planish.base.errors import ToolchainError, UsageError, unknown
from planish.base.hashing import digest
from planish.llvm import frontend
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Built, Facts, Inspect, Job, Target
from planish.llvm.toolchain import Toolchain
from planish.measure.sizes import measure_object
from planish.proc.pool import Call, Pool

# First part of a triple to the name of the target in libLLVM.
_ARCHITECTURES = {
    "x86_64": "X86", "i386": "X86", "i486": "X86", "i586": "X86", "i686": "X86",
    "aarch64": "AArch64", "arm64": "AArch64", "arm": "ARM", "armv6": "ARM", "armv7": "ARM",
    "thumb": "ARM", "nvptx": "NVPTX", "nvptx64": "NVPTX", "riscv32": "RISCV", "riscv64": "RISCV",
    "wasm32": "WebAssembly", "wasm64": "WebAssembly", "amdgcn": "AMDGPU", "mips": "Mips",
    "powerpc64le": "PowerPC", "ppc64le": "PowerPC",
}  # fmt: skip

# What near matches of an unknown triple are looked for in.
_EXAMPLES = (
    "x86_64-linux-gnu", "x86_64-linux-musl", "i686-linux-gnu", "aarch64-linux-gnu",
    "aarch64-none-elf", "arm-linux-gnueabihf", "armv7m-none-eabi", "thumbv7m-none-eabi",
    "thumbv7em-none-eabihf", "riscv32-none-elf", "riscv64-linux-gnu", "wasm32-wasi",
    "wasm32-unknown-unknown", "nvptx64-nvidia-cuda",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """How a source is to be compiled.

    flags   the compiler's flags as the user gives them
    level   optimisation level of the baseline
    triple  target; empty for the machine's own (or the module's)
    cpu     processor; empty for the target's default
    dependencies  words that make the front end write a file of dependencies beside its bitcode
    hear    is told the front end's warnings
    named   the source in the words of the build's own command, if they are others: `__FILE__`
    """

    flags: tuple[str, ...] = ()
    level: str = "Oz"
    triple: str = ""
    cpu: str = ""
    dependencies: tuple[str, ...] = ()
    hear: Callable[[bytes], None] | None = field(default=None, compare=False)
    named: str = ""

    def front_end_flags(self) -> tuple[str, ...]:
        """The flags with target and processor, without output choices and levels."""
        words = list(frontend.clean_flags(self.flags))
        if self.triple:
            words.insert(0, f"--target={self.triple}")
        triple = frontend.triple_of(words)
        if self.cpu:
            words.append(frontend.cpu_flag(triple or "x86_64", self.cpu))
        return tuple(words)


@dataclass(frozen=True)
class Baseline:
    """What the user would have without Planish, and how it came about."""

    size: int
    instructions: int
    sections: dict[str, int]
    artefact: bytes
    words: str

    def value(self, goal: str) -> int:
        """The goal's value."""
        return self.size if goal == "size" else self.instructions


@dataclass(frozen=True)
class Task:
    """One thing to optimise.

    hash      content hash of the unoptimised module
    search    how candidates are built
    final     how the kept one is built; by the front end where the user's flags ask for it
    """

    source: Path
    request: Request
    facts: Facts
    search: Job
    final: Job
    is_ir: bool

    @property
    def hash(self) -> str:
        return self.facts.identity

    @property
    def target(self) -> str:
        """Triple, processor and what else outcomes depend on: what they are keyed by."""
        frames = "frames" if self.search.frames else ""
        return "/".join(word for word in (self.facts.triple, self.request.cpu, frames) if word)


def architecture(triple: str) -> str:
    """libLLVM's name of the target; raises UsageError when the triple is unknown."""
    arch = triple.partition("-")[0]
    for name in (arch, arch.rstrip("abcdefghijklmnopqrstuvwxyz.-+"), arch[:5]):
        if name in _ARCHITECTURES:
            return _ARCHITECTURES[name]
    raise unknown("target", triple, _EXAMPLES)


def load(path: Path, request: Request, toolchain: Toolchain, pool: Pool) -> Task:
    """Compile (or read) the source and ask for its facts.

    Raises UsageError or CompileError when the file cannot be read, parsed or compiled.
    """
    data = read_source(path, request, toolchain)
    blob = digest(data)
    pool.keep(blob, data)
    [reply] = pool.run([Call((), Inspect(Job(blob)), (blob,))])
    if reply.failure is not None:
        raise UsageError(
            f"cannot use {path}: {reply.reason.removeprefix('UsageError: ')}",
            hint="give a module that this LLVM reads",
        )
    return make_task(path, request, reply.value, blob, toolchain, pool)


def read_source(path: Path, request: Request, toolchain: Toolchain) -> bytes:
    """The module before any pass: bitcode from the front end, or the file itself."""
    frontend.check_suffix(path)
    if request.level not in frontend.LEVELS:
        raise unknown("baseline", request.level, frontend.LEVELS)
    if request.triple:
        architecture(request.triple)
    words = (*request.front_end_flags(), *request.dependencies)
    return frontend.read_module(path, words, toolchain.need_front_end, request.hear, request.named)


def make_task(
    path: Path, request: Request, facts: Facts, blob: str, toolchain: Toolchain, pool: Pool
) -> Task:
    """The task of a module whose facts are known; raises UsageError when it cannot be one."""
    if not facts.functions:
        raise UsageError(f"{path} has no function with a body", hint="nothing to optimise")
    is_ir = path.suffix in frontend.IR_SUFFIXES
    triple = request.triple if is_ir else ""
    if triple and facts.triple and architecture(triple) != architecture(facts.triple):
        raise UsageError(
            f"{path} was compiled for {facts.triple}, not for {triple}",
            hint="compile it again for that target",
        )
    facts = replace(facts, triple=facts.triple or triple or pool.info.default_triple)
    search, final = make_jobs(blob, facts.triple, request, is_ir, toolchain, pool)
    return Task(path, request, facts, search, final, is_ir)


def make_jobs(
    blob: str, triple: str, request: Request, is_ir: bool, toolchain: Toolchain, pool: Pool
) -> tuple[Job, Job]:
    """How candidates are built, and how the kept one is."""
    flags = request.front_end_flags()
    target = Target(triple, request.cpu)
    frames = is_ir or keeps_frames(request, triple)
    search = Job(blob, target, clang=front_end_for(flags, toolchain, pool, triple), frames=frames)
    if is_ir or not frontend.back_end_flags(flags):
        return search, search
    return search, Job(blob, target, clang=_same_version(flags, toolchain), frames=frames)


def keeps_frames(request: Request, triple: str) -> bool:
    """Whether frame pointers stay: the user asked for them, or the target's ABI does."""
    other_abi = any(system in triple for system in ("apple", "darwin", "macos", "windows"))
    return other_abi or frontend.asks_for_frames(request.flags)


def baseline(task: Task, goal: str, toolchain: Toolchain, pool: Pool, *, code: bool) -> Baseline:
    """Build what the user has now: the front end's own object, or for IR the level's pipeline.

    code  whether the object is wanted; without it only instructions are counted
    Raises ToolchainError when it does not build.
    """
    level = task.request.level
    pipeline = default_pipeline(level, pool)
    words = f"{toolchain.describe()} {pipeline}"
    instructions, artefact = 0, b""
    if task.is_ir or goal == "instructions":
        job = replace(task.search, for_size=False)
        keep = ("obj",) if code and task.is_ir else ()
        build = Build(job, Recipe((pipeline,)), emit=bool(keep), keep=keep)
        [reply] = pool.run([Call((), build, (job.blob,))])
        if reply.failure is not None:
            raise ToolchainError(
                f"{task.source}: the baseline {pipeline} fails: {reply.reason}",
                hint="is the module valid for this LLVM?",
            )
        built: Built = reply.value
        instructions, artefact = built.instructions, built.artefacts.get("obj", b"")
    if not task.is_ir:
        front_end = toolchain.need_front_end()
        flags = task.request.front_end_flags()
        words = " ".join([front_end.describe(), f"-{level}", *flags])
        if code:
            artefact = frontend.compile_baseline(
                front_end, task.source, flags, level, task.request.named
            )
    if not code:
        return Baseline(0, instructions, {}, b"", words)
    sizes = measure_object(artefact)
    return Baseline(sizes.allocated, instructions, sizes.sections, artefact, words)


def default_pipeline(level: str, pool: Pool) -> str:
    """LLVM's pipeline of a level. LLVM 23 has no Os and Oz; there the functions carry `minsize`."""
    if level in ("Os", "Oz") and pool.info.version[0] >= 23:
        level = "O2"
    return f"default<{level}>"


def front_end_for(
    flags: Sequence[str], toolchain: Toolchain, pool: Pool, triple: str = ""
) -> tuple[str, ...]:
    """Empty when libLLVM itself has the target; else the front end that generates code for it.

    triple  of the module; what the flags say, or this machine's, where it has none
    """
    triple = triple or frontend.triple_of(flags) or pool.info.default_triple
    if architecture(triple) in pool.info.targets:
        return ()
    words = flags if frontend.triple_of(flags) else (f"--target={triple}", *flags)
    return _same_version(words, toolchain)


def _same_version(flags: Sequence[str], toolchain: Toolchain) -> tuple[str, ...]:
    front_end = toolchain.need_front_end()
    if toolchain.version and front_end.version[0] != toolchain.major:
        raise ToolchainError(
            f"clang {front_end.version[0]} cannot generate code for LLVM {toolchain.major}'s "
            "modules, and libLLVM cannot do it for this target and these flags",
            hint="use the clang and the libLLVM of one version",
        )
    return frontend.code_generator(front_end, flags)
