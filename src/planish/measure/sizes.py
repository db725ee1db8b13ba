"""Allocated bytes of an object file, by section and by function.

ELF: every section with SHF_ALLOC counts, read-only data, `.eh_frame` and `.bss` included; what
the program occupies when it is loaded. `.text` alone would flatter: outlining moves bytes into
`.eh_frame`. WebAssembly: every section but the custom ones (names, linking, relocations).
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from dataclasses import dataclass

from planish.base.errors import UsageError

_SHF_ALLOC = 2
# lld's filler between what becomes read-only and the next page: up to 4 KiB that hold nothing, and
# grow where a section before them shrinks.
_FILLER = ".relro_padding"
_ELF_MAGIC = b"\x7fELF"
# Bytes of the identification, and where the table's offset and its three sizes stand in a header.
_EI_CLASS, _EI_DATA, _CLASS_64, _LITTLE_ENDIAN = 4, 5, 2, 1
_PLACES_64, _PLACES_32 = (0x28, 0x3A), (0x20, 0x2E)
# Fields of a section header; SHN_XINDEX and SHT_NOBITS.
_NAME, _TYPE, _FLAGS, _OFFSET, _SIZE, _LINK = 0, 1, 2, 4, 5, 6
_ELSEWHERE, _SHT_NOBITS = 0xFFFF, 8
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
    try:
        sections = _elf_sections(data)
        return Sizes(sections, _functions(data) if functions else {})
    except UsageError:
        raise
    except Exception as error:
        # The library raises whatever its parsers run into; for the user it is one thing.
        raise _damaged(f"the ELF file cannot be read: {error or type(error).__name__}") from error


def _functions(data: bytes) -> dict[str, int]:
    # Imported here: a replay measures no functions, and has not the time.
    from elftools.elf.elffile import ELFFile

    from planish.measure.functions import function_bytes

    return function_bytes(ELFFile(io.BytesIO(data)))


def allocated_bytes(data: bytes) -> int:
    """All allocated bytes of an object file."""
    return measure_object(data, functions=False).allocated


def _elf_sections(data: bytes) -> dict[str, int]:
    """By the section header table (System V ABI, chapter 4); a library takes ten times as long."""
    found: Counter[str] = Counter()
    wide, order = data[_EI_CLASS] == _CLASS_64, "<" if data[_EI_DATA] == _LITTLE_ENDIAN else ">"
    places, header = (_PLACES_64, "IIQQQQIIQQ") if wide else (_PLACES_32, "10I")
    table = struct.unpack_from(order + ("Q" if wide else "I"), data, places[0])[0]
    size, count, names = struct.unpack_from(f"{order}3H", data, places[1])
    if not table:
        raise _damaged("the ELF file has no section table")
    first = struct.unpack_from(order + header, data, table)
    # What does not fit into 16 bits stands in the first header.
    count, names = count or first[_SIZE], first[_LINK] if names == _ELSEWHERE else names
    headers = [struct.unpack_from(order + header, data, table + at * size) for at in range(count)]
    texts = headers[names][_OFFSET]
    for each in headers:
        if not each[_FLAGS] & _SHF_ALLOC or not each[_SIZE]:
            continue
        start = texts + each[_NAME]
        name = data[start : data.index(b"\0", start)].decode(errors="surrogateescape")
        if name == _FILLER:
            continue
        if each[_TYPE] != _SHT_NOBITS and each[_OFFSET] + each[_SIZE] > len(data):
            raise _damaged("the ELF file is cut short")
        found[name] += each[_SIZE]
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
