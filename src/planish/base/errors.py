"""The one root of all errors a user can meet, and the helper that lists near matches."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PlanishError(Exception):
    """What happened and why (`message`), and what to do next (`hint`).

    The command line prints it as one line on standard error and exits with code 2.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(PlanishError):
    """An argument, option or file that the user gave does not fit."""


class Unreadable(UsageError):
    """Words that mean nothing: a misspelt name, a number that is none."""


class ToolchainError(PlanishError):
    """No compiler or library was found, or those found do not fit together."""


class CompileError(PlanishError):
    """The front end refused the source. `diagnostics` is the compiler's own output."""

    def __init__(self, message: str, *, diagnostics: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.diagnostics = diagnostics


class RecipeError(PlanishError):
    """A recipe, pipeline or option does not parse or is not legal."""


class LockError(PlanishError):
    """The lockfile is corrupt, too new, stale or lacks an entry."""


class StoreError(PlanishError):
    """The store of outcomes cannot be opened, read or written."""


class TraceError(PlanishError):
    """A profiler file is damaged, cut short, or of no known format.

    `position` is the byte, in the inflated stream, where it was noticed (None: not known).
    """

    def __init__(self, message: str, *, position: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.position = position


def unknown(kind: str, name: str, choices: Iterable[str]) -> Unreadable:
    """The error for a name that is not one of `choices`; it lists the near matches."""
    known = sorted(set(choices))
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    elif len(known) <= 12:
        hint = "known: " + ", ".join(known)
    else:
        hint = f"{len(known)} are known, for instance " + ", ".join(known[:6])
    return Unreadable(f"unknown {kind} '{name}'", hint=hint)
