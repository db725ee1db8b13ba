"""What long work reports while it runs. The command line draws it; the library stays silent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Step:
    """One step of long work.

    task   what is worked on (a file)
    phase  what is done to it (`coreset`, `functions`, ...)
    done   units done, of `total` (None where it is not known)
    best   best value so far, beside `baseline`, in `unit`
    """

    task: str
    phase: str
    done: int
    total: int | None
    best: float
    baseline: float
    unit: str


class Progress(Protocol):
    """Receives steps; must return quickly and must not raise."""

    def step(self, step: Step) -> None: ...


class Silent:
    """Reports nothing."""

    def step(self, step: Step) -> None:
        return None
