"""What a rule over compiled GPU kernels has found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from planish.advise.kernel_facts import KernelFacts
from planish.gpu.sass import Instruction


@dataclass(frozen=True)
class Finding:
    """What a rule has found.

    rule        its name
    where       file:line, as far as known
    evidence    what the code shows
    suggestion  what to change
    """

    rule: str
    kernel: str
    where: str
    evidence: str
    suggestion: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


Rule = Callable[[KernelFacts], Iterator[Finding]]


def line_of(facts: KernelFacts, i: Instruction | None) -> str:
    """The instruction's place in the source."""
    if i is None or not i.line:
        return facts.file or facts.name
    return f"{i.file.rsplit('/', 1)[-1]}:{i.line}"
