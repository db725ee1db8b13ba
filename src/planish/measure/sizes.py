"""Allocated bytes of an object file, by section and by function.

ELF: every section with SHF_ALLOC counts, read-only data, `.eh_frame` and `.bss` included; what
the program occupies when it is loaded. `.text` alone would flatter: outlining moves bytes into
`.eh_frame`. WebAssembly: every section but the custom ones (names, linking, relocations).
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planish.base.errors import UsageError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_SHF_ALLOC = 2
# lld's filler between what becomes read-only and the next page: up to 4 KiB that hold nothing, and
# grow where a section before them shrinks.
_FILLER = ".relro_padding"
_ELF_MAGIC = b"\x7fELF"
_WASM_MAGIC = b"\0asm\1\0\0\0"
_WASM_SECTIONS = {
    1: "type", 2: "import", 3: "function", 4: "table", 5: "memory", 6: "global",
    7: "export", 8: "start", 9: "element", 10: "code", 11: "data", 12: "data count", 13: "tag",
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Bytes by section (those of one name added up) and by function.

    A function's bytes are its code and its unwind information. Names that are no UTF-8 hold
    surrogate escapes. WebAssembly objects name no functions here.
    """

    sections: dict[str, int]
    functions: dict[str, int]

    @property
    def allocated(self) -> int:
        return sum(self.sections.values())


def measure_object(data: bytes, *, functions: bool = True) -> Sizes:
    """Measure an object; without `functions` their bytes are left out.

    Raises UsageError when the bytes are no whole ELF or WebAssembly file.
    """
    if data.startswith(_WASM_MAGIC):
        return Sizes(_wasm_sections(data), {})
    if not data.startswith(_ELF_MAGIC):
        raise UsageError("neither an ELF nor a WebAssembly object", hint="these two are measured")
    # Imported here, since a replay measures in its workers only and has not the time.
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(data))
        sections = _elf_sections(elf, len(data))
        return Sizes(sections, _functions(elf) if functions else {})
    except UsageError:
        raise
    except Exception as error:
        # The library raises whatever its parsers run into; for the user it is one thing.
        raise _damaged(f"the ELF file cannot be read: {error or type(error).__name__}") from error


def _functions(elf: ELFFile) -> dict[str, int]:
    from planish.measure.functions import function_bytes  # a replay measures none

    return function_bytes(elf)


def allocated_bytes(data: bytes) -> int:
    """All allocated bytes of an object file."""
    return measure_object(data, functions=False).allocated


def _elf_sections(elf: ELFFile, size: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    if not elf.num_sections():
        raise _damaged("the ELF file has no section table")
    for section in elf.iter_sections():
        if not section["sh_flags"] & _SHF_ALLOC or not section["sh_size"]:
            continue
        if section.name == _FILLER:
            continue
        inside = section["sh_type"] == "SHT_NOBITS"
        if not inside and section["sh_offset"] + section["sh_size"] > size:
            raise _damaged("the ELF file is cut short")
        found[section.name] += section["sh_size"]
    return dict(found)


def _wasm_sections(data: bytes) -> dict[str, int]:
    found: Counter[str] = Counter()
    at = len(_WASM_MAGIC)
    while at < len(data):
        kind, start = data[at], at
        size, at = _leb128(data, at + 1)
        at += size
        if at > len(data):
            raise _damaged("the WebAssembly file is cut short")
        if kind:
            found[_WASM_SECTIONS.get(kind, f"section {kind}")] += at - start
    return dict(found)


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise _damaged("the WebAssembly file is cut short")


def _damaged(message: str) -> UsageError:
    return UsageError(message, hint="build it again")
