"""What a recording leaves: one line of JSON for each unit that was compiled."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".planish"
_FILE = "units.jsonl"


@dataclass(frozen=True)
class Recorded:
    """A unit of a build: where the compiler was called, on what, to what, with which flags.

    own  allocated bytes of the object that it made; 0 where they are not known
    """

    folder: str
    source: str
    output: str
    flags: tuple[str, ...]
    own: int = 0

    @property
    def path(self) -> Path:
        """The source."""
        return Path(os.path.normpath(Path(self.folder) / self.source))

    @property
    def object(self) -> Path:
        """The object."""
        return Path(os.path.normpath(Path(self.folder) / self.output))


def append(record: Path, unit: Recorded) -> None:
    """Note a unit; safe among the processes of `make -j`."""
    fields = [unit.folder, unit.source, unit.output, list(unit.flags), unit.own]
    line = json.dumps(fields) + "\n"
    with (record / _FILE).open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)


def load(record: Path) -> list[Recorded]:
    """All units in the order of their paths; one that was compiled again counts once."""
    path = record / _FILE
    if not path.exists():
        return []
    latest: dict[Path, Recorded] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        folder, source, output, flags, own = json.loads(line)
        unit = Recorded(folder, source, output, tuple(flags), own)
        latest[unit.object] = unit
    return [latest[key] for key in sorted(latest)]


def begin(record: Path) -> None:
    """An empty recording."""
    record.mkdir(parents=True, exist_ok=True)
    (record / _FILE).write_text("", encoding="utf-8")
