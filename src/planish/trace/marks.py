"""Names by which a trace shows that a kernel is one of Planish's, with the schedule that made it.

    with planish.trace.marks.marked(kernel):
        kernel(a, b)

Inside PyTorch's profiler this makes an annotation whose name holds program and schedule, so that
`planish advise` can say which step of the schedule to change.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LABEL = re.compile(
    r"^planish kernel (?P<program>.*?) \[(?P<target>[^;\]]*)(?:; (?P<steps>.*))?\]$"
)
_LONGEST = 1000


@dataclass(frozen=True)
class Mark:
    """A generated kernel: its program, what it was made for, and its schedule's steps.

    steps  of a loop schedule; for a GPU the choices of each kernel, as in its recipe
    """

    program: str
    target: str
    threads: int
    steps: tuple[str, ...]

    @property
    def gpu(self) -> bool:
        """Whether it was made for a GPU: then its time is that of what it launches."""
        return self.target.startswith(("cuda:", "hip:"))


def label(program: str, target: str, threads: int, schedule: str) -> str:
    """The name of the annotation; `parse_label` reads it back."""
    words = " ".join(program.split()).replace("[", "(").replace("]", ")")[:_LONGEST]
    steps = [" ".join(step.split()) for step in schedule.splitlines() if step.strip()]
    return f"planish kernel {words} [{'; '.join((f'{target} threads={threads}', *steps))}]"


def parse_label(name: str) -> Mark | None:
    """What `label` wrote, or None for any other name."""
    found = _LABEL.match(name)
    if not found:
        return None
    target, _, threads = found["target"].partition(" threads=")
    steps = tuple(found["steps"].split("; ")) if found["steps"] else ()
    return Mark(found["program"], target, int(threads) if threads.isdigit() else 1, steps)


@contextlib.contextmanager
def marked(kernel: Any) -> Iterator[None]:
    """Annotate what runs inside with this kernel's label, where PyTorch is in use.

    kernel  what `planish.compile` or `planish.gpu_kernel` returns (its target and schedule, or
            recipe, are asked)
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    steps = kernel.recipe if hasattr(kernel, "recipe") else str(kernel.schedule)
    name = label(repr(kernel), kernel.target, getattr(kernel, "threads", 0), steps)
    with torch.profiler.record_function(name):
        yield
