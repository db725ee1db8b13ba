"""Allocated bytes of an object file, by section and by function.

ELF: every section with SHF_ALLOC counts, read-only data, `.eh_frame` and `.bss` included; what
the program occupies when it is loaded. `.text` alone would flatter: outlining moves bytes into
`.eh_frame`. WebAssembly: every section but the custom ones (names, linking, relocations).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from planish.base.errors import UsageError

_STT_FUNC = 2
_WASM_MAGIC = b"\0asm"
_WASM_SECTIONS = {
    1: "type", 2: "import", 3: "function", 4: "table", 5: "memory", 6: "global",
    7: "export", 8: "start", 9: "element", 10: "code", 11: "data", 12: "data count", 13: "tag",
}  # fmt: skip
_WASM_HEADER = 8


@dataclass(frozen=True)
class Sizes:
    """Bytes by section (those of one name added up) and by function symbol."""

    sections: dict[str, int]
    functions: dict[str, int]

    @property
    def allocated(self) -> int:
        return sum(self.sections.values())


def measure_object(data: bytes) -> Sizes:
    """Raises UsageError when the bytes are neither an ELF nor a WebAssembly file."""
    sizes = Sizes({}, {})
    if data.startswith(_WASM_MAGIC):
        _read_wasm(data, sizes)
        return sizes
    try:
        _read_elf(ELFFile(io.BytesIO(data)), sizes)
    except (ELFError, UnicodeDecodeError, KeyError, ValueError, struct.error) as error:
        raise UsageError(
            f"cannot read the object file: {error}", hint="ELF and WebAssembly are measured"
        ) from error
    return sizes


def allocated_bytes(data: bytes) -> int:
    """All allocated bytes of an object file."""
    return measure_object(data).allocated


def _read_elf(elf: ELFFile, sizes: Sizes) -> None:
    for section in elf.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]:
            name = section.name
            sizes.sections[name] = sizes.sections.get(name, 0) + int(section["sh_size"])
        elif section["sh_type"] == "SHT_SYMTAB":
            strings = elf.get_section(section["sh_link"]).data()
            _read_symbols(elf, section.data(), strings, sizes.functions)


def _read_symbols(elf: ELFFile, entries: bytes, strings: bytes, found: dict[str, int]) -> None:
    # The library locates the table; its entries are unpacked in bulk, since an object per symbol
    # would cost more than compiling the function did.
    order = "<" if elf.little_endian else ">"
    if elf.elfclass == 64:
        rows = [(r[0], r[1], r[5]) for r in struct.iter_unpack(order + "IBBHQQ", entries)]
    else:
        rows = [(r[0], r[3], r[2]) for r in struct.iter_unpack(order + "IIIBBH", entries)]
    for name_at, info, size in rows:
        if info & 0xF == _STT_FUNC and size:
            name = strings[name_at : strings.index(b"\0", name_at)]
            found[name.decode(errors="surrogateescape")] = size


def _read_wasm(data: bytes, sizes: Sizes) -> None:
    at = _WASM_HEADER
    while at < len(data):
        kind, start = data[at], at
        size, at = _leb128(data, at + 1)
        at += size
        if at > len(data):
            raise UsageError("the WebAssembly file is cut short", hint="build it again")
        if kind:
            name = _WASM_SECTIONS.get(kind, f"section {kind}")
            sizes.sections[name] = sizes.sections.get(name, 0) + at - start


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise UsageError("the WebAssembly file is cut short", hint="build it again")
