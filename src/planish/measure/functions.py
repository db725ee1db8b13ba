"""Bytes that each function is to blame for: its code and its unwind information.

pyelftools finds the tables; their rows are unpacked in bulk, since an object for each symbol
would cost as much as compiling the function did.

Format of `.eh_frame`: Linux Standard Base 5.0, "Exception Frames". Each record is a length, an
identifier (zero for a CIE, else an FDE) and, in an FDE, the function's address: here a relocation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section

_STT_FUNC = 2
_PC_BEGIN = 8

# A place in the file: (section index, offset in that section).
Place = tuple[int, int]


def function_bytes(elf: ELFFile) -> dict[str, int]:
    """Function name to bytes; names that are no UTF-8 hold surrogate escapes."""
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return {}
    order = "<" if elf.little_endian else ">"
    symbols = list(_symbols(elf, table, order))
    sizes = {name: size for name, _, size, kind in symbols if kind == _STT_FUNC and size}
    frames = elf.get_section_by_name(".eh_frame")
    if frames is None:
        return sizes
    starts = {place: name for name, place, size, kind in symbols if kind == _STT_FUNC and size}
    targets = _relocations(elf, ".eh_frame", [place for _, place, _, _ in symbols], order)
    for at, size in _frame_records(frames.data(), order):
        name = starts.get(targets.get(at + _PC_BEGIN, (-1, -1)))
        if name is not None:
            sizes[name] += size
    return sizes


def _symbols(elf: ELFFile, table: Section, order: str) -> Iterator[tuple[str, Place, int, int]]:
    strings = elf.get_section(table["sh_link"]).data()
    if elf.elfclass == 64:
        shape, name_at, value_at, size_at, info_at, section_at = "IBBHQQ", 0, 4, 5, 1, 3
    else:
        shape, name_at, value_at, size_at, info_at, section_at = "IIIBBH", 0, 1, 2, 3, 5
    for row in struct.iter_unpack(order + shape, table.data()):
        start = row[name_at]
        name = strings[start : strings.index(b"\0", start)].decode(errors="surrogateescape")
        yield name, (row[section_at], row[value_at]), row[size_at], row[info_at] & 0xF


def _relocations(elf: ELFFile, name: str, places: list[Place], order: str) -> dict[int, Place]:
    """Offset in the section to the place that its relocation (with addend) names."""
    section = elf.get_section_by_name(f".rela{name}")
    if section is None:
        return {}
    shape, shift = ("QQq", 32) if elf.elfclass == 64 else ("IIi", 8)
    found = {}
    for offset, info, addend in struct.iter_unpack(order + shape, section.data()):
        index, value = places[info >> shift]
        found[offset] = (index, value + addend)
    return found


def _frame_records(frames: bytes, order: str) -> Iterator[tuple[int, int]]:
    """(offset, bytes) of each FDE. A 64-bit record ends the reading; no compiler writes one."""
    record = struct.Struct(order + "II")
    at = 0
    while at + record.size <= len(frames):
        length, identifier = record.unpack_from(frames, at)
        if length in (0, 0xFFFFFFFF):
            return
        if identifier:
            yield at, length + 4
        at += length + 4
