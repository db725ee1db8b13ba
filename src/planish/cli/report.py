"""What needs no tables on the terminal: errors and replays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planish.base.errors import CompileError, PlanishError

if TYPE_CHECKING:
    from planish.tune.result import Result


def show_replays(results: Sequence[Result]) -> None:
    """A line for each source: a replay is part of a build, which prints little."""
    for result in results:
        notes = "; ".join(result.ledger.fallbacks or ("as in the lockfile",))
        size = f"{result.baseline:,} -> {result.best:,} {result.unit}"
        print(f"{result.source}: {size} ({result.change:+.1%}), {notes}")


def report(error: PlanishError) -> None:
    """The compiler's own words where there are any, then one line."""
    if isinstance(error, CompileError) and error.diagnostics:
        print(error.diagnostics.rstrip(), file=sys.stderr)
    print(f"planish: error: {error}", file=sys.stderr)
