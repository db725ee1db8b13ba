"""What a recording leaves: a line of JSON for each unit that was compiled and each link.

Contents (bitcode, the files that were linked) are kept beside it, each once (`blobs.py`).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = ".planish"
_FILE = "build.jsonl"


@dataclass(frozen=True)
class Recorded:
    """A unit of a build: where the compiler was called, on what, to what, with which flags.

    own       allocated bytes of the object that it made; 0 where they are not known
    code      of these, code and what unwinds it: what a recipe can make smaller; 0 for not known
    command   the compiler and its words as they were
    bitcode   name of the unoptimised bitcode; empty where the front end could not make it
    made      digest of the object, by which it is found again in archives and links
    problem   why there is no bitcode, or nothing to replay
    """

    folder: str
    source: str
    output: str
    flags: tuple[str, ...]
    own: int = 0
    command: tuple[str, ...] = ()
    bitcode: str = ""
    made: str = ""
    problem: str = ""
    code: int = 0

    @property
    def path(self) -> Path:
        """The source."""
        return Path(os.path.normpath(Path(self.folder) / self.source))

    @property
    def object(self) -> Path:
        """The object."""
        return Path(os.path.normpath(Path(self.folder) / self.output))


@dataclass(frozen=True)
class Input:
    """A file of a link: an object, or an archive with its members in order.

    at       its place in the link's words
    name     the file's name
    members  (name, digest of the content); an object is its only member
    """

    at: int
    name: str
    archive: bool
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Link:
    """A link of the build, with the contents of its own inputs kept.

    compiler  the words that start the linker or the compiler that calls it
    direct    whether it is the linker itself
    words     its other words, response files expanded
    own       allocated bytes of what it made
    """

    folder: str
    output: str
    compiler: tuple[str, ...]
    direct: bool
    words: tuple[str, ...]
    inputs: tuple[Input, ...]
    own: int = 0

    @property
    def path(self) -> Path:
        """What was made."""
        return Path(os.path.normpath(Path(self.folder) / self.output))

    @property
    def digests(self) -> set[str]:
        """Of all members of all inputs."""
        return {name for each in self.inputs for _, name in each.members}


@dataclass(frozen=True)
class Recording:
    """All units and links of a build, in the order of their paths; each object counts once."""

    units: tuple[Recorded, ...] = ()
    links: tuple[Link, ...] = ()


def append(record: Path, item: Recorded | Link) -> None:
    """Note a unit or a link; safe among the processes of `make -j`."""
    kind = "link" if isinstance(item, Link) else "unit"
    line = json.dumps({"kind": kind, **asdict(item)}) + "\n"
    with (record / _FILE).open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)


def read(record: Path) -> Recording:
    """What was recorded and still counts.

    An object or a program that is not there any more (the tests of a configure script) does not
    count, unless a program that counts was linked from it.
    """
    units: dict[Path, Recorded] = {}
    links: dict[Path, Link] = {}
    for fields in _lines(record / _FILE):
        kind = fields.pop("kind")
        if kind == "link":
            link = _link(fields)
            links[link.path] = link
        else:
            fields["flags"], fields["command"] = tuple(fields["flags"]), tuple(fields["command"])
            unit = Recorded(**fields)
            units[unit.object] = unit
    kept = [links[path] for path in sorted(links) if path.exists()]
    linked = {name for link in kept for name in link.digests}
    counts = [units[p] for p in sorted(units) if p.exists() or units[p].made in linked]
    return Recording(tuple(counts), tuple(kept))


def load(record: Path) -> list[Recorded]:
    """The units alone."""
    return list(read(record).units)


def begin(record: Path) -> None:
    """An empty recording. Contents stay: most of them will be asked for again."""
    record.mkdir(parents=True, exist_ok=True)
    (record / ".gitignore").write_text("*\n", encoding="utf-8")
    (record / _FILE).write_text("", encoding="utf-8")


def contents(recording: Recording) -> set[str]:
    """Names of all contents that the recording needs."""
    found = {unit.bitcode for unit in recording.units if unit.bitcode}
    return found.union(*(link.digests for link in recording.links))


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _link(fields: dict[str, Any]) -> Link:
    inputs = tuple(
        Input(i["at"], i["name"], i["archive"], tuple((n, d) for n, d in i["members"]))
        for i in fields.pop("inputs")
    )
    for name in ("compiler", "words"):
        fields[name] = tuple(fields[name])
    return Link(inputs=inputs, **fields)
