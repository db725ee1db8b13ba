"""Program-counter samples with calling contexts: what HPCToolkit and Nsight Compute measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Place(IntEnum):
    """What a context is."""

    FUNCTION = 0
    LOOP = 1
    LINE = 2
    INSTRUCTION = 3
    ENTRY = 4


@dataclass(frozen=True)
class Context:
    """A node of the calling-context tree.

    parent    number of the node above (-1 for entries)
    called    whether the parent called it (else it lies inside the parent)
    name      of a function or entry
    file, line  of loops and lines; module, offset  of instructions, and of a function's entry
    """

    parent: int
    place: Place
    called: bool = False
    name: str = ""
    file: str = ""
    line: int = 0
    module: str = ""
    offset: int = 0

    @property
    def label(self) -> str:
        """Short, for people."""
        if self.place in (Place.FUNCTION, Place.ENTRY):
            return self.name or "(unknown function)"
        if self.place == Place.INSTRUCTION:
            return f"{self.module.rsplit('/', 1)[-1]}+{self.offset:#x}"
        where = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        return f"loop at {where}" if self.place == Place.LOOP else where


@dataclass(frozen=True)
class Samples:
    """contexts by number; values: metric to what was measured at each context itself."""

    source: str
    title: str
    contexts: Sequence[Context]
    values: Mapping[str, Floats]

    def total(self, metric: str) -> float:
        """Over all contexts; 0 for a metric that was not measured."""
        values = self.values.get(metric)
        return float(values.sum()) if values is not None else 0.0

    def above(self, number: int) -> Iterator[int]:
        """The context and all above it, innermost first."""
        while number >= 0:
            yield number
            number = self.contexts[number].parent

    def function_of(self, number: int) -> int:
        """The innermost function around a context, or -1."""
        for n in self.above(number):
            if self.contexts[n].place == Place.FUNCTION:
                return n
        return -1

    def enclosing(self, number: int, place: Place) -> int:
        """The innermost context of this kind around `number` in the same function, or -1."""
        for n in self.above(number):
            context = self.contexts[n]
            if context.place == place:
                return n
            if context.place in (Place.FUNCTION, Place.ENTRY):
                return -1
        return -1
