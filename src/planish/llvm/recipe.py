"""A recipe: what replays. One text form that parses back to an equal recipe.

    passes: function(sroa),default<Oz>,function(newgvn)
    options: -disable-lsr -enable-ipra
    function main: instcombine<no-verify-fixpoint>,simplifycfg

`passes` is a module pipeline, `options` are the code generator's, and each `function` line is a
suffix of function passes that runs on that function alone, after the module pipeline. Every line
may be absent; the empty text is the recipe that does nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from planish.base.errors import RecipeError
from planish.llvm.pipeline import split_pipeline

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.$@]+")
_OPTION = re.compile(r"-[A-Za-z0-9][A-Za-z0-9._-]*(=[A-Za-z0-9_.+-]*)?")


@dataclass(frozen=True)
class Recipe:
    """Immutable and hashable; `functions` is sorted by name."""

    passes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    functions: tuple[tuple[str, str], ...] = ()

    @property
    def pipeline(self) -> str:
        """The module pipeline as LLVM reads it."""
        return ",".join(self.passes)

    def with_functions(self, suffixes: Mapping[str, str]) -> Recipe:
        """The same recipe with these suffixes (empty ones left out)."""
        kept = tuple(sorted((name, text) for name, text in suffixes.items() if text))
        return Recipe(self.passes, self.options, kept)

    def __str__(self) -> str:
        lines = []
        if self.passes:
            lines.append(f"passes: {self.pipeline}")
        if self.options:
            lines.append(f"options: {' '.join(self.options)}")
        lines += [f"function {_quote(name)}: {text}" for name, text in self.functions]
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """The inverse of `str`; raises RecipeError with the line that does not parse."""
        passes: tuple[str, ...] = ()
        options: tuple[str, ...] = ()
        functions: dict[str, str] = {}
        seen: set[str] = set()
        for line in text.splitlines():
            if not line.strip():
                continue
            head = line.partition(": ")[0]
            if head in seen:
                raise RecipeError(f"the recipe has two lines '{head}:'")
            if head in ("passes", "options"):
                seen.add(head)
            if line.startswith("passes: "):
                passes = split_pipeline(line.removeprefix("passes: "))
            elif line.startswith("options: "):
                options = check_options(line.removeprefix("options: ").split())
            elif line.startswith("function "):
                name, suffix = _parse_function(line)
                if name in functions:
                    raise RecipeError(f"the recipe has two lines for the function {name}")
                functions[name] = suffix
            else:
                raise RecipeError(
                    f"cannot read the recipe line '{line}'",
                    hint="lines start with 'passes:', 'options:' or 'function NAME:'",
                )
        return cls(passes, options, tuple(sorted(functions.items())))


def check_options(words: list[str]) -> tuple[str, ...]:
    """The words as options; raises RecipeError for what is none, or stands twice."""
    names = set()
    for word in words:
        if not _OPTION.fullmatch(word):
            raise RecipeError(
                f"'{word}' is no code generator option", hint="write -name or -name=x"
            )
        name = word.partition("=")[0]
        if name in names:
            raise RecipeError(f"the option {name} stands twice", hint="LLVM takes each once")
        names.add(name)
    return tuple(words)


def _quote(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


def _parse_function(line: str) -> tuple[str, str]:
    rest = line.removeprefix("function ")
    try:
        if rest.startswith('"'):
            name, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:]
        else:
            name, separator, rest = rest.partition(":")
            rest = separator + rest
    except ValueError as error:
        raise RecipeError(f"cannot read the recipe line '{line}'") from error
    if not rest.startswith(": ") or not isinstance(name, str) or not name:
        raise RecipeError(f"cannot read the recipe line '{line}'", hint="function NAME: PASSES")
    return name, ",".join(split_pipeline(rest[2:]))
