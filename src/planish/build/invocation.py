"""A compiler's command line, as far as units and links of a build have to be told from the rest.

What compiles C or C++ sources to objects can be recorded and replayed, what links can be linked
again; everything else (preprocessing, assembly, standard input, instrumentation, precompiled
headers) is handed on untouched. Response files are read for what they hold, and handed on as they
stand.
"""

from __future__ import annotations

import os

from planish.base.light import NamedTuple
from planish.build.flags import expand, without_linking, without_pch
from planish.build.words import (
    COMPILERS,
    DEBUG_LEVELS,
    GIVEN_LANGUAGES,
    INSTRUMENTED,
    LANGUAGES,
    LINKERS,
    OTHER_MODES,
    OTHER_PREFIXES,
    OTHER_SOURCES,
    TAKES_VALUE,
    WRITES_DEPENDENCIES,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Named tuples, and paths as text: `planish cc` reads a command line a thousand times in a build.


class Unit(NamedTuple):
    """One source compiled to one object.

    source, output  as they stand in the command
    flags           the other words, without -c and -o
    dependencies    whether the command writes a file of dependencies, too
    """

    source: str
    output: str
    flags: tuple[str, ...]
    dependencies: bool


class Command(NamedTuple):
    """What a command line does.

    units     sources that it compiles; to objects of their own, or (`links`) for the link
    lto       whether the objects are to be bitcode for the linker
    links     whether it links; then `words` are the words with response files expanded
    inputs    for a link: the places, in `words`, of files and `-lNAME`
    sources   for a link: the places, in `words`, of the units' sources
    output    for a link: what it makes
    problem   why there is nothing to replay in it; empty where there is
    """

    units: tuple[Unit, ...] = ()
    lto: bool = False
    links: bool = False
    words: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    output: str = ""
    problem: str = ""


def parse(words: Sequence[str]) -> Unit | None:
    """The unit that a command compiles; None for every other command."""
    command = read(words)
    alone = len(command.units) == 1 and not command.links and not command.problem
    return command.units[0] if alone else None


def read(words: Sequence[str]) -> Command:
    """What a compiler's command does."""
    expanded, problem = expand(words)
    if problem:
        return Command(problem=problem)
    reader = _Reader(tuple(expanded))
    return reader.command()


def read_linker(words: Sequence[str]) -> Command:
    """What the command of a linker itself (`ld`) does."""
    expanded, problem = expand(words)
    if problem:
        return Command(problem=problem)
    reader = _Reader(tuple(expanded), linker=True)
    return reader.link("a.out")


class _Reader:
    """One walk over the words of a command."""

    def __init__(self, words: tuple[str, ...], *, linker: bool = False) -> None:
        self._words = words
        self._linker = linker
        self._sources: list[tuple[str, str, int]] = []
        self._inputs: list[int] = []
        self._flags: list[str] = []
        self._language = self._output = self._mode = self._instrument = self._level = ""
        self._compiles = self._dependencies = self._lto = False
        self._walk()

    def command(self) -> Command:
        if self._mode:
            return Command(problem=self._mode)
        if not self._compiles:
            return self._at_once() if self._sources else self.link("a.out")
        if not self._sources or self._inputs:
            return Command(problem="compiles no C or C++ source")
        if self._output and len(self._sources) > 1:
            return Command(problem="several sources to one output")  # the compiler's own error
        units = tuple(self._unit(source) for source, _, _ in self._sources)
        return Command(units, self._lto, problem=self._problem())

    def _problem(self) -> str:
        """Why the sources' objects are none of Planish's."""
        problem = self._instrument or ("-flto" if self._lto else "")
        if self._level in DEBUG_LEVELS:
            problem = problem or f"{self._level} asks for unoptimised code"
        elif not self._level:
            problem = problem or "without -Os or another -O the code is not to be optimised"
        if self._wrong_language():
            problem = problem or "-x says another language than the source's name"
        return problem

    def _at_once(self) -> Command:
        """Compiles and links: each source to an object beside nothing, named after both."""
        problem = self._problem()
        if self._language or self._dependencies:
            what = "-x" if self._language else "dependencies"
            problem = problem or f"compiles and links at once with {what}"
        if problem:
            return Command(problem=problem)
        output = self._output or "a.out"
        flags = tuple(without_pch(without_linking(self._flags)))
        places = tuple(at for _, _, at in self._sources)
        units = tuple(
            Unit(source, f"{output}-{at}-{os.path.basename(source)}.o", flags, False)  # noqa: PTH119
            for source, _, at in self._sources
        )
        inputs = tuple(sorted((*self._inputs, *places)))
        return Command(units, False, True, self._words, inputs, places, output)

    def link(self, default: str) -> Command:
        if not self._inputs:
            return Command(problem="no input")
        return Command(
            links=True, lto=self._lto, words=self._words, inputs=tuple(self._inputs),
            output=self._output or default, problem="a link",
        )  # fmt: skip

    def _walk(self) -> None:
        at = 0
        while at < len(self._words):
            word = self._words[at]
            at += 1
            if word == "--":  # inputs from here on, whatever they are called
                for place in range(at, len(self._words)):
                    if self._words[place].startswith("-"):
                        self._mode = self._mode or f"{self._words[place]} is an odd name"
                    self._input(self._words[place], place)
                break
            if word in TAKES_VALUE and word not in (COMPILERS if self._linker else LINKERS):
                if at == len(self._words):
                    self._mode = self._mode or f"{word} has no value"  # the compiler's own error
                    break
                self._valued(word, self._words[at], at)
                at += 1
            elif word == "-":
                self._mode = self._mode or "reads standard input"
            elif word.startswith("-"):
                self._option(word, at - 1)
            else:
                self._input(word, at - 1)

    def _valued(self, word: str, value: str, at: int) -> None:
        if word == "-o":
            self._to(value)
        elif word == "-x":
            self._as(value)
        elif word == "-l":
            self._inputs.append(at)
        elif word == "-include-pch":
            header = os.path.splitext(value)[0]  # noqa: PTH122
            if os.path.isfile(header):  # noqa: PTH113
                self._flags += ["-include", header]
            else:
                self._instrument = f"{value} is the compiler's own, with no header beside it"
        elif word in ("-MJ", "-aux-info", "-serialize-diagnostics"):
            self._instrument = self._instrument or f"{word} writes another file"
        else:
            self._flags += [word, value]

    def _option(self, word: str, at: int) -> None:
        if word == "-c":
            self._compiles = True
        elif word.startswith("-o") and not word.startswith("-objc"):
            self._to(word[2:])
        elif word.startswith("-x") and not self._linker:
            self._as(word[2:])
        elif word.startswith("-l") and len(word) > 2:
            self._inputs.append(at)
        else:
            self._flag(word)

    def _to(self, output: str) -> None:
        if self._output and not self._linker:
            self._mode = self._mode or "two outputs"
        self._output = output

    def _as(self, language: str) -> None:
        """The language of the sources that follow."""
        self._language = "" if language == "none" else language
        if self._language and self._language not in GIVEN_LANGUAGES and not self._linker:
            self._mode = self._mode or f"-x {language} is not C or C++"

    def _flag(self, word: str) -> None:
        if not self._linker and (word in OTHER_MODES or word.startswith(OTHER_PREFIXES)):
            self._mode = self._mode or f"{word} asks for something else"
        elif word == "-p" or word.startswith(INSTRUMENTED):
            self._instrument = self._instrument or f"{word} adds to the object"
        elif word.startswith("-flto"):
            self._lto = True
        elif word.startswith("-fno-lto"):
            self._lto = False
        elif word.startswith("-O"):
            self._level = word
        # The preprocessor's own way to ask for dependencies, as kernels do.
        writes = word in WRITES_DEPENDENCIES or word.startswith(("-Wp,-MD", "-Wp,-MMD"))
        self._dependencies = self._dependencies or writes
        self._flags.append(word)

    def _input(self, word: str, at: int) -> None:
        suffix = _suffix(word)
        language = self._language or LANGUAGES.get(suffix, "")
        if self._linker or (not self._language and suffix not in OTHER_SOURCES and not language):
            self._inputs.append(at)
        elif language in GIVEN_LANGUAGES:
            self._sources.append((word, language, at))
        else:
            self._mode = self._mode or f"{word} is no C or C++ source"

    def _unit(self, source: str) -> Unit:
        output = self._output or f"{os.path.basename(source).removesuffix(_suffix(source))}.o"  # noqa: PTH119
        return Unit(source, output, tuple(without_pch(self._flags)), self._dependencies)

    def _wrong_language(self) -> bool:
        return any(
            LANGUAGES.get(_suffix(source)) != GIVEN_LANGUAGES[language]
            or (language.endswith("cpp-output") != (_suffix(source) in (".i", ".ii")))
            for source, language, _ in self._sources
            if self._language
        )


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1]  # noqa: PTH122
