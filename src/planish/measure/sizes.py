"""Allocated bytes of an object file, by section and by function.

ELF: every section with SHF_ALLOC counts, read-only data, `.eh_frame` and `.bss` included; what
the program occupies when it is loaded. `.text` alone would flatter: outlining moves bytes into
`.eh_frame`. WebAssembly: every section but the custom ones (names, linking, relocations); source:
the WebAssembly specification, section 5.5.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from planish.base.errors import UsageError
from planish.measure import elf
from planish.measure.elf import Elf

_WASM_MAGIC = b"\0asm\1\0\0\0"
_WASM_SECTIONS = {
    1: "type", 2: "import", 3: "function", 4: "table", 5: "memory", 6: "global",
    7: "export", 8: "start", 9: "element", 10: "code", 11: "data", 12: "data count", 13: "tag",
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Bytes by section (those of one name added up) and by function symbol.

    Names that are no UTF-8 hold surrogate escapes. WebAssembly objects name no functions here.
    """

    sections: dict[str, int]
    functions: dict[str, int]

    @property
    def allocated(self) -> int:
        return sum(self.sections.values())


def measure_object(data: bytes) -> Sizes:
    """Raises UsageError when the bytes are no whole ELF or WebAssembly file."""
    if data.startswith(_WASM_MAGIC):
        return Sizes(_wasm_sections(data), {})
    if data.startswith(elf.MAGIC):
        return _elf_sizes(Elf(data))
    raise UsageError("neither an ELF nor a WebAssembly object", hint="these two are measured")


def allocated_bytes(data: bytes) -> int:
    """All allocated bytes of an object file."""
    return measure_object(data).allocated


def _elf_sizes(file: Elf) -> Sizes:
    sections: Counter[str] = Counter()
    for section in file.sections:
        if section.flags & elf.SHF_ALLOC and section.size:
            file.contents(section)  # what reaches outside the file is not counted but refused
            sections[section.name] += section.size
    functions = {s.name: s.size for s in file.symbols() if s.kind == elf.STT_FUNC and s.size}
    return Sizes(dict(sections), functions)


def _wasm_sections(data: bytes) -> dict[str, int]:
    found: Counter[str] = Counter()
    at = len(_WASM_MAGIC)
    while at < len(data):
        kind, start = data[at], at
        size, at = _leb128(data, at + 1)
        at += size
        if at > len(data):
            raise _cut_short()
        if kind:
            found[_WASM_SECTIONS.get(kind, f"section {kind}")] += at - start
    return dict(found)


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    """(value, place behind it) of an unsigned number of variable length."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise _cut_short()


def _cut_short() -> UsageError:
    return UsageError("the WebAssembly file is cut short", hint="build it again")
