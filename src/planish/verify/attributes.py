"""Attributes and metadata of functions, calls and loads that change what a function means."""

from __future__ import annotations

import re

from planish.llvm.binding import Library
from planish.llvm.inspection import text_of

_NAME = re.compile(r'@(?:"[^"]*"|[-\w.$]+)\(')
_RANGE = re.compile(r"range\(i\d+ (-?\d+), (-?\d+)\)")
_RESULT = re.compile(rf"^(?:[^@\n]* )?(?:call|define|declare) [^@%\n]*?{_RANGE.pattern}", re.M)
RETURN = 0
FUNCTION = 0xFFFFFFFF
_VALUE = ("noundef", "nonnull", "byval", "inalloca", "preallocated", "swifterror", "range",
          "noalias", "signext", "zeroext")  # fmt: skip
_CALL = (
    "willreturn",
    "nounwind",
    "noreturn",
    "nofree",
    "convergent",
    "returns_twice",
)
_METADATA = ("noundef", "nonnull", "tbaa", "alias.scope", "noalias", "range", "invariant.load")
# `memory(...)` holds two bits a location: 1 for reading, 2 for writing.
_WRITES = 0xAAAAAAAA
# Those to memory that is inaccessible here, or the target's own state.
_HIDDEN = 0b1010_0000_1000


def at(library: Library, function: int, index: int) -> frozenset[str]:
    """Those of a function's result (RETURN) or argument (from 1) that are known here."""
    c = library.c
    return frozenset(
        name for name in _VALUE if c.LLVMGetEnumAttributeAtIndex(function, index, _kind(c, name))
    )


def has(library: Library, function: int, name: str) -> bool:
    """Whether a function has an attribute of its own."""
    c = library.c
    return bool(c.LLVMGetEnumAttributeAtIndex(function, FUNCTION, _kind(c, name)))


def number(library: Library, function: int, index: int, name: str) -> int:
    """The number of an attribute; 0 where it is absent."""
    c = library.c
    attribute = c.LLVMGetEnumAttributeAtIndex(function, index, _kind(c, name))
    return int(c.LLVMGetEnumAttributeValue(attribute)) if attribute else 0


def ranges(library: Library, function: int) -> dict[int, tuple[int, int]]:
    """Half-open `range` of each argument that has one; the C interface shows no bounds."""
    words = text_of(library, library.c.LLVMPrintValueToString(function))
    head = words.partition("\ndefine ")[2] if not words.startswith("define ") else words
    name = re.search(_NAME, head)
    if name is None:
        return {}
    found, depth, at = {}, 1, 0
    for place in range(name.end(), len(head)):
        depth += {"(": 1, ")": -1}.get(head[place], 0)
        at += head[place] == "," and depth == 1
        if not depth:
            break
        match = _RANGE.match(head, place)
        if match:
            found[at] = (int(match[1]), int(match[2]))
    return found


def range_of_result(library: Library, *values: int) -> tuple[int, ...]:
    """Half-open `range` that the first of the values, calls and callees, promises of a result."""
    for value in values:
        words = text_of(library, library.c.LLVMPrintValueToString(value)) if value else ""
        match = _RESULT.search(words)
        if match:
            return int(match[1]), int(match[2])
    return ()


def of_call(library: Library, call: int, callee: int, arguments: int) -> frozenset[str]:
    """Of a call and its callee: plain names, `readnone`, `readonly`, `noundef:2` for argument 2
    and `noundef:result` for the result."""
    c = library.c
    found: set[str] = set()

    def either(index: int, name: str) -> int:
        kind = _kind(c, name)
        got = c.LLVMGetCallSiteEnumAttribute(call, index, kind)
        if not got and callee:
            got = c.LLVMGetEnumAttributeAtIndex(callee, index, kind)
        return int(got or 0)

    found |= {name for name in _CALL if either(FUNCTION, name)}
    memory = either(FUNCTION, "memory")
    if memory:
        found |= _effects(c.LLVMGetEnumAttributeValue(memory))
    for index in range(arguments + 1):
        where = str(index - 1) if index else "result"
        found |= {f"{name}:{where}" for name in _VALUE if either(index, name)}
        align = either(index, "align")
        if align:
            found.add(f"align={c.LLVMGetEnumAttributeValue(align)}:{where}")
    return frozenset(found)


def of_callee(library: Library, callee: int) -> frozenset[str]:
    """What a function's declaration says of every call of it, in the words of `of_call`."""
    c = library.c

    def get(name: str) -> int:
        return int(c.LLVMGetEnumAttributeAtIndex(callee, FUNCTION, _kind(c, name)) or 0)

    found = {name for name in ("willreturn", "nounwind", "nofree") if get(name)}
    memory = get("memory")
    return frozenset(found | (_effects(c.LLVMGetEnumAttributeValue(memory)) if memory else set()))


def _effects(bits: int) -> set[str]:
    """`readnone`, `readonly`, or `hidden`: what it writes cannot be seen from here."""
    if bits == 0:
        return {"readnone"}
    if bits & _WRITES == 0:
        return {"readonly"}
    return {"hidden"} if bits & _WRITES & ~_HIDDEN == 0 else set()


def metadata(library: Library, instruction: int) -> frozenset[str]:
    """Which of the metadata that can make a load poison or undefined it has."""
    c = library.c
    if not c.LLVMHasMetadata(instruction):
        return frozenset()
    context = c.LLVMGetTypeContext(c.LLVMTypeOf(instruction))
    return frozenset(
        f"!{name}"
        for name in _METADATA
        if c.LLVMGetMetadata(
            instruction, c.LLVMGetMDKindIDInContext(context, name.encode(), len(name))
        )
    )


def _kind(c: object, name: str) -> int:
    return int(c.LLVMGetEnumAttributeKindForName(name.encode(), len(name)))  # type: ignore[attr-defined]
