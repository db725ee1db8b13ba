"""The trace that the face hands out: it can give advice, too."""

from __future__ import annotations

from planish.advise.advice import Advice
from planish.advise.rules import advise_trace
from planish.trace.trace import Trace


class ExplainedTrace(Trace):
    """A Trace with `advise()`."""

    def advise(self) -> list[Advice]:
        """What to do about it, the largest estimated gain first."""
        return advise_trace(self)
