"""What the benches share: modules of the corpus, statistics, tables."""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table


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
