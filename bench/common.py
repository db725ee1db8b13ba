"""What the benches share: modules of the corpus, statistics, tables."""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planish.model.corpus import load_corpus
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Case:
    """One module of the corpus."""

    name: str
    project: str
    bitcode: bytes
    instructions: int


def parser(words: str) -> argparse.ArgumentParser:
    """The options that every bench on the corpus has."""
    made = argparse.ArgumentParser(description=words, formatter_class=_Help)
    made.add_argument(
        "--corpus", type=Path, default=Path("corpus"), help="from: planish corpus build"
    )
    made.add_argument("--modules", type=int, default=60, help="modules drawn, spread over projects")
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--seed", type=int, default=0)
    return made


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def draw(
    corpus: Path, split: str, count: int, seed: int, *, smallest: int = 30, largest: int = 20_000
) -> list[Case]:
    """A seeded draw of modules of one split, in turn from each project."""
    index = load_corpus(corpus)
    rng = random.Random(seed)
    groups: dict[str, list[Case]] = {}
    for record in sorted(index.modules, key=lambda record: record.sha):
        if record.split == split and smallest <= record.instructions <= largest:
            data = (corpus / "modules" / f"{record.sha}.bc").read_bytes()
            name = f"{record.project}/{record.source}"
            case = Case(name, record.project, data, record.instructions)
            groups.setdefault(record.project, []).append(case)
    for group in groups.values():
        rng.shuffle(group)
    chosen: list[Case] = []
    while len(chosen) < count and any(groups.values()):
        chosen += [group.pop() for group in groups.values() if group]
    return chosen[:count]


def spread(values: Sequence[float]) -> str:
    """Mean, with the quartiles beside it."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{statistics.fmean(values):.2f} [{low:.2f}, {middle:.2f}, {high:.2f}]"


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the mean."""
    rng = random.Random(seed)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(2000))
    return means[50], means[1949]


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; the first column to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console(width=120, highlight=False).print(table)
