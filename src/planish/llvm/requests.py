"""What is asked of a worker process and what it answers; the worker itself is `worker.py`.

Apart from it, so that the process that asks loads neither the binding nor a reader of objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planish.llvm.recipe import Recipe

HANDLER = "planish.llvm.worker:Builder"
# The goals, and what they are counted in.
UNITS = {"size": "bytes", "instructions": "instructions"}


@dataclass(frozen=True)
class LibraryInfo:
    """What the loaded libLLVM says of itself."""

    version: tuple[int, int, int]
    targets: tuple[str, ...]
    default_triple: str


@dataclass(frozen=True)
class Target:
    """What code is generated for; empty fields are taken from the module."""

    triple: str = ""
    cpu: str = ""
    features: str = ""


@dataclass(frozen=True)
class Job:
    """How a task's module is prepared and what its code is generated for.

    blob      key of the unoptimised bitcode
    for_size  give every function `minsize` and `optsize` first
    clang     the front end's command where it generates the code (libLLVM lacks the target)
    frames    whether frame pointers must stay as they are, or may go where nobody asked for them
    """

    blob: str
    target: Target = field(default_factory=Target)
    for_size: bool = True
    clang: tuple[str, ...] = ()
    frames: bool = True


@dataclass(frozen=True)
class Inspect:
    """Ask for the facts of a module."""

    job: Job


@dataclass(frozen=True)
class Describe:
    """Ask for the description of a module (`features.py`)."""

    job: Job


@dataclass(frozen=True)
class Extract:
    """Ask for the functions of a module, each as a module of its own (`extraction.py`).

    smallest  instructions of a function that is worth it
    """

    job: Job
    smallest: int = 1


@dataclass(frozen=True)
class Extracted:
    """A function alone: its bitcode without names of files, that content's hash, its features."""

    name: str
    identity: str
    instructions: int
    bitcode: bytes
    features: tuple[float, ...]


@dataclass(frozen=True)
class Merge:
    """Ask for the link of several modules as bitcode, with what nobody else sees internalised.

    blobs    keys of the modules, in the order of the link
    needs    for each, names that its object refers to; those that its IR does not mention (inline
             assembly does) stay visible
    keep     names that stay visible
    """

    blobs: tuple[str, ...]
    needs: tuple[frozenset[str], ...]
    keep: frozenset[str]


@dataclass(frozen=True)
class Facts:
    """What `Inspect` answers."""

    identity: str
    triple: str
    functions: tuple[str, ...]
    instructions: int
    resized: tuple[str, ...]


@dataclass(frozen=True)
class Build:
    """Ask for one build.

    everywhere  a suffix of function passes for all functions (a trial round of suffixes)
    emit        generate code at all; without it only instructions are counted
    known       identities that need no code generation, since they were measured before
    keep        what to send back besides the numbers: "obj", "asm", "bc", "ll"
    inspect     a replay: answer with the facts of the unoptimised module, and without what only a
                search asks for (an identity of the optimised one, sizes of functions)
    expected    with `inspect`: the unoptimised module's identity; another one is not built
    opcodes     count the optimised module's instructions by opcode
    """

    job: Job
    recipe: Recipe
    everywhere: str = ""
    emit: bool = True
    known: frozenset[str] = frozenset()
    keep: tuple[str, ...] = ()
    inspect: bool = False
    expected: str = ""
    opcodes: bool = False


@dataclass(frozen=True)
class Built:
    """What `Build` answers. `sections` is empty when the identity was already known."""

    identity: str
    instructions: int
    sections: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    artefacts: Mapping[str, bytes] = field(default_factory=dict)
    facts: Facts | None = None
    opcodes: Mapping[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Allocated bytes."""
        return sum(self.sections.values())

    def value(self, goal: str) -> int:
        """The goal's value."""
        return self.size if goal == "size" else self.instructions
