"""Both versions as machine code, called with one input. Each batch runs in a process of its own.

Pointers lead into a zone of mapped pages between unmapped ones, at the same addresses for both
versions, so that what lies beyond a buffer's end is a fault and not a neighbour.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from planish.base.errors import RecipeError
from planish.llvm.binding import Library
from planish.llvm.jit import Loaded
from planish.llvm.module import Module
from planish.llvm.requests import Target
from planish.proc.race import race
from planish.verify.ir import Function, Type

ZONE = 0x2000_0000
ZONE_SIZE = 0x2000
_PAGE_FLAGS = 0x100022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
_MOST_ARGUMENTS = 6
_ALL_SECONDS = 4.0  # for all calls of one batch
# C functions that neither print nor keep state: with these a call is no side effect.
PURE_C = frozenset({
    "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strcmp", "strncmp", "strchr",
    "strrchr", "abs", "labs", "sqrt", "sin", "cos", "exp", "log", "pow", "floor", "ceil", "fabs",
    "bcmp", "strcpy", "strncpy", "strcat", "strstr", "toupper", "tolower",
})  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Argument bits, bytes of the zone by address, and bytes of globals by name."""

    arguments: tuple[int, ...]
    zone: Mapping[int, int] = field(default_factory=dict)
    globals: Mapping[str, bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [hex(a) if a >= 1 << 16 else str(a) for a in self.arguments]
        shown = sorted(self.zone.items())[:24]
        memory = " ".join(f"[{at:#x}]={value:#04x}" for at, value in shown if value)
        return f"({', '.join(words)})" + (f" with memory {memory}" if memory else "")


@dataclass(frozen=True)
class Result:
    """How a call ended: `returned`, or the signal's name. Memory is of the zone and globals."""

    ended: str
    value: int = 0
    zone: bytes = b""
    globals: Mapping[str, bytes] = field(default_factory=dict)


def why_not_runnable(function: Function, triple: str) -> str:
    """Empty when the function can be called from here; else the reason."""
    if triple and triple.partition("-")[0] != platform.machine():
        return f"code for {triple.partition('-')[0]} does not run on this machine"
    if platform.system() != "Linux":
        return "running is supported on Linux only"
    if len(function.parameters) > _MOST_ARGUMENTS:
        return f"more than {_MOST_ARGUMENTS} arguments"
    for kind in (*(p.type for p in function.parameters), function.result):
        if kind.kind != "void" and not _plain(kind):
            return f"cannot pass {kind} from here"
    return ""


def _plain(kind: Type) -> bool:
    if kind.kind == "float":
        return kind.width in (32, 64)
    return kind.scalar and kind.width <= 64


def compile_function(
    library: Library, module: Module, function: str, globals_: Sequence[str]
) -> bytes:
    """An object in which the function and the globals can be found by name.

    Raises RecipeError or UsageError where no code is generated.
    """
    with closing(Module(library, module.bitcode())) as copy:
        copy.expose((function, *globals_))
        copy.select(Target())
        # What the function does not need must not have to be found by the linker.
        kept = ";".join(f"preserve-gv={name}" for name in (function, *globals_))
        copy.run(f"internalize<{kept}>,globaldce")
        return copy.emit()


def run(
    library: Library,
    data: bytes,
    function: Function,
    inputs: Sequence[Input],
    globals_: Mapping[str, int],
    *,
    seconds: float,
) -> list[Result]:
    """Call the function on each input; after a fault or a hang it goes on with the next.

    globals_  sizes of the globals whose contents are set and read
    seconds   for one call; all together get a few seconds, what is left is `not run`
    Raises RecipeError where the code cannot be loaded.
    """
    runner = functools.partial(_batch, library, data, function, inputs, globals_, seconds)
    done = race({"run": runner}, lambda _: True, seconds=_ALL_SECONDS + 5)
    if not done.winner:
        raise RecipeError(done.ends.get("run", "").removeprefix("RecipeError: "))
    results: list[Result] = done.value
    return results


def _batch(
    library: Library,
    data: bytes,
    function: Function,
    inputs: Sequence[Input],
    globals_: Mapping[str, int],
    seconds: float,
) -> list[Result]:
    """Each call in a process of its own, which a fault ends."""
    started = time.monotonic()
    loaded = Loaded(library, data)
    entry = loaded.address(function.name)
    places = {name: loaded.address(name) for name in globals_}
    _map_zone()
    call = _caller(function, entry)
    found: list[Result] = []
    for given in inputs:
        if time.monotonic() - started > _ALL_SECONDS:
            found.append(Result("not run"))
            continue
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            _fill(given, places)
            value = call(given.arguments)
            memory = ctypes.string_at(ZONE, ZONE_SIZE)
            held = b"".join(ctypes.string_at(places[n], size) for n, size in globals_.items())
            with os.fdopen(writer, "wb") as out:
                out.write(value.to_bytes(8, "little") + memory + held)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as source:
            raw = source.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            found.append(Result(name))
            continue
        at, contents = 8 + ZONE_SIZE, {}
        for name, size in globals_.items():
            contents[name], at = raw[at : at + size], at + size
        value = int.from_bytes(raw[:8], "little")
        found.append(Result("returned", value, raw[8 : 8 + ZONE_SIZE], contents))
    return found


def _map_zone() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    got = libc.mmap(ZONE, ZONE_SIZE, 3, _PAGE_FLAGS, -1, 0)
    if got != ZONE:
        raise RecipeError("the test zone cannot be mapped")


def _fill(given: Input, places: Mapping[str, int]) -> None:
    memory = bytearray(ZONE_SIZE)
    for at, value in given.zone.items():
        memory[at - ZONE] = value
    ctypes.memmove(ZONE, bytes(memory), ZONE_SIZE)
    for name, contents in given.globals.items():
        ctypes.memmove(places[name], contents, len(contents))


def _caller(function: Function, entry: int):  # type: ignore[no-untyped-def]
    """A callable from argument bits to result bits."""
    kinds = [_c_type(p.type) for p in function.parameters]
    result = None if function.result.kind == "void" else _c_type(function.result)
    native = ctypes.CFUNCTYPE(result, *kinds)(entry)

    def call(bits: Sequence[int]) -> int:
        given = [
            _to_c(value, p.type, p.flags)
            for value, p in zip(bits, function.parameters, strict=True)
        ]
        got = native(*given)
        if function.result.kind == "void":
            return 0
        if function.result.kind == "float":
            raw = bytes(kinds_of(function.result)(got))
            return int.from_bytes(raw, "little")
        return int(got or 0) & ((1 << function.result.width) - 1)

    return call


def kinds_of(kind: Type):  # type: ignore[no-untyped-def]
    """The ctypes type of a floating-point type."""
    return ctypes.c_float if kind.width == 32 else ctypes.c_double


def _c_type(kind: Type):  # type: ignore[no-untyped-def]
    return kinds_of(kind) if kind.kind == "float" else ctypes.c_uint64


def _to_c(bits: int, kind: Type, flags: frozenset[str]) -> float | int:
    if kind.kind == "float":
        raw = bits.to_bytes(kind.width // 8, "little")
        return float(kinds_of(kind).from_buffer_copy(raw).value)
    if "signext" in flags and bits >> (kind.width - 1):
        return bits | (-1 << kind.width) & 0xFFFF_FFFF_FFFF_FFFF
    return bits
