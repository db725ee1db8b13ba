"""The C and C++ front end: source to unoptimised bitcode, baseline objects, code generation."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from planish.base.errors import CompileError, UsageError
from planish.base.files import read_bytes
from planish.base.words import without
from planish.llvm.toolchain import FrontEnd

C_SUFFIXES = frozenset({".c", ".i"})
CXX_SUFFIXES = frozenset({".cc", ".cpp", ".cxx", ".c++", ".C", ".ii"})
IR_SUFFIXES = frozenset({".ll", ".bc"})
SOURCE_SUFFIXES = C_SUFFIXES | CXX_SUFFIXES | IR_SUFFIXES
LEVELS = ("O0", "O1", "O2", "O3", "Os", "Oz")

# Unoptimised, yet ready to be optimised: plain -O0 adds `optnone`, and passes then do nothing.
_UNOPTIMISED = ("-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c")
_SECONDS = 300

# Flags that choose what is produced, not how; with a value behind them, or on their own.
_DROPPED_WITH_VALUE = frozenset({"-o", "-MF", "-MT", "-MQ", "-MJ", "-x", "-dependency-file"})
_DROPPED = frozenset({
    "-c", "-S", "-E", "-emit-llvm", "-M", "-MM", "-MD", "-MMD", "-MP", "-MG", "-fsyntax-only",
    "-save-temps", "--save-temps", "-pipe", "-###", "-v",
})  # fmt: skip
_DROPPED_PREFIXES = ("-o", "-MF", "-MT", "-MQ", "-MJ", "-flto", "-save-temps=", "-x")
# Flags whose value is the next word, whatever it looks like.
_WITH_VALUE = frozenset({
    "-D", "-U", "-I", "-include", "-isystem", "-iquote", "-idirafter", "-imacros", "-isysroot",
    "-Xclang", "-Xpreprocessor", "-Xassembler", "-mllvm", "-target", "-arch", "-iprefix",
    "-iwithprefix", "-L", "-l", "-u", "-T", "-z", "-Xlinker", "--param", "-F", "-iframework",
})  # fmt: skip

# Flags that the code generator learns of outside the bitcode and the target machine's C API.
_BACK_END_FLAGS = (
    "-ffunction-sections", "-fdata-sections", "-fno-unique", "-funique", "-fbasic-block-sections",
    "-gsplit-dwarf", "-gz", "-mrelax", "-mfloat-abi", "-mabi", "-femulated-tls", "-fstack-usage",
    "-fno-integrated-as", "-Wa,", "-mllvm", "-ffp-contract", "-ffast-math", "-Ofast",
    "-fno-zero-initialized", "-mstack-alignment", "-meabi", "-mtp", "-mimplicit-it",
    "-fsplit-stack", "-fsplit-machine-functions", "-fdebug-types-section", "-ftls-model",
    "-mrelocation-model", "-fropi", "-frwpi",
)  # fmt: skip


# Frame pointers for debuggers and profilers that follow them.
_FRAME_FLAGS = frozenset({
    "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-mframe-chain=aapcs",
    "-mframe-chain=aapcs+leaf", "-pg", "-p", "-finstrument-functions",
})  # fmt: skip


def check_suffix(path: Path) -> None:
    """Raises UsageError for a file that is no source that Planish knows."""
    if path.suffix not in SOURCE_SUFFIXES:
        known = ", ".join(sorted(SOURCE_SUFFIXES))
        raise UsageError(f"{path} is no source that Planish knows", hint=f"one of {known}")


def read_module(
    path: Path,
    flags: Sequence[str],
    need: Callable[[], FrontEnd],
    hear: Callable[[bytes], None] | None = None,
    named: str = "",
) -> bytes:
    """Bitcode or textual IR as it stands; C and C++ compiled without optimisation.

    need  gives the front end, where one is needed
    hear  is told its warnings, in the compiler's words, where there are any
    named  the path as the compiler is to be told it, if in other words: `__FILE__` gives it back
    Raises UsageError or CompileError for a file that cannot be read or compiled.
    """
    check_suffix(path)
    if path.suffix in IR_SUFFIXES:
        return read_bytes(path)
    return compile_to_bitcode(need(), path, flags, hear, named)


def clean_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """The user's flags without output choices, optimisation levels and link-time optimisation."""
    return tuple(
        without(
            flags, valued=_WITH_VALUE, dropped_valued=_DROPPED_WITH_VALUE, dropped=_chooses_output
        )
    )


def _chooses_output(word: str) -> bool:
    return word in _DROPPED or word.startswith(_DROPPED_PREFIXES) or _is_level(word)


def asks_for_frames(flags: Iterable[str]) -> bool:
    """Whether the user wants frame pointers, beyond what the target has by default."""
    return any(flag in _FRAME_FLAGS for flag in flags)


def back_end_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Those flags that only clang itself can tell its code generator."""
    return tuple(flag for flag in flags if flag.startswith(_BACK_END_FLAGS))


def _is_level(word: str) -> bool:
    return word in ("-O", "-O4", "-Ofast", "-Og") or word.removeprefix("-") in LEVELS


def compile_to_bitcode(
    front_end: FrontEnd,
    source: Path,
    flags: Sequence[str],
    hear: Callable[[bytes], None] | None = None,
    named: str = "",
) -> bytes:
    """Unoptimised bitcode, every function marked for size.

    hear, named  as for `read_module`
    Raises CompileError with the compiler's own words when the source is refused.
    """
    return _compile(front_end, source, (*flags, "-Oz", *_UNOPTIMISED), hear, named)


def compile_baseline(
    front_end: FrontEnd, source: Path, flags: Sequence[str], level: str = "Oz", named: str = ""
) -> bytes:
    """The object that the front end itself makes at `level`; `named` as for `read_module`."""
    if level not in LEVELS:
        raise UsageError(f"unknown level '{level}'", hint="one of " + ", ".join(LEVELS))
    return _compile(front_end, source, (*flags, f"-{level}", "-c"), named=named)


def generate(
    command: Sequence[str],
    bitcode: bytes,
    options: Sequence[str] = (),
    *,
    assembly: bool = False,
) -> bytes:
    """Generate code for optimised bitcode with clang, running no further passes.

    command  clang with the user's flags (`code_generator`)
    Raises CompileError when clang fails.
    """
    words = [word for option in options for word in ("-mllvm", option)]
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        source, output = Path(folder) / "module.bc", Path(folder) / "module.o"
        source.write_bytes(bitcode)
        _run(
            [
                *command, "-Xclang", "-disable-llvm-passes", *words,
                "-S" if assembly else "-c", str(source), "-o", str(output),
            ],
            "the tuned module",
        )  # fmt: skip
        return output.read_bytes()


def code_generator(front_end: FrontEnd, flags: Sequence[str], level: str = "Oz") -> tuple[str, ...]:
    """The clang command that generates code from bitcode as it would from the source."""
    # Preprocessor and language flags mean nothing for bitcode; clang must not stop at them.
    return (*front_end.command, *_with_target(front_end, flags), f"-{level}", "-w",
            "-Qunused-arguments", "-Wno-override-module")  # fmt: skip


def triple_of(flags: Sequence[str]) -> str:
    """The target that the flags name; empty for the default."""
    triple = ""
    for at, flag in enumerate(flags):
        if flag.startswith("--target="):
            triple = flag.partition("=")[2]
        elif flag in ("-target", "--target") and at + 1 < len(flags):
            triple = flags[at + 1]
    return triple


def cpu_flag(triple: str, cpu: str) -> str:
    """How clang is told the processor: x86 has -march, the others -mcpu."""
    return f"-march={cpu}" if triple.startswith(("x86", "i386", "i686")) else f"-mcpu={cpu}"


def _with_target(front_end: FrontEnd, flags: Sequence[str]) -> tuple[str, ...]:
    default = front_end.default_triple()
    if triple_of(flags) or not default:
        return tuple(flags)
    return (f"--target={default}", *flags)


def _compile(
    front_end: FrontEnd,
    source: Path,
    flags: Sequence[str],
    hear: Callable[[bytes], None] | None = None,
    named: str = "",
) -> bytes:
    if not source.is_file():
        raise UsageError(f"no such file: {source}", hint="check the path")
    headers = front_end.headers(triple_of(flags))
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        output = Path(folder) / "out"
        words = [*front_end.command, *_with_target(front_end, flags), *headers]
        warnings = _run([*words, named or str(source), "-o", str(output)], str(source))
        if warnings and hear is not None:
            hear(warnings)
        return output.read_bytes()


def _run(command: Sequence[str], what: str) -> bytes:
    """Run clang; what it writes to standard error where it succeeds."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{what} did not compile within {_SECONDS} s") from error
    except OSError as error:
        raise CompileError(f"cannot run {command[0]}: {error.strerror or error}") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace")
        raise CompileError(
            f"{what} does not compile",
            diagnostics=words,
            hint="the compiler's message stands above; give flags after --",
        )
    return done.stderr
