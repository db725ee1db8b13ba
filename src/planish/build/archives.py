"""Static archives (`ar`): the members of one, thin ones too. Source: the format of System V."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from planish.base.errors import UsageError

MAGIC, THIN = b"!<arch>\n", b"!<thin>\n"
_HEADER = 60
_INDEXES = (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED")


def is_archive(data: bytes) -> bool:
    """Whether the file is one."""
    return data.startswith((MAGIC, THIN))


def members(data: bytes, folder: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each member in order.

    folder  where the members of a thin archive are looked for
    Raises UsageError for a damaged archive.
    """
    thin, at, names = data.startswith(THIN), len(MAGIC), b""
    while at + _HEADER <= len(data):
        header = data[at : at + _HEADER]
        label, size = header[:16].rstrip(), _number(header[48:58])
        start = at + _HEADER
        if label == b"//":
            names = data[start : start + size]
        elif label not in _INDEXES:
            name, skipped = _name(label, names, data[start : start + size])
            if thin:
                try:
                    yield name, (folder / name).read_bytes()
                except OSError as error:
                    raise UsageError(f"a thin archive's member is missing: {name}") from error
                at = start
                continue
            if start + size > len(data):
                raise UsageError("the archive is cut short", hint="build it again")
            yield name, data[start + skipped : start + size]
        at = start + size + size % 2


def _name(label: bytes, names: bytes, content: bytes) -> tuple[str, int]:
    """The member's name, and how many bytes of the content it takes (BSD)."""
    if label.startswith(b"#1/"):
        length = _number(label[3:])
        return content[:length].rstrip(b"\0").decode(errors="surrogateescape"), length
    if label.startswith(b"/") and label[1:].isdigit():
        start = int(label[1:])
        end = names.find(b"\n", start)
        return names[start:end].removesuffix(b"/").decode(errors="surrogateescape"), 0
    return label.removesuffix(b"/").decode(errors="surrogateescape"), 0


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError("the archive is damaged", hint="build it again") from error
