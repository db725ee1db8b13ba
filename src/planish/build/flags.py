"""What is done to a command's flags before they are a unit's."""

from __future__ import annotations

import os

from planish.base.words import without
from planish.build.words import (
    FOR_LINKER,
    FOR_LINKER_PREFIXES,
    FOR_LINKER_VALUED,
    TAKES_VALUE,
    WRITES_DEPENDENCIES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from planish.build.invocation import Unit

# A response file within a response file within ... at most so deep.
_DEEPEST = 8


def expand(words: Sequence[str], depth: int = _DEEPEST) -> tuple[list[str], str]:
    """The words with response files read; a reason where one cannot be."""
    made: list[str] = []
    for word in words:
        if not word.startswith("@") or not depth:
            made.append(word)
            continue
        import shlex

        try:
            with open(word[1:], encoding="utf-8") as file:  # noqa: PTH123
                inside = shlex.split(file.read())
        except (OSError, UnicodeDecodeError, ValueError):
            return [], f"{word} cannot be read"  # the compiler says why, or takes it as a name
        more, problem = expand(inside, depth - 1)
        if problem:
            return [], problem
        made += more
    return made, ""


def without_linking(flags: Sequence[str]) -> list[str]:
    """The flags that a compiler without a link does not leave unused, and complain of."""
    return without(
        flags,
        valued=TAKES_VALUE,
        dropped_valued=FOR_LINKER_VALUED,
        dropped=lambda word: word in FOR_LINKER or word.startswith(FOR_LINKER_PREFIXES),
    )


def without_pch(flags: Sequence[str]) -> list[str]:
    """The flags without a precompiled header that stands beside the header itself, as CMake does.

    Another compiler's precompiled header cannot be read; the header can.
    """
    kept: list[str] = []
    at = 0
    while at < len(flags):
        if list(flags[at : at + 3 : 2]) == ["-Xclang", "-Xclang"] and (
            flags[at + 1] == "-include-pch" and at + 3 < len(flags)
        ):
            at += 4
            continue
        kept.append(flags[at])
        at += 1
    return kept


def dependency_words(unit: Unit) -> tuple[str, ...] | None:
    """What makes clang write the unit's file of dependencies, whatever else it writes.

    None where they are asked for in a way that is not understood.
    """
    flags, words = list(unit.flags), []
    for at, flag in enumerate(flags):
        if flag.startswith("-Wp,"):
            return None
        if flag in ("-MF", "-MT", "-MQ"):
            words += flags[at : at + 2]
        elif flag in (*WRITES_DEPENDENCIES, "-MP", "-MG"):
            words.append(flag)
    if "-MF" not in words:
        words += ["-MF", f"{os.path.splitext(unit.output)[0]}.d"]  # noqa: PTH122
    if not {"-MT", "-MQ"} & set(words):
        words += ["-MQ", unit.output]
    return tuple(words)
