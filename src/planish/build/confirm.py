"""The sum of it: programs linked from the tuned objects, beside the build's own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from planish.base.errors import CompileError
from planish.build.blobs import Blobs
from planish.build.linking import program_size, relink
from planish.build.tuning import Outcome
from planish.build.units import Link, Recording


@dataclass(frozen=True)
class Linked:
    """A program's allocated bytes before and after, by section; equal where nothing was tuned."""

    program: str
    before: int
    after: int
    sections_before: dict[str, int]
    sections_after: dict[str, int]
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.program}: {self.problem}"
        change = self.after / self.before - 1 if self.before else 0.0
        return f"{self.program}: {self.before:,} -> {self.after:,} bytes linked ({change:+.1%})"


def tuned_objects(outcomes: Sequence[Outcome]) -> dict[str, bytes | None]:
    """Tuned objects by the digest of the object that each stands for."""
    return {o.unit.made: o.result.artefact for o in outcomes if o.result is not None}


def confirm(record: Path, recording: Recording, outcomes: Sequence[Outcome]) -> list[Linked]:
    """Link every recorded program that a tuned object goes into, twice: as it was, and tuned."""
    blobs, replaced = Blobs(record), tuned_objects(outcomes)
    links = [link for link in recording.links if link.digests & set(replaced)]
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        return [_confirm(link, blobs, replaced, Path(folder) / "program") for link in links]


def _confirm(link: Link, blobs: Blobs, replaced: dict[str, bytes | None], path: Path) -> Linked:
    try:
        relink(link, blobs, {}, path)
        before, sections_before = program_size(path)
        relink(link, blobs, replaced, path)
        after, sections_after = program_size(path)
    except CompileError as error:
        return Linked(link.output, 0, 0, {}, {}, str(error))
    return Linked(link.output, before, after, sections_before, sections_after)
