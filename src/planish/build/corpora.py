"""Corpora from what the user has: a folder of sources, a recorded build."""

from __future__ import annotations

from pathlib import Path

from planish.base.errors import UsageError
from planish.build.blobs import Blobs
from planish.build.units import load
from planish.llvm.toolchain import FrontEnd
from planish.model.corpus import Found, Index, add_project, compile_all
from planish.model.projects import Project
from planish.proc.pool import Pool

_BITCODE = (".bc", ".ll")


def from_directory(
    project: Project,
    folder: Path,
    out: Path,
    front_end: FrontEnd,
    pool: Pool,
    jobs: int,
    most: int,
) -> Index:
    """Add every source below a folder that compiles by itself, and every bitcode file.

    Raises UsageError where there is none.
    """
    root = folder.resolve()
    if not root.is_dir():
        raise UsageError(f"there is no folder {folder}")
    found, refused = compile_all(project, root, front_end, jobs, most)
    files = sorted(path for path in root.rglob("*") if path.suffix in _BITCODE)
    found += [Found(path.relative_to(root).as_posix(), path.read_bytes()) for path in files]
    if not found:
        raise UsageError(
            f"no source below {folder} compiles by itself ({refused} tried)",
            hint="record its build and use --record: planish record -- make",
        )
    return add_project(project, found, "", refused, out, pool)


def from_recording(project: Project, record: Path, out: Path, pool: Pool) -> Index:
    """Add every unit of a recorded build; raises UsageError where there is none."""
    units = load(record)
    if not units:
        raise UsageError(f"{record} holds no recorded build", hint="planish record -- make")
    blobs = Blobs(record)
    root = record.resolve().parent
    found = [
        Found(_below(unit.path, root), blobs.get(unit.bitcode), unit.flags)
        for unit in units
        if unit.bitcode
    ]
    return add_project(project, found, "", len(units) - len(found), out, pool)


def _below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
