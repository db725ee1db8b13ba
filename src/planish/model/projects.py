"""The list of projects that a corpus is made of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planish.base.errors import UsageError

SPLITS = ("train", "held-out")
# Not part of what is shipped to users, or not for this machine.
_EXCLUDED = (
    "*test*", "*Test*", "*example*", "*fuzz*", "*demo*", "debian/*", "*win32*", "*windows*",
    "*contrib*", "*benchmark*", ".pc/*",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A program of a project that can be run, for differential checks.

    sources  glob patterns below the project's folder; `flags` are added to the project's
    libraries  words for the linker
    checks   shell commands, run in an empty folder; $PROGRAM is the program, $SOURCE the
             project's folder; what they print and how they end must not change
    """

    name: str
    sources: tuple[str, ...]
    checks: tuple[str, ...]
    flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """One source package.

    sources, exclude  glob patterns below its folder
    configure         shell commands run in its folder first
    headers           whether every folder that holds headers is searched for them
    """

    name: str
    package: str
    licence: str
    category: str
    split: str
    sources: tuple[str, ...]
    exclude: tuple[str, ...]
    flags: tuple[str, ...] = ()
    configure: tuple[str, ...] = ()
    headers: bool = True
    programs: tuple[Program, ...] = ()


def own_project(name: str, licence: str, split: str) -> Project:
    """A project of the user's: every C and C++ source below a folder, tests and examples too."""
    return Project(
        name=name, package="", licence=licence, category="own", split=split,
        sources=("**/*",), exclude=(),
    )  # fmt: skip


def load_projects(path: Path) -> list[Project]:
    """Read the list; raises UsageError for what does not fit, naming the project."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the list of projects {path}: {error}") from error
    rows = document.get("project", [])
    projects = [_project(row, path) for row in rows]
    names = [project.name for project in projects]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"{path} lists {', '.join(sorted(twice))} twice")
    return projects


def _project(row: dict[str, Any], path: Path) -> Project:
    name = row.get("name", "?")
    try:
        split = row["split"]
        if split not in SPLITS:
            raise UsageError(f"{path}: {name}: the split is '{split}'", hint=f"one of {SPLITS}")
        return Project(
            name=name,
            package=row.get("package", name),
            licence=row["licence"],
            category=row["category"],
            split=split,
            sources=tuple(row.get("sources", ["**/*"])),
            exclude=(*_EXCLUDED, *row.get("exclude", [])),
            flags=tuple(row.get("flags", [])),
            configure=tuple(row.get("configure", [])),
            headers=bool(row.get("headers", True)),
            programs=tuple(_program(program) for program in row.get("program", [])),
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path}: project {name}: {error} is missing or wrong") from error


def _program(row: dict[str, Any]) -> Program:
    return Program(
        name=row["name"],
        sources=tuple(row["sources"]),
        checks=tuple(row["checks"]),
        flags=tuple(row.get("flags", [])),
        libraries=tuple(row.get("libraries", [])),
    )
