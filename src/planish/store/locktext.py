"""A source's place in the text of a lockfile, found without reading the whole as TOML.

A build asks a thousand times for one source of a thousand; this file imports nothing.
"""

from __future__ import annotations

_TABLE = "\n[[task]]\n"


def names(text: str, source: str) -> bool:
    """Whether the text seems to have an entry for the source.

    One without a recipe counts: what it stands for is smaller than what the build makes.
    """
    return _line_of(source) in text


def tables_of(text: str, source: str) -> str:
    """What stands before the first table, and the tables of the source; all where none is seen."""
    head, *tables = text.split(_TABLE)
    line = _line_of(source)
    found = [table for table in tables if line in f"\n{table}\n"]
    return _TABLE.join([head, *found]) if found else text


def _line_of(source: str) -> str:
    quoted = source.replace("\\", "\\\\").replace('"', '\\"')
    return f'\nsource = "{quoted}"\n'
