"""A compiler's command line, as far as units and links of a build have to be told from the rest.

What compiles C or C++ sources to objects can be recorded and replayed, what links can be linked
again; everything else (preprocessing, assembly, standard input, instrumentation, precompiled
headers) is handed on untouched. Response files are read for what they hold, and handed on as they
stand.
"""

from __future__ import annotations

import os

from planish.base.light import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Named tuples, and paths as text: `planish cc` reads a command line a thousand times in a build.

# Options whose value is the following word.
TAKES_VALUE = frozenset([
    "-I", "-D", "-U", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-isysroot",
    "--sysroot", "-x", "-target", "-arch", "-MF", "-MT", "-MQ", "-MJ", "-Xclang",
    "-Xpreprocessor", "-Xassembler", "-Xlinker", "-mllvm", "-L", "-l", "-T", "-u", "-z", "-e",
    "-b", "-V", "-B", "-framework", "-F", "-aux-info", "--param", "-iprefix", "-iwithprefix",
    "-iwithprefixbefore", "-o", "-G", "-A", "-dumpbase", "-dumpdir", "-specs", "-stdlib",
    "-include-pch", "-Tbss", "-Tdata", "-Ttext", "-wrapper", "-m", "-soname", "-rpath", "-h",
    "-dynamic-linker", "-plugin", "-Map", "--version-script", "--defsym", "-rpath-link",
    "-install_name", "-undefined", "-dumpbase-ext", "-imultilib", "-serialize-diagnostics",
    "-dependency-file", "--target", "-ccc-gcc-name", "-isystem-after", "-iframework",
])  # fmt: skip
# Of these, a linker's words that a compiler reads otherwise ("-h", "-m", "-plugin").
_LINKERS = frozenset(["-m", "-soname", "-rpath", "-h", "-dynamic-linker", "-plugin", "-Map",
                      "--version-script", "--defsym", "-rpath-link"])  # fmt: skip
_LANGUAGES = {
    **dict.fromkeys((".c", ".i"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP", ".ii"), "c++"),
}
_GIVEN_LANGUAGES = {"c": "c", "c++": "c++", "cpp-output": "c", "c++-cpp-output": "c++"}
# Suffixes that compilers read as something else than an input of the linker.
_OTHER_SOURCES = frozenset([".s", ".S", ".sx", ".m", ".mm", ".M", ".h", ".hh", ".hpp", ".hxx",
                            ".f", ".F", ".f90", ".go", ".d", ".cu", ".ll", ".bc"])  # fmt: skip
# What makes another thing than objects.
_OTHER_MODES = frozenset([
    "-E", "-S", "-M", "-MM", "-###", "--version", "-v", "-dumpmachine", "-dumpversion",
    "-dumpfullversion", "-dumpspecs", "-print-search-dirs", "-fsyntax-only", "-emit-llvm",
    "-emit-ast", "-save-temps", "--save-temps", "--help", "-verify-pch", "-dM", "-emit-pch",
])  # fmt: skip
_OTHER_PREFIXES = (
    "-save-temps=", "--save-temps=", "--analyze", "-print-", "--print-", "-fplugin", "-fdump-",
    "--help=", "-Q", "-fpch-",
)  # fmt: skip
# The compiler writes a file beside the object, or adds code that a replay would leave out.
_INSTRUMENTED = (
    "-fprofile", "-fsanitize", "--coverage", "-coverage", "-ftest-coverage", "-pg",
    "-finstrument-functions", "-fxray-instrument", "-fcs-profile", "-gsplit-dwarf",
    "-fstack-usage", "-ftime-trace", "-fsave-optimization-record", "-foptimization-record",
    "-fcallgraph-info",
)  # fmt: skip
_WRITES_DEPENDENCIES = ("-MD", "-MMD")
_DEBUG_LEVELS = ("-O0", "-Og")
# A response file within a response file within ... at most so deep.
_DEEPEST = 8


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

    units     sources that it compiles to objects of their own
    lto       whether the objects are to be bitcode for the linker
    links     whether it links; then `words` are the words with response files expanded
    inputs    for a link: the places, in `words`, of files and `-lNAME`
    output    for a link: what it makes
    problem   why there is nothing to replay in it; empty where there is
    """

    units: tuple[Unit, ...] = ()
    lto: bool = False
    links: bool = False
    words: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    output: str = ""
    problem: str = ""


def parse(words: Sequence[str]) -> Unit | None:
    """The unit that a command compiles; None for every other command."""
    command = read(words)
    return command.units[0] if len(command.units) == 1 and not command.problem else None


def read(words: Sequence[str]) -> Command:
    """What a compiler's command does."""
    expanded, problem = _expand(list(words), _DEEPEST)
    if problem:
        return Command(problem=problem)
    reader = _Reader(tuple(expanded))
    return reader.command()


def read_linker(words: Sequence[str]) -> Command:
    """What the command of a linker itself (`ld`) does."""
    expanded, problem = _expand(list(words), _DEEPEST)
    if problem:
        return Command(problem=problem)
    reader = _Reader(tuple(expanded), linker=True)
    return reader.link("a.out")


class _Reader:
    """One walk over the words of a command."""

    def __init__(self, words: tuple[str, ...], *, linker: bool = False) -> None:
        self._words = words
        self._linker = linker
        self._sources: list[tuple[str, str]] = []
        self._inputs: list[int] = []
        self._flags: list[str] = []
        self._language = self._output = self._mode = self._instrument = self._level = ""
        self._compiles = self._dependencies = self._lto = False
        self._walk()

    def command(self) -> Command:
        if self._mode:
            return Command(problem=self._mode)
        if not self._compiles:
            if self._sources:
                return Command(problem="compiles and links at once")
            return self.link("a.out")
        if not self._sources or self._inputs:
            return Command(problem="compiles no C or C++ source")
        if self._output and len(self._sources) > 1:
            return Command(problem="several sources to one output")  # the compiler's own error
        problem = self._instrument or ("-flto" if self._lto else "")
        if self._level in _DEBUG_LEVELS:
            problem = problem or f"{self._level} asks for unoptimised code"
        units = tuple(self._unit(source, language) for source, language in self._sources)
        if self._wrong_language():
            problem = problem or "-x says another language than the source's name"
        return Command(units, self._lto, problem=problem)

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
            if word in TAKES_VALUE and (self._linker or word not in _LINKERS):
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
            self._output = value
        elif word == "-x":
            self._language = "" if value == "none" else value
        elif word == "-l":
            self._inputs.append(at)
        elif word in ("-MJ", "-aux-info", "-serialize-diagnostics"):
            self._instrument = self._instrument or f"{word} writes another file"
        else:
            self._flags += [word, value]

    def _option(self, word: str, at: int) -> None:
        if word == "-c":
            self._compiles = True
        elif word.startswith("-o") and not word.startswith("-objc"):
            self._output = word[2:]
        elif word.startswith("-x") and not self._linker:
            self._language = "" if word == "-xnone" else word[2:]
        elif word.startswith("-l") and len(word) > 2:
            self._inputs.append(at)
        else:
            self._flag(word)

    def _flag(self, word: str) -> None:
        if not self._linker and (word in _OTHER_MODES or word.startswith(_OTHER_PREFIXES)):
            self._mode = self._mode or f"{word} asks for something else"
        elif word == "-p" or word.startswith(_INSTRUMENTED):
            self._instrument = self._instrument or f"{word} adds to the object"
        elif word.startswith("-flto"):
            self._lto = True
        elif word.startswith("-fno-lto"):
            self._lto = False
        elif word.startswith("-O"):
            self._level = word
        # The preprocessor's own way to ask for dependencies, as kernels do.
        writes = word in _WRITES_DEPENDENCIES or word.startswith(("-Wp,-MD", "-Wp,-MMD"))
        self._dependencies = self._dependencies or writes
        self._flags.append(word)

    def _input(self, word: str, at: int) -> None:
        suffix = _suffix(word)
        language = self._language or _LANGUAGES.get(suffix, "")
        if self._linker or (not self._language and suffix not in _OTHER_SOURCES and not language):
            self._inputs.append(at)
        elif language in _GIVEN_LANGUAGES:
            self._sources.append((word, language))
        else:
            self._mode = self._mode or f"{word} is no C or C++ source"

    def _unit(self, source: str, language: str) -> Unit:
        output = self._output or f"{os.path.basename(source).removesuffix(_suffix(source))}.o"  # noqa: PTH119
        return Unit(source, output, tuple(without_pch(self._flags)), self._dependencies)

    def _wrong_language(self) -> bool:
        return any(
            _LANGUAGES.get(_suffix(source)) != _GIVEN_LANGUAGES[language]
            or (language.endswith("cpp-output") != (_suffix(source) in (".i", ".ii")))
            for source, language in self._sources
            if self._language
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
        elif flag in (*_WRITES_DEPENDENCIES, "-MP", "-MG"):
            words.append(flag)
    if "-MF" not in words:
        words += ["-MF", f"{os.path.splitext(unit.output)[0]}.d"]  # noqa: PTH122
    if not {"-MT", "-MQ"} & set(words):
        words += ["-MQ", unit.output]
    return tuple(words)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1]  # noqa: PTH122


def _expand(words: list[str], depth: int) -> tuple[list[str], str]:
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
        more, problem = _expand(inside, depth - 1)
        if problem:
            return [], problem
        made += more
    return made, ""
