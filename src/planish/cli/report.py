"""How an error looks on the terminal."""

from __future__ import annotations

import sys

from planish.base.errors import CompileError, PlanishError


def report(error: PlanishError) -> None:
    """The compiler's own words where there are any, then one line."""
    if isinstance(error, CompileError) and error.diagnostics:
        print(error.diagnostics.rstrip(), file=sys.stderr)
    print(f"planish: error: {error}", file=sys.stderr)
