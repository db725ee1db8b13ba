"""A corpus of real programs as unoptimised bitcode, from Debian's source packages.

A list (TOML) names packages with licence, category and split. For each one the source package is
fetched and unpacked, configured where it needs that, and every source file that compiles becomes
a module of the corpus, content-addressed and deduplicated:

    OUT/modules/<hash>.bc      unoptimised bitcode
    OUT/sources/<project>/     the unpacked, configured source
    OUT/index.json             what each module is, and which projects failed and why

Projects are independent: one that fails costs only itself. A run that was killed goes on with the
projects that are not in the index yet.
"""

from __future__ import annotations

import fnmatch
import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from planish.base.errors import CompileError, PlanishError, UsageError
from planish.base.files import write_atomic
from planish.base.hashing import digest
from planish.llvm import frontend
from planish.llvm.requests import Facts, Inspect, Job
from planish.llvm.toolchain import FrontEnd
from planish.model.packages import Fetcher
from planish.model.projects import Project
from planish.proc.command import run_command
from planish.proc.pool import Call, Pool

Say = Callable[[str], None]
_CONFIGURE_SECONDS = 600.0
_SMALLEST, _LARGEST = 20, 60_000


@dataclass(frozen=True)
class Module:
    """One module.

    sha           content hash; the file's name
    source        path of the source file below the project's folder
    flags         how it was compiled, relative paths being relative to that folder
    instructions  IR instructions before any pass
    """

    sha: str
    project: str
    split: str
    category: str
    licence: str
    source: str
    flags: tuple[str, ...]
    instructions: int
    functions: int


@dataclass(frozen=True)
class Found:
    """A source that compiled: its path below the project's folder, its bitcode, its flags."""

    source: str
    bitcode: bytes
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Index:
    """The corpus' contents.

    projects  name to {"version", "modules", "refused"}; "refused" counts sources that do not
              compile by themselves
    failed    name to the reason
    """

    modules: tuple[Module, ...] = ()
    projects: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def load_corpus(folder: Path) -> Index:
    """Read the index; raises UsageError when there is none or it does not parse."""
    path = folder / "index.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows = [{**row, "flags": tuple(row["flags"])} for row in document["modules"]]
        return Index(tuple(Module(**r) for r in rows), document["projects"], document["failed"])
    except FileNotFoundError:
        raise UsageError(
            f"there is no corpus in {folder}", hint="build one: planish corpus build"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint="build the corpus again") from error


def build_corpus(
    projects: Sequence[Project],
    out: Path,
    front_end: FrontEnd,
    pool: Pool,
    *,
    jobs: int = 1,
    most: int = 60,
    say: Say = print,
) -> Index:
    """Build what is missing; returns the whole index.

    most  modules of one project at most, drawn by a seed made from its name
    """
    (out / "modules").mkdir(parents=True, exist_ok=True)
    sources = (out / "sources").resolve()
    sources.mkdir(exist_ok=True)
    index = load_corpus(out) if (out / "index.json").exists() else Index()
    fetcher = Fetcher(out / "packages")
    for at, project in enumerate(projects):
        if project.name in index.projects:
            continue
        try:
            version, root = fetcher.unpack(project.package, sources / project.name)
            _configure(project, root)
            found, refused = compile_all(project, root, front_end, jobs, most)
            modules = _admit(project, found, index, pool, out)
        except PlanishError as error:
            index.failed[project.name] = str(error)
            say(f"{project.name}: failed: {error}")
        else:
            index.failed.pop(project.name, None)
            index.projects[project.name] = {
                "version": version, "modules": len(modules), "refused": refused,
            }  # fmt: skip
            index = Index((*index.modules, *modules), index.projects, index.failed)
            done = f"{at + 1} of {len(projects)}"
            say(f"{project.name} {version}: {len(modules)} modules, {refused} refused ({done})")
        _write(index, out)
    return index


def add_project(
    project: Project, found: Sequence[Found], version: str, refused: int, out: Path, pool: Pool
) -> Index:
    """Add modules that were compiled elsewhere (a folder, a recorded build); the whole index.

    What the corpus held of that project is replaced.
    """
    (out / "modules").mkdir(parents=True, exist_ok=True)
    index = load_corpus(out) if (out / "index.json").exists() else Index()
    others = tuple(module for module in index.modules if module.project != project.name)
    index = Index(others, index.projects, index.failed)
    modules = _admit(project, found, index, pool, out)
    index.projects[project.name] = {
        "version": version, "modules": len(modules), "refused": refused,
    }  # fmt: skip
    index = Index((*others, *modules), index.projects, index.failed)
    _write(index, out)
    return index


def compile_flags(project: Project, root: Path) -> tuple[str, ...]:
    """The project's own flags, and every folder of the source that holds headers."""
    own = flags_below(root, project.flags)
    if not project.headers:
        return (*own, "-w")
    headers = sorted({path.parent for path in root.rglob("*.h")})
    # The parents last: <lzo/lzoconf.h> is meant where include/lzo/lzoconf.h lies.
    above = sorted({path.parent for path in headers if path != root} | {root})
    folders = [
        path
        for path in dict.fromkeys([*headers, *above])
        if not _excluded(path.relative_to(root), project)
    ]
    return (*own, "-w", *(w for path in folders for w in ("-I", str(path))))


def flags_below(root: Path, flags: Sequence[str]) -> list[str]:
    """The flags with relative `-I` folders (joined or a word of their own) below `root`."""
    made: list[str] = []
    for flag in flags:
        if made and made[-1] == "-I":
            made.append(str(root / flag))
        elif flag.startswith("-I") and flag != "-I":
            made.append(f"-I{root / flag[2:]}")
        else:
            made.append(flag)
    return made


def source_folder(corpus: Path, project: str) -> Path:
    """Where the project's configured source lies."""
    return (corpus / "sources" / project).resolve()


def read_bitcode(corpus: Path, module: Module) -> bytes:
    """The module as it lies in the corpus, compiled for the machine that built it."""
    return (corpus / "modules" / f"{module.sha}.bc").read_bytes()


def _configure(project: Project, root: Path) -> None:
    done = root / ".planish-configured"
    if done.exists():
        return
    for command in project.configure:
        finished = run_command(f"cd '{root}' && {command}", seconds=_CONFIGURE_SECONDS)
        if not finished.ok:
            lines = finished.output.decode(errors="replace").strip().splitlines()
            raise PlanishError(f"`{command}` fails: {lines[-1] if lines else 'no output'}")
    done.touch()


def compile_all(
    project: Project, root: Path, front_end: FrontEnd, jobs: int, most: int
) -> tuple[list[Found], int]:
    """The drawn sources that compile, and how many do not."""
    sources = sorted({path for pattern in project.sources for path in root.glob(pattern)})
    sources = [
        path for path in sources
        if path.suffix in frontend.C_SUFFIXES | frontend.CXX_SUFFIXES
        and not _excluded(path.relative_to(root), project)
    ]  # fmt: skip
    random.Random(project.name).shuffle(sources)
    flags = compile_flags(project, root)

    def compile_one(path: Path) -> bytes | None:
        try:
            return frontend.compile_to_bitcode(front_end, path, flags)
        except CompileError:
            return None

    below = tuple(flag.replace(f"{root}/", "").replace(str(root), ".") for flag in flags)
    found: list[Found] = []
    refused = 0
    with ThreadPoolExecutor(jobs) as threads:
        for start in range(0, len(sources), most):
            batch = sources[start : start + most]
            for path, data in zip(batch, threads.map(compile_one, batch), strict=True):
                if data is None:
                    refused += 1
                else:
                    found.append(Found(path.relative_to(root).as_posix(), data, below))
            if len(found) >= most:
                break
    return sorted(found[:most], key=lambda each: each.source), refused


def _admit(
    project: Project, found: Sequence[Found], index: Index, pool: Pool, out: Path
) -> list[Module]:
    """Modules that are new, have a body and are of a useful size; their bitcode is written."""
    blobs = [digest(each.bitcode) for each in found]
    for blob, each in zip(blobs, found, strict=True):
        pool.keep(blob, each.bitcode)
    replies = pool.run([Call((), Inspect(Job(blob)), (blob,)) for blob in blobs])
    for blob in blobs:
        pool.forget(blob)
    seen = {module.sha for module in index.modules}
    modules = []
    for each, reply in zip(found, replies, strict=True):
        if reply.failure is not None:
            continue
        facts: Facts = reply.value
        if facts.identity in seen or not _SMALLEST <= facts.instructions <= _LARGEST:
            continue
        seen.add(facts.identity)
        write_atomic(out / "modules" / f"{facts.identity}.bc", each.bitcode)
        modules.append(
            Module(
                facts.identity,
                project.name,
                project.split,
                project.category,
                project.licence,
                each.source,
                each.flags,
                facts.instructions,
                len(facts.functions),
            )
        )
    return modules


def _excluded(path: Path, project: Project) -> bool:
    text = path.as_posix()
    return any(fnmatch.fnmatch(text, pattern) for pattern in project.exclude)


def _write(index: Index, out: Path) -> None:
    document = {
        "modules": [asdict(module) for module in index.modules],
        "projects": index.projects,
        "failed": index.failed,
    }
    write_atomic(out / "index.json", json.dumps(document, indent=1) + "\n")
