"""A small immutable form of LLVM IR functions: what the encoder reads, whatever read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Type:
    """A type with its layout.

    kind     int, float, ptr, vector, array, struct, void, or the name of one that is not supported
    width    bits of an int, float or ptr
    size     bytes from one element to the next in an array (allocation size)
    store    bytes that a store writes
    parts    element types of a vector, array or struct, in order
    offsets  their byte offsets
    """

    kind: str
    width: int = 0
    size: int = 0
    store: int = 0
    parts: tuple[Type, ...] = ()
    offsets: tuple[int, ...] = ()

    @property
    def scalar(self) -> bool:
        return self.kind in ("int", "float", "ptr")

    def __str__(self) -> str:
        if self.kind == "int":
            return f"i{self.width}"
        if self.kind == "float":
            return {16: "half", 32: "float", 64: "double"}[self.width]
        if self.kind == "vector":
            return f"<{len(self.parts)} x {self.parts[0]}>"
        if self.kind == "array":
            return f"[{len(self.parts)} x {self.parts[0] if self.parts else '?'}]"
        if self.kind == "struct":
            return "{" + ", ".join(map(str, self.parts)) + "}"
        return self.kind


@dataclass(frozen=True)
class Local:
    """An argument or an instruction's result, by number within its function."""

    number: int


@dataclass(frozen=True)
class Number:
    """An integer or (as its bits) floating-point constant, or the null pointer."""

    value: int


@dataclass(frozen=True)
class Special:
    """`poison`, `undef` or `zero` (of any type)."""

    kind: str


@dataclass(frozen=True)
class Aggregate:
    """A constant vector, array or struct."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """The address of a global variable or function."""

    name: str


@dataclass(frozen=True)
class Expression:
    """A constant expression."""

    instruction: Instruction


Value = Local | Number | Special | Aggregate | Address | Expression


@dataclass(frozen=True)
class Operand:
    """A value with its type."""

    value: Value
    type: Type


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    number   the local that it defines
    flags    nuw, nsw, exact, nneg, disjoint, samesign, inbounds, nusw, fast-math flags, volatile,
             and metadata and attributes that can make the result poison
    name     predicate, intrinsic or callee
    numbers  indices, shuffle mask, bytes of an alloca, case values; see reader.py
    targets  numbers of blocks: successors, or a phi's incoming blocks
    bounds   half-open ranges of !range metadata, or of a call's result
    text     an alloca's name, an access's type tag, what a callee's declaration says of it
    """

    op: str
    number: int
    type: Type
    operands: tuple[Operand, ...] = ()
    flags: frozenset[str] = frozenset()
    name: str = ""
    numbers: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int], ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Parameter:
    """A function's argument. `flags`: noundef, nonnull, byval; dereferenceable is in bytes;
    bounds is a half-open range, or none."""

    number: int
    type: Type
    flags: frozenset[str] = frozenset()
    dereferenceable: int = 0
    bounds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Block:
    """A basic block; its last instruction is the terminator."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Global:
    """A global variable.

    contents  the initial value where it is known and constant
    local     no other module sees it, so that passes may change what it holds or drop it
    """

    name: str
    size: int
    align: int
    constant: bool
    contents: Operand | None = None
    defined: bool = True
    local: bool = False


@dataclass(frozen=True)
class Function:
    """A function with a body. Block 0 is the entry; `flags` of its result, nounwind, and
    local: no other module calls it; `bounds` is the half-open range of its result, or none."""

    name: str
    result: Type
    parameters: tuple[Parameter, ...]
    blocks: tuple[Block, ...]
    globals: Mapping[str, Global] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    bounds: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Instructions."""
        return sum(len(block.instructions) for block in self.blocks)


class Unsupported(Exception):
    """Something that the encoder has no meaning for; its message names it."""
