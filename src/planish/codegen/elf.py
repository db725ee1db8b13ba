"""A compiled object as bytes that run where they are put: sections joined, references resolved."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from planish.base.errors import PlanishError

# R_X86_64_PC32 and R_X86_64_PLT32: S + A - P, 32 bits.
_RELATIVE = (2, 4)
_ALLOC = 2


@dataclass(frozen=True)
class Flat:
    """Position-independent code and constants; `symbols` are functions' offsets."""

    code: bytes
    symbols: dict[str, int]


def flatten(data: bytes) -> Flat:
    """An x86-64 object file joined into one image.

    Raises PlanishError where it refers to something outside itself.
    """
    try:
        return _flatten(ELFFile(io.BytesIO(data)))
    except ELFError as error:
        raise PlanishError(f"LLVM gave no readable object: {error}") from error


def _flatten(elf: ELFFile) -> Flat:
    places: dict[int, int] = {}
    image = bytearray()
    for number, section in enumerate(elf.iter_sections()):
        kept = section["sh_flags"] & _ALLOC and section["sh_type"] in ("SHT_PROGBITS", "SHT_NOBITS")
        if not kept or section.name.startswith(".eh_frame"):
            continue
        align = max(1, section["sh_addralign"])
        image += b"\0" * (-len(image) % align)
        places[number] = len(image)
        image += section.data()
    table: Any = elf.get_section_by_name(".symtab")
    symbols = list(table.iter_symbols())
    for section in map(_any, elf.iter_sections()):
        if section["sh_type"] == "SHT_RELA" and section["sh_info"] in places:
            for entry in section.iter_relocations():
                _resolve(image, places, symbols, places[section["sh_info"]], entry)
    found = {
        s.name: places[s["st_shndx"]] + s["st_value"]
        for s in symbols
        if s["st_info"]["type"] == "STT_FUNC" and s["st_shndx"] in places
    }
    return Flat(bytes(image), found)


def _any(section: Any) -> Any:
    return section


def _resolve(
    image: bytearray, places: dict[int, int], symbols: list[Any], base: int, entry: Any
) -> None:
    symbol = symbols[entry["r_info_sym"]]
    home = symbol["st_shndx"]
    if home not in places or entry["r_info_type"] not in _RELATIVE:
        raise PlanishError(f"the compiled code needs '{symbol.name}' from outside")
    at = base + entry["r_offset"]
    value = places[home] + symbol["st_value"] + entry["r_addend"] - at
    struct.pack_into("<i", image, at, value)
