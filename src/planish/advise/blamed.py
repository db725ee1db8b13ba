"""`Blamed`: a function of a GPU binary with the samples that were measured on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from planish.gpu.sass import Function, Instruction
from planish.gpu.slicing import Share, blame_stalls, loops

Found = dict[int, float]  # instruction to samples that would go


@dataclass(frozen=True)
class Blamed:
    """One function with what was measured on it.

    stalls  instruction to reason to samples;  issued  instruction to samples in which it issued
    """

    function: Function
    stalls: Mapping[int, Mapping[str, float]]
    issued: Mapping[int, float]

    @cached_property
    def shares(self) -> list[Share]:
        """The stalls, each blamed on what it waits for."""
        return blame_stalls(self.function, self.stalls, self.issued)

    @cached_property
    def loops(self) -> list[frozenset[int]]:
        """Innermost first."""
        return loops(self.function)

    @cached_property
    def before(self) -> list[list[int]]:
        """For each instruction those that may run right before it."""
        return self.function.predecessors()

    @property
    def code(self) -> Sequence[Instruction]:
        """The instructions."""
        return self.function.code

    @cached_property
    def by_source(self) -> dict[int, float]:
        """Blamed samples by the instruction that is waited for."""
        sums: dict[int, float] = defaultdict(float)
        for share in self.shares:
            sums[share.source] += share.amount
        return dict(sums)

    def samples(self, index: int) -> float:
        """All samples at an instruction."""
        return self.issued.get(index, 0.0) + sum(self.stalls.get(index, {}).values())

    def loop_of(self, index: int) -> frozenset[int]:
        """The innermost loop around an instruction, or nothing."""
        return next((loop for loop in self.loops if index in loop), frozenset())
