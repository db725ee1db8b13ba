"""A compiler's command line, as far as a unit of a build has to be told from the rest.

What compiles one C or C++ source to an object can be recorded and replayed; everything else (links,
preprocessing, assembly, several sources, standard input, response files) is handed on untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

# Options whose value is the following word.
_TAKES_VALUE = frozenset(
    [
        "-I",
        "-D",
        "-U",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-include",
        "-imacros",
        "-isysroot",
        "--sysroot",
        "-x",
        "-target",
        "-arch",
        "-MF",
        "-MT",
        "-MQ",
        "-Xclang",
        "-Xpreprocessor",
        "-Xassembler",
        "-Xlinker",
        "-mllvm",
        "-L",
        "-l",
        "-T",
        "-u",
        "-z",
        "-e",
        "-b",
        "-V",
        "-B",
        "-framework",
        "-F",
        "-aux-info",
        "--param",
        "-iprefix",
        "-iwithprefix",
        "-iwithprefixbefore",
        "-o",
        "-G",
        "-A",
        "-dumpbase",
        "-dumpdir",
        "-specs",
        "-stdlib",
    ]
)
_SOURCES = frozenset((".c", ".cc", ".cpp", ".cxx", ".c++", ".C"))
# What makes another thing than one object, or another language than C and C++.
_OTHER_MODES = frozenset(
    [
        "-E",
        "-S",
        "-M",
        "-MM",
        "-###",
        "--version",
        "-v",
        "-dumpmachine",
        "-dumpversion",
        "-print-search-dirs",
        "-x",
        "-fsyntax-only",
        "-emit-llvm",
        "-save-temps",
        "-flto",
        "-fprofile-generate",
    ]
)
_WRITES_DEPENDENCIES = ("-MD", "-MMD")


@dataclass(frozen=True)
class Unit:
    """One source compiled to one object.

    source, output  as they stand in the command
    flags           the other words, without -c and -o
    dependencies    whether the command writes a file of dependencies, too
    """

    source: str
    output: str
    flags: tuple[str, ...]
    dependencies: bool


def parse(words: Sequence[str]) -> Unit | None:
    """The unit that a command compiles; None for every other command."""
    sources: list[str] = []
    flags: list[str] = []
    output, compiles, dependencies = "", False, False
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("@") or word == "-" or _is_other(word):
            return None
        if word == "-c":
            compiles = True
        elif word == "-o" or (word.startswith("-o") and len(word) > 2):
            output = word[2:] or (words[at] if at < len(words) else "")
            at += word == "-o"
        elif word in _TAKES_VALUE:
            flags += [word, *words[at : at + 1]]
            at += 1
        elif word.startswith("-"):
            dependencies = dependencies or word in _WRITES_DEPENDENCIES
            flags.append(word)
        else:
            sources.append(word)
    if not compiles or len(sources) != 1 or PurePath(sources[0]).suffix not in _SOURCES:
        return None
    named = output or f"{PurePath(sources[0]).stem}.o"
    return Unit(sources[0], named, tuple(flags), dependencies)


def _is_other(word: str) -> bool:
    return word in _OTHER_MODES or word.startswith(("-flto", "-fprofile", "--analyze"))
