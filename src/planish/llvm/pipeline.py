"""LLVM's textual pass pipelines as typed objects.

    pipeline  ::= element ("," element)*
    element   ::= name ["<" parameters ">"] ["(" pipeline ")"]

A name is a pass (`sroa`), a whole pipeline (`default<Oz>`), an adaptor that takes passes of an
inner level (`function(...)`, `loop-mssa(...)`, `cgscc(...)`), or, with a leading `@`, an attribute
that Planish sets on the functions (`@frame-pointer=all`). Parameters may hold brackets themselves
(`require<profile-summary>`, `devirt<4>`, `function<eager-inv>`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from planish.base.errors import RecipeError

_NAME = re.compile(r"@?[A-Za-z_][A-Za-z0-9_.\-]*(=[A-Za-z0-9_.\-]+)?|@[A-Za-z0-9_.\-]+")
# Adaptors from the outermost level inwards: what each turns its passes into.
ADAPTORS = ("module", "cgscc", "function", "loop", "loop-mssa", "machine-function")


@dataclass(frozen=True)
class Pass:
    """One element: a name, its parameters as written, and the pipeline inside, if any."""

    name: str
    parameters: str | None = None
    inner: tuple[Pass, ...] | None = None

    def __str__(self) -> str:
        parameters = "" if self.parameters is None else f"<{self.parameters}>"
        inner = "" if self.inner is None else f"({','.join(map(str, self.inner))})"
        return f"{self.name}{parameters}{inner}"

    @property
    def is_attribute(self) -> bool:
        """Whether it sets an attribute instead of running a pass."""
        return self.name.startswith("@")


@dataclass(frozen=True)
class Pipeline:
    """A sequence of elements."""

    passes: tuple[Pass, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.passes))

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The inverse of `str`; raises RecipeError with the position of what does not parse."""
        return cls(tuple(_Parser(text).whole()))

    def names(self) -> list[str]:
        """Names of all passes, those inside included; adaptors are left out."""
        return [item.name for item in self.walk() if item.name not in ADAPTORS]

    def walk(self) -> Iterator[Pass]:
        """All elements, outer before inner."""
        waiting = list(reversed(self.passes))
        while waiting:
            item = waiting.pop()
            yield item
            waiting += reversed(item.inner or ())


def split_pipeline(text: str) -> tuple[str, ...]:
    """The texts of the top-level elements; raises RecipeError when the pipeline does not parse."""
    return tuple(str(item) for item in Pipeline.parse(text).passes)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> list[Pass]:
        if not self._text.strip():
            return []
        passes = self._pipeline()
        if self._at < len(self._text):
            raise self._error(f"unexpected '{self._text[self._at]}'")
        return passes

    def _pipeline(self) -> list[Pass]:
        passes = [self._element()]
        while self._take(","):
            passes.append(self._element())
        return passes

    def _element(self) -> Pass:
        self._skip_space()
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._error("a pass name is missing")
        self._at = match.end()
        parameters = self._parameters() if self._take("<") else None
        inner = None
        if self._take("("):
            inner = tuple(self._pipeline())
            if not self._take(")"):
                raise self._error("missing ')'")
        return Pass(match[0], parameters, inner)

    def _parameters(self) -> str:
        start, depth = self._at, 1
        while self._at < len(self._text):
            char = self._text[self._at]
            depth += (char == "<") - (char == ">")
            self._at += 1
            if not depth:
                return self._text[start : self._at - 1]
        raise self._error("missing '>'")

    def _take(self, char: str) -> bool:
        self._skip_space()
        if self._text.startswith(char, self._at):
            self._at += 1
            return True
        return False

    def _skip_space(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _error(self, what: str) -> RecipeError:
        return RecipeError(
            f"{what} at position {self._at} of the pipeline '{self._text}'",
            hint="names are separated by commas, as for opt -passes",
        )


def segments(pipeline: str) -> list[str]:
    """The pipeline as runs of passes and single attribute elements, in order."""
    found: list[str] = []
    for element in split_pipeline(pipeline):
        if element.startswith("@") or not found or found[-1].startswith("@"):
            found.append(element)
        else:
            found[-1] += "," + element
    return found
