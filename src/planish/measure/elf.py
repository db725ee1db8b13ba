"""ELF object files: their sections and symbols, with every offset checked.

Read with `struct`, since this runs once a build: pyelftools takes a millisecond for a small object,
a third of what its compilation takes. The tests compare the two. Source of the layouts: the
System V ABI, chapter 4.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from planish.base.errors import UsageError

MAGIC = b"\x7fELF"
SHT_SYMTAB, SHT_NOBITS = 2, 8
SHF_ALLOC = 2
STT_FUNC = 2
_SHN_XINDEX = 0xFFFF
_IDENTITY_BYTES = 16


class Section(NamedTuple):
    """A section header; `number` is its place in the table."""

    number: int
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


class Symbol(NamedTuple):
    """`section` is the index of the section that it lies in, `value` its offset there."""

    name: str
    section: int
    value: int
    size: int
    kind: int


class _Layout(NamedTuple):
    """The structures of one class (32 or 64 bit), and where the fields of a symbol stand.

    home  the field for the section it lies in
    """

    header: str
    section: str
    symbol: str
    name: int
    info: int
    home: int
    value: int
    size: int


_LAYOUTS = {
    1: _Layout("HHIIIIIHHHHHH", "IIIIIIIIII", "IIIBBH", name=0, info=3, home=5, value=1, size=2),
    2: _Layout("HHIQQQIHHHHHH", "IIQQQQIIQQ", "IBBHQQ", name=0, info=1, home=3, value=4, size=5),
}


class Elf:
    """An ELF file of either class and byte order.

    order     `<` or `>`, as `struct` writes it
    bits      32 or 64
    sections  all section headers in order, the empty first one included
    """

    def __init__(self, data: bytes) -> None:
        """Raises UsageError when the headers are damaged or reach outside the file."""
        self._data = data
        layout = _LAYOUTS.get(data[4]) if len(data) > _IDENTITY_BYTES else None
        order = {1: "<", 2: ">"}.get(data[5]) if layout else None
        if layout is None or order is None or not data.startswith(MAGIC):
            raise damaged("it is of no known class or byte order")
        self.order = order
        self.bits = 32 * data[4]
        self._layout = layout
        try:
            self.sections = self._read_sections()
        except (struct.error, IndexError) as error:
            raise damaged(f"its headers do not fit together ({error})") from error

    def section(self, name: str) -> Section | None:
        """The first section of the name."""
        return next((section for section in self.sections if section.name == name), None)

    def contents(self, section: Section) -> bytes:
        """The section's bytes; none for one that holds zeros only (`.bss`)."""
        if section.kind == SHT_NOBITS:
            return b""
        return self._slice(section.offset, section.size)

    def symbols(self) -> list[Symbol]:
        """The symbol table; empty where there is none. Raises UsageError when it is damaged."""
        table = next((s for s in self.sections if s.kind == SHT_SYMTAB), None)
        if table is None:
            return []
        if table.link >= len(self.sections):
            raise damaged("its symbols have no names")
        names, layout = self.contents(self.sections[table.link]), self._layout
        try:
            rows = list(struct.iter_unpack(self.order + layout.symbol, self.contents(table)))
        except struct.error as error:
            raise damaged(f"its symbol table is cut short ({error})") from error
        return [
            Symbol(
                _string(names, row[layout.name]),
                row[layout.home],
                row[layout.value],
                row[layout.size],
                row[layout.info] & 0xF,
            )
            for row in rows
        ]

    def _read_sections(self) -> list[Section]:
        layout, shape = self._layout, struct.Struct(self.order + self._layout.section)
        header = struct.unpack_from(self.order + layout.header, self._data, _IDENTITY_BYTES)
        start, each, count, names_at = header[5], header[10], header[11], header[12]
        if not start:
            raise damaged("it has no section table")
        if each != shape.size:
            raise damaged(f"its section headers have {each} bytes")
        # Numbers that do not fit into the file's header stand in section 0.
        first = shape.unpack(self._slice(start, shape.size))
        count = count or first[5]
        names_at = first[6] if names_at == _SHN_XINDEX else names_at
        rows = list(shape.iter_unpack(self._slice(start, count * each)))
        names = self._slice(rows[names_at][4], rows[names_at][5])
        return [
            Section(at, _string(names, row[0]), row[1], row[2], row[4], row[5], row[6])
            for at, row in enumerate(rows)
        ]

    def _slice(self, start: int, size: int) -> bytes:
        if start + size > len(self._data):
            raise damaged("it is cut short")
        return self._data[start : start + size]


def damaged(why: str) -> UsageError:
    """The error for a file that is no whole ELF object."""
    return UsageError(f"cannot read the ELF file: {why}", hint="build it again")


def _string(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    if end < 0:
        raise damaged("a name lies outside its string table")
    return table[at:end].decode(errors="surrogateescape")
