"""What the terminal shows of results: tables for people, JSON for machines, progress."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from planish.base.closing import Closing
from planish.base.progress import Step
from planish.tune.result import Result

_UNITS = {"bytes": "allocated bytes", "instructions": "instructions"}
_LONGEST_RECIPE = 400


class Live(Closing):
    """A progress line with the best value so far."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} builds"),
            TextColumn("{task.fields[best]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._row = self._progress.add_task("", total=None, best="", visible=False)
        self._task = ""
        self._progress.start()

    def close(self) -> None:
        """Take the line away."""
        self._progress.stop()

    def step(self, step: Step) -> None:
        """Show a step; another task starts the line anew."""
        if step.task != self._task:
            self._task = step.task
            self._progress.reset(self._row, total=step.total, visible=True)
        change = step.best / step.baseline - 1 if step.baseline else 0.0
        self._progress.update(
            self._row,
            completed=step.done,
            total=step.total,
            description=f"{step.task}  {step.phase}",
            best=f"best {step.best:,.0f} {step.unit} ({change:+.1%})",
        )


def show_results(results: Sequence[Result], written: Sequence[str], *, details: bool) -> None:
    """The table, then what was found for each source."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("")
    for name in (f"-{results[0].level}", "planish", "change"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            str(result.source), _UNITS[result.unit],
            f"{result.baseline:,}", f"{result.best:,}", f"{result.change:+.1%}",
        )  # fmt: skip
    if len(results) > 1:
        before, after = sum(r.baseline for r in results), sum(r.best for r in results)
        change = after / before - 1 if before else 0.0
        table.add_row("all", _UNITS[results[0].unit], f"{before:,}", f"{after:,}", f"{change:+.1%}")
    console.print(table)
    if details or len(results) == 1:
        for result in results:
            _show_details(console, result, named=len(results) > 1)
    console.print(f"wrote {', '.join(written)}")


def show_json(results: Sequence[Result], written: Sequence[str]) -> None:
    """One object with all results."""
    rows = [result.to_json() for result in results]
    print(json.dumps({"results": rows, "wrote": list(written)}, indent=2, sort_keys=True))


def _spent(result: Result) -> str:
    ledger = result.ledger
    parts = [f"{ledger.builds} builds", f"{ledger.seconds:.1f} s"]
    if ledger.cached:
        parts.insert(1, f"{ledger.cached} known before")
    if ledger.rejected:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(ledger.failures.items()))
        parts.append(f"{ledger.rejected} rejected ({kinds})")
    return ", ".join(parts)


def _show_details(console: Console, result: Result, *, named: bool) -> None:
    prefix = f"{result.source}: " if named else ""
    recipe = result.recipe
    rows = []
    if recipe.passes:
        rows.append(("module", _short(recipe.pipeline)))
    if recipe.options:
        rows.append(("options", " ".join(recipe.options)))
    if recipe.functions:
        words = f"{len(recipe.functions)} of {result.functions}"
        rows.append(("functions with a recipe of their own", words))
    rows.append(("spent", _spent(result)))
    rows.append(("checked", "; ".join(result.ledger.checks) or str(result.verdict)))
    rows += [("note", note) for note in result.ledger.fallbacks]
    rows.append(("baseline", result.ledger.baseline))
    for name, words in rows:
        console.print(Text(f"  {prefix}{name}: {words}"))
    if result.shares:
        shares = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
        shares.add_column("without it, more", justify="right")
        shares.add_column("element")
        for share in result.shares:
            shares.add_row(f"{share.gain:+,.0f} {result.unit}", Text(share.element))
        console.print(shares)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_RECIPE else text[:_LONGEST_RECIPE] + " ..."
