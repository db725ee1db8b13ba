"""The table of labels on disk: what each recipe does to each program.

OUT/outcomes.parquet   program, recipe, allocated bytes, IR instructions; or the failure
OUT/recipes.parquet    recipe, where it comes from, and why it was rejected
OUT/programs.parquet   program, project, split, baseline, features
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.llvm.features import Description
from planish.model.tables import read_table, write_table

# The origin of what was built for one program only, by its search.
TRIED = "tried"

Floats = NDArray[np.float64]

_OUTCOMES = {"program": "int32", "recipe": "int32", "bytes": "int64", "instructions": "int64",
             "failure": "string"}  # fmt: skip
_RECIPES = {"recipe": "string", "origin": "string", "rejected": "string"}
_PROGRAMS = {
    "name": "string", "sha": "string", "project": "string", "bytes": "int64",
    "instructions": "int64", "features": "list<double>", "pairs": "list<int32>",
}  # fmt: skip


@dataclass(frozen=True)
class LabelTable:
    """Programs times recipes.

    names, projects, looks  of the programs, (n,)
    recipes   their text, (m,), without the rejected ones: those that every program was built by,
              then those that only a search tried on its program
    broadcast  how many the first are
    ratios    goal's value over the baseline's, (n, m); not a number where nothing was built
    words     where the table comes from: compiler, architecture, goal, reach, versions
    """

    names: tuple[str, ...]
    projects: tuple[str, ...]
    looks: tuple[Description, ...]
    recipes: tuple[str, ...]
    broadcast: int
    ratios: Floats
    words: dict[str, Any]


@dataclass(frozen=True)
class Program:
    """One row of programs.parquet.

    values  baseline's bytes and IR instructions
    """

    name: str
    sha: str
    project: str
    values: tuple[float, float]
    looks: Description


@dataclass(frozen=True)
class Labelled:
    """One row of outcomes.parquet: numbers of the program and the recipe, values or a failure."""

    program: int
    recipe: int
    bytes: int | None
    instructions: int | None
    failure: str = ""


def write_labels(
    out: Path,
    programs: Sequence[Program],
    recipes: Sequence[tuple[str, str, str]],
    outcomes: Sequence[Labelled],
    words: dict[str, Any],
) -> None:
    """Write the three tables.

    recipes  text, origin, and the reason why it was rejected (empty for most)
    """
    rows: dict[str, list[Any]] = {
        "name": [p.name for p in programs],
        "sha": [p.sha for p in programs],
        "project": [p.project for p in programs],
        "bytes": [_whole(p.values[0]) for p in programs],
        "instructions": [_whole(p.values[1]) for p in programs],
        "features": [list(p.looks.features) for p in programs],
        "pairs": [_flat(p.looks) for p in programs],
    }
    write_table(out / "programs.parquet", rows, _PROGRAMS, words)
    columns = zip(*recipes, strict=True) if recipes else ((), (), ())
    named = dict(zip(_RECIPES, map(list, columns), strict=True))
    write_table(out / "recipes.parquet", named, _RECIPES, words)
    table = {name: [getattr(row, name) for row in outcomes] for name in _OUTCOMES}
    write_table(out / "outcomes.parquet", table, _OUTCOMES, words)


def read_labels(folder: Path, goal: str) -> LabelTable:
    """The table for a goal (`size` or `instructions`) without what was rejected.

    Programs that were not built yet are left out. Raises UsageError where there is no such table.
    """
    column = {"size": "bytes", "instructions": "instructions"}[goal]
    programs, words = read_table(folder / "programs.parquet")
    recipes, _ = read_table(folder / "recipes.parquet")
    outcomes, _ = read_table(folder / "outcomes.parquet", ["program", "recipe", column])
    base = np.array([np.nan if v is None else v for v in programs[column]], np.float64)
    table = np.full((len(base), len(recipes["recipe"])), np.nan)
    values = [np.nan if value is None else value for value in outcomes[column]]
    table[outcomes["program"], outcomes["recipe"]] = values
    built = np.flatnonzero(np.isin(np.arange(len(base)), outcomes["program"]) & (base > 0))
    good = [at for at, reason in enumerate(recipes["rejected"]) if not reason]
    kept = sorted(good, key=lambda at: (recipes["origin"][at] == TRIED, at))
    broadcast = sum(recipes["origin"][at] != TRIED for at in kept)
    if not len(built) or not broadcast:
        raise UsageError(f"{folder} holds no labels", hint="make some: planish corpus label")
    return LabelTable(
        tuple(programs["name"][at] for at in built),
        tuple(programs["project"][at] for at in built),
        tuple(_looks(programs["features"][at], programs["pairs"][at]) for at in built),
        tuple(recipes["recipe"][at] for at in kept),
        broadcast,
        table[np.ix_(built, np.array(kept))] / base[built, None],
        words,
    )


def _flat(looks: Description) -> list[int]:
    return [number for pair, count in sorted(looks.pairs.items()) for number in (*pair, count)]


def _looks(features: Sequence[float], flat: Sequence[int]) -> Description:
    rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return Description(tuple(features), {(first, then): count for first, then, count in rows})


def _whole(value: float) -> int | None:
    return int(value) if np.isfinite(value) else None
