"""A source's place in the text of a lockfile, found without reading the whole as TOML.

A build asks a thousand times for one source of a thousand; this file imports nothing.
"""

from __future__ import annotations

_TABLE = "\n[[task]]\n"
_NOTHING = '\nrecipe = ""\n'


def replays(text: str, source: str) -> bool:
    """Whether the text seems to have an entry for the source that is not the baseline itself."""
    line = _line_of(source)
    if line not in text:
        return False
    return any(
        line in f"\n{table}\n" and _NOTHING not in f"\n{table}\n" for table in text.split(_TABLE)
    )


def tables_of(text: str, source: str) -> str:
    """What stands before the first table, and the tables of the source; all where none is seen."""
    head, *tables = text.split(_TABLE)
    line = _line_of(source)
    found = [table for table in tables if line in f"\n{table}\n"]
    return _TABLE.join([head, *found]) if found else text


def _line_of(source: str) -> str:
    quoted = source.replace("\\", "\\\\").replace('"', '\\"')
    return f'\nsource = "{quoted}"\n'
