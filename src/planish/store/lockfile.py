"""`planish.lock`: the kept recipes, as TOML made for `git diff`.

    version = 1

    [[task]]
    source = "src/lzss.c"
    ...
    recipe = \"\"\"
    passes: function(sroa),default<Oz>
    options: -disable-lsr\"\"\"

One table a task, sorted, with its keys in a fixed order, so that the same entries give the same
bytes. Keys that this version does not know are kept as they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from planish.base.errors import LockError, PlanishError
from planish.base.files import write_atomic
from planish.store.locktext import tables_of

FILE_NAME = "planish.lock"
VERSION = 1

# From a version to the next, over the file's TOML document. Versions are never skipped.
_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class LockEntry:
    """What is kept of one task.

    source            path relative to the lockfile's folder, with slashes
    hash              content hash of the unoptimised module
    recipe            its text, of several lines
    baseline, result  value of the goal before and after, in `unit`
    compiler          compiler and version that the result was reached with
    verdict           how far the result was checked
    function          the function, where the task is not the whole module
    level             the baseline's optimisation level
    extra             keys of the table that this version of Planish does not know
    """

    source: str
    hash: str
    goal: str
    target: str
    recipe: str
    baseline: int
    result: int
    unit: str
    compiler: str
    verdict: str
    function: str = ""
    cpu: str = ""
    flags: tuple[str, ...] = ()
    level: str = "Oz"
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def task(self) -> tuple[str, str, str, str]:
        """What it is found by; the order of the file."""
        return (self.source, self.function, self.goal, self.target)

    def __str__(self) -> str:
        return _name(*self.task)


@dataclass(frozen=True)
class Lockfile:
    """The entries, sorted by task, and the document's own unknown keys."""

    entries: tuple[LockEntry, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def find(self, source: str, goal: str, target: str, function: str = "") -> LockEntry | None:
        """The entry of a task, or None."""
        task = (source, function, goal, target)
        return next((entry for entry in self.entries if entry.task == task), None)

    def of(self, source: str, goal: str) -> list[LockEntry]:
        """The entries of a source for a goal, one for each target."""
        return [entry for entry in self.entries if (entry.source, entry.goal) == (source, goal)]

    def with_entry(self, entry: LockEntry) -> Lockfile:
        """With this entry in the place of an earlier one of the task, whose unknown keys stay."""
        return self.with_entries((entry,))

    def with_entries(self, entries: Iterable[LockEntry]) -> Lockfile:
        """With all of these entries; of two for one task the later stays."""
        merged = {entry.task: entry for entry in self.entries}
        for entry in entries:
            old = merged.get(entry.task)
            if old is not None and old.extra:
                entry = replace(entry, extra={**old.extra, **entry.extra})
            merged[entry.task] = entry
        return replace(self, entries=tuple(merged[task] for task in sorted(merged)))

    def render(self) -> str:
        """The file's text; raises LockError for text that TOML cannot hold."""
        document: dict[str, Any] = {"version": VERSION, **_sorted(self.extra)}
        if self.entries:
            document["task"] = [_table(entry) for entry in self.entries]
        import tomli_w  # only here: a replay writes none

        # Inside a multi-line string the writer would turn "\r\n" into "\n".
        exotic = any("\r\n" in text for text in _texts(document))
        return tomli_w.dumps(document, multiline_strings=not exotic)

    def save(self, path: Path) -> None:
        """Write the file; raises LockError when it cannot be written."""
        try:
            write_atomic(path, self.render())
        except PlanishError as error:
            raise LockError(error.message, hint="nothing was changed; make it writable") from error


def load(path: Path, *, source: str = "") -> Lockfile:
    """Read a lockfile; one that does not exist is empty.

    source  read the entries of this source alone: a build asks for one a thousand times
    Raises LockError: not readable, no TOML (with the line), too new, a wrong or missing key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lockfile()
    except OSError as error:
        raise LockError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LockError(f"{path} is no UTF-8 text", hint=_RESTORE) from error
    if source:
        with contextlib.suppress(LockError):  # then the whole file has the better message
            return parse(tables_of(text, source), str(path))
    return parse(text, str(path))


def parse(text: str, name: str = FILE_NAME) -> Lockfile:
    """The inverse of `render`; `name` is what errors call the file."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise LockError(f"{name} is no valid TOML: {error}", hint=_RESTORE) from error
    document = _current(document, name)
    tables = document.pop("task", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise LockError(f"{name}: 'task' is no array of tables", hint=_RESTORE)
    document.pop("version", None)
    entries = [_entry(table, at, name) for at, table in enumerate(tables, start=1)]
    seen: set[tuple[str, str, str, str]] = set()
    for entry in entries:
        if entry.task in seen:
            raise LockError(
                f"{name}: the task {entry} stands twice", hint="keep one of them (a merge?)"
            )
        seen.add(entry.task)
    return Lockfile(tuple(sorted(entries, key=lambda entry: entry.task)), document)


def update(path: Path, entries: Iterable[LockEntry]) -> Lockfile:
    """Merge entries into the file and return what it then holds.

    The file is read and written under a lock, so that processes that work on different sources
    keep each other's entries. It is not touched where nothing changes.
    """
    with _locked(path.parent):
        before = load(path)
        after = before.with_entries(entries)
        if after != before:
            after.save(path)
        return after


# -- inside --------------------------------------------------------------------------------------

_RESTORE = "restore it from version control, or delete it and run `planish opt` again"
_TASK_KEYS = ("source", "function", "goal", "target")
_REQUIRED = {
    "source": str, "goal": str, "target": str, "hash": str, "compiler": str,
    "baseline": int, "result": int, "unit": str, "verdict": str, "recipe": str,
}  # fmt: skip
_OPTIONAL = {"function": str, "cpu": str, "level": str, "flags": tuple[str, ...]}
# The recipe stands last, since it takes several lines.
_ORDER = (
    "source", "function", "goal", "target", "cpu", "level", "flags", "hash", "compiler",
    "baseline", "result", "unit", "verdict", "recipe",
)  # fmt: skip


def _current(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The document brought to this version."""
    version = document.get("version")
    if type(version) is not int:
        raise LockError(f"{name} has no version number", hint=_RESTORE)
    if version > VERSION:
        raise LockError(
            f"{name} has version {version}; this Planish knows up to {VERSION}",
            hint="upgrade Planish",
        )
    while version < VERSION:
        if version not in _MIGRATIONS:
            raise LockError(f"{name} has the unknown version {version}", hint=_RESTORE)
        document = _MIGRATIONS[version](document)
        version += 1
    return document


def _entry(table: dict[str, Any], at: int, name: str) -> LockEntry:
    """`at` counts the tables from 1."""
    source = table.get("source")
    label = f"task {at}" + (f" ({source})" if isinstance(source, str) else "")
    values: dict[str, Any] = {}
    for key, kind in {**_REQUIRED, **_OPTIONAL}.items():
        if key not in table:
            if key in _REQUIRED:
                raise LockError(f"{name}: {label} lacks the key '{key}'", hint=_RESTORE)
            continue
        if not _fits(table[key], kind):
            raise LockError(
                f"{name}: in {label} the key '{key}' is no {_WORDS[kind]}", hint=_RESTORE
            )
        values[key] = tuple(table[key]) if kind == tuple[str, ...] else table[key]
    extra = {key: value for key, value in table.items() if key not in _ORDER}
    return LockEntry(**values, extra=extra)


_WORDS: dict[Any, str] = {str: "text", int: "whole number", tuple[str, ...]: "list of texts"}


def _fits(value: object, kind: Any) -> bool:
    if kind is int:
        return type(value) is int  # bool is an int to Python, not to TOML
    if get_args(kind):
        return isinstance(value, list) and all(isinstance(word, str) for word in value)
    return isinstance(value, kind)


def _table(entry: LockEntry) -> dict[str, Any]:
    """The entry's keys in order; optional ones that are empty are left out, but the level never."""
    table: dict[str, Any] = {}
    for key in _ORDER:
        value = getattr(entry, key)
        if value or key in _REQUIRED or key == "level":
            table[key] = list(value) if isinstance(value, tuple) else value
    try:
        "".join(_texts(table)).encode()
    except UnicodeEncodeError as error:
        raise LockError(
            f"the lockfile cannot hold {str(entry)!a}: a name in it is no UTF-8", hint="rename it"
        ) from error
    return {**table, **_sorted(entry.extra)}


def _texts(value: object) -> Iterator[str]:
    """All texts in a document, whatever their depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _sorted(extra: Mapping[str, Any]) -> dict[str, Any]:
    return {key: extra[key] for key in sorted(extra)}


def _name(source: str, function: str, goal: str, target: str) -> str:
    where = f"{source}:{function}" if function else source
    return f"{where} ({goal}, {target})"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: on its own descriptor, so that no file is left for git to see."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LockError(f"cannot open the folder {folder}: {error.strerror or error}") from error
    try:
        _wait_for_lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, folder: Path) -> None:
    # Not one call that blocks: a build run under `flock .` would wait for itself for ever.
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise LockError(
                    f"another process has locked the folder {folder} for {_WAIT_SECONDS:.0f} s",
                    hint="end it, and try again",
                ) from error
        except OSError:
            # No locks on folders (NFS). The file is still replaced whole; of two processes that
            # update it at the same moment, one may lose its entries and will search again.
            return
        time.sleep(0.01)
