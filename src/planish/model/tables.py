"""Tables in Parquet: written whole, moved into place, and read back with their words.

`pyarrow` is behind an extra and imported where a table is read or written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planish.base.errors import UsageError

# Kept under one key, so that what pyarrow keeps for itself never mixes with it.
_WORDS = b"planish"


def arrow() -> Any:
    """`pyarrow` with its Parquet; raises UsageError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "tables in Parquet need pyarrow", hint="pip install 'planish[learn]'"
        ) from None
    return pyarrow


def write_table(
    path: Path, columns: Mapping[str, Sequence[Any]], types: Mapping[str, str], words: Any
) -> None:
    """Write columns of equal length.

    types  column to pyarrow's name of its type (`string`, `binary`, `int64`, `list<double>`, ...)
    words  what the table is, as JSON: kept in the file's schema
    """
    pa = arrow()
    schema = pa.schema(
        [(name, _type(pa, text)) for name, text in types.items()],
        metadata={_WORDS: json.dumps(words, sort_keys=True).encode()},
    )
    table = pa.table({name: columns[name] for name in types}, schema=schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pa.parquet.write_table(table, half, compression="zstd")
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def read_table(
    path: Path, columns: Sequence[str] | None = None
) -> tuple[dict[str, list[Any]], Any]:
    """(columns, words); raises UsageError for what is not there or not such a table."""
    pa = arrow()
    try:
        table = pa.parquet.read_table(path, columns=None if columns is None else list(columns))
        words = json.loads((table.schema.metadata or {})[_WORDS])
    except FileNotFoundError:
        raise UsageError(f"there is no {path}", hint="see planish corpus --help") from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise UsageError(f"cannot read the table {path}: {error}") from error
    return table.to_pydict(), words


def _type(pa: Any, text: str) -> Any:
    if text.startswith("list<"):
        return pa.list_(_type(pa, text[5:-1]))
    return getattr(pa, {"double": "float64"}.get(text, text))()
