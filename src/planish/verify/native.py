"""Both versions as machine code, called with one input. Each batch runs in processes of its own.

Pointers lead into a zone of mapped pages between unmapped ones, at the same addresses for both
versions, so that what lies beyond a buffer's end is a fault and not a neighbour. What is allocated
comes from a heap whose addresses are the same in every run, too (`heap.py`).
"""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from planish.base.errors import RecipeError
from planish.llvm.binding import Library
from planish.llvm.module import Module
from planish.llvm.requests import Target
from planish.proc.race import race
from planish.verify import heap
from planish.verify.ir import Function, Type

# Below 2 GiB, and above where Linux begins the heap of a program at a fixed address: within 1 GiB.
ZONE = 0x7000_0000
ZONE_SIZE = 0x2000
_MOST_ARGUMENTS = 6
_WALL_SECONDS = 120.0  # for one batch, on a machine however busy: processor time is what counts
_VARIABLE = re.compile(r"^@.* (global|thread_local)", re.M)
# C functions that neither print nor keep state: with these a call is no side effect.
PURE_C = frozenset({
    "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strcmp", "strncmp", "strchr",
    "strrchr", "abs", "labs", "sqrt", "sin", "cos", "exp", "log", "pow", "floor", "ceil", "fabs",
    "bcmp", "strcpy", "strncpy", "strcat", "strstr", "toupper", "tolower",
})  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Argument bits, the zone's bytes from its begin on, and bytes of globals by name."""

    arguments: tuple[int, ...]
    zone: bytes = b""
    globals: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def cells(self) -> Iterable[tuple[int, int]]:
        """(address, byte) of what is not zero in the zone."""
        return ((ZONE + at, value) for at, value in enumerate(self.zone) if value)

    def __str__(self) -> str:
        words = [hex(a) if a >= 1 << 16 else str(a) for a in self.arguments]
        shown = list(self.cells)[:24]
        memory = " ".join(f"[{at:#x}]={value:#04x}" for at, value in shown)
        return f"({', '.join(words)})" + (f" with memory {memory}" if memory else "")


@dataclass(frozen=True)
class Result:
    """How a call ended: `returned`, the signal's name, `timeout`, or `not run`.

    zone, globals  memory that is left; `heap` is a hash of what was allocated and not freed
    """

    ended: str
    value: int = 0
    zone: bytes = b""
    globals: Mapping[str, bytes] = field(default_factory=dict)
    heap: bytes = b""


@dataclass(frozen=True)
class Code:
    """An object file.

    stateful  it has variables that outlive a call, so that each call needs a process of its own
    """

    data: bytes
    stateful: bool


@dataclass(frozen=True)
class Patience:
    """When to stop. Counts and processor time, so that a busy machine gives the same results.

    seconds  processor time for one call
    hangs    calls that may take longer; what comes after is `not run`
    calls    calls of stateful code
    """

    seconds: float
    hangs: int = 1
    calls: int = 1


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
) -> Code:
    """An object in which the function and the globals can be found by name.

    Raises RecipeError or UsageError where no code is generated.
    """
    with closing(Module(library, module.bitcode())) as copy:
        heap.link(library, copy)
        copy.expose((function, *globals_))
        copy.select(Target())
        # What the function does not need must not have to be found by the linker.
        kept = ";".join(f"preserve-gv={name}" for name in (function, *globals_))
        copy.run(f"internalize<{kept}>,globaldce")
        return Code(copy.emit(), _VARIABLE.search(copy.text()) is not None)


def run(
    library: Library,
    code: Code,
    function: Function,
    inputs: Sequence[Input],
    globals_: Mapping[str, int],
    patience: Patience,
) -> list[Result]:
    """Call the function on each input; after a fault or a hang it goes on with the next.

    globals_  sizes of the globals whose contents are set and read
    Raises RecipeError where the code cannot be loaded.
    """
    from planish.verify.calling import batch  # it needs the records of this file

    runner = functools.partial(batch, library, code, function, inputs, globals_, patience)
    done = race({"run": runner}, lambda _: True, seconds=_WALL_SECONDS)
    if not done.winner:
        raise RecipeError(done.ends.get("run", "").removeprefix("RecipeError: "))
    results: list[Result] = done.value
    return results
