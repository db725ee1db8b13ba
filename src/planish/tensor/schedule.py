"""Schedules: what is done to a plain nest, step by step, as text that a lockfile keeps.

tile C m=8 n=48 vector n
split C k 256
pack C B at k/256 as n/48 k n
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from planish.base.errors import Unreadable, unknown
from planish.tensor import inlining, primitives
from planish.tensor.loops import Nest, parse_block, plain
from planish.tensor.program import Program


@dataclass(frozen=True)
class Step:
    """One line of a schedule: a primitive's name and its words."""

    name: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.name, *self.words))

    def apply(self, nest: Nest) -> Nest:
        """The nest after this step. Raises UsageError where it may not be taken."""
        if self.name not in _READERS:
            raise unknown("schedule step", self.name, sorted(_READERS))
        try:
            return _READERS[self.name](nest, self.words)
        except (IndexError, ValueError):
            raise Unreadable(
                f"cannot read the schedule step '{self}'", hint=f"write: {_FORMS[self.name]}"
            ) from None


@dataclass(frozen=True)
class Schedule:
    """Steps in order; its text parses back to an equal schedule."""

    steps: tuple[Step, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read one step a line; `#` begins a comment."""
        lines = [line.split("#")[0].split() for line in text.splitlines()]
        steps = tuple(Step(words[0], tuple(words[1:])) for words in lines if words)
        for step in steps:
            if step.name not in _READERS:
                raise unknown("schedule step", step.name, sorted(_READERS))
        return cls(steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def apply(self, program: Program) -> Nest:
        """The nest that the steps make of the program's plain nest."""
        nest = plain(program)
        for step in self.steps:
            nest = step.apply(nest)
        return nest

    def explain(self, program: Program) -> Iterator[tuple[Step | None, Nest]]:
        """The plain nest, then every step with the nest after it."""
        nest = plain(program)
        yield None, nest
        for step in self.steps:
            nest = step.apply(nest)
            yield step, nest


def step(name: str, *words: object) -> Step:
    """A step from its words."""
    return Step(name, tuple(str(word) for word in words))


def _split(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, axis, size = words
    return primitives.split(nest, stage, axis, int(size))


def _reorder(nest: Nest, words: tuple[str, ...]) -> Nest:
    return primitives.reorder(nest, words[0], words[1:])


def _unroll(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, loop = words
    return primitives.unroll(nest, stage, loop)


def _vectorise(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, axis = words
    return primitives.vectorise(nest, stage, axis)


def _parallel(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, loop = words
    return primitives.parallel(nest, stage, loop)


def _tile(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, rest = words[0], list(words[1:])
    vector = ""
    if "vector" in rest:
        at = rest.index("vector")
        vector = rest[at + 1]
        if rest[at + 2 :]:
            raise ValueError
        rest = rest[:at]
    sizes = {}
    for word in rest:
        match = re.fullmatch(r"(\w+)=(\d+)", word)
        if match is None:
            raise ValueError(word)
        sizes[match[1]] = int(match[2])
    return primitives.tile(nest, stage, sizes, vector)


def _pack(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, tensor, *rest = words
    at = ""
    if rest[0] == "at":
        at, rest = rest[1], rest[2:]
    if rest[0] != "as" or not rest[1:]:
        raise ValueError
    return primitives.pack(nest, stage, tensor, at, [parse_block(w) for w in rest[1:]])


def _prefetch(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, tensor = words
    return primitives.prefetch(nest, stage, tensor)


def _fuse(nest: Nest, words: tuple[str, ...]) -> Nest:
    producer, consumer, at = words
    return primitives.fuse(nest, producer, consumer, at)


def _inline(nest: Nest, words: tuple[str, ...]) -> Nest:
    (stage,) = words
    return inlining.inline(nest, stage)


def _epilogue(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, reader = words
    return inlining.epilogue(nest, stage, reader)


def _split_reduction(nest: Nest, words: tuple[str, ...]) -> Nest:
    stage, axis, parts = words
    return primitives.split_reduction(nest, stage, axis, int(parts))


_READERS: dict[str, Callable[[Nest, tuple[str, ...]], Nest]] = {
    "split": _split, "reorder": _reorder, "unroll": _unroll, "vectorise": _vectorise,
    "parallel": _parallel, "tile": _tile, "pack": _pack, "prefetch": _prefetch, "fuse": _fuse,
    "split_reduction": _split_reduction, "inline": _inline, "epilogue": _epilogue,
}  # fmt: skip

_FORMS = {
    "split": "split C m 64",
    "reorder": "reorder C m/64 n m",
    "unroll": "unroll C m",
    "vectorise": "vectorise C n",
    "parallel": "parallel C m/64",
    "tile": "tile C m=8 n=48 vector n",
    "pack": "pack C B at k/256 as n/48 k n",
    "prefetch": "prefetch C B_packed_C",
    "fuse": "fuse S C m/64",
    "split_reduction": "split_reduction C k 4",
    "inline": "inline S",
    "epilogue": "epilogue C Y",
}
