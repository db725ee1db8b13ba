"""The corpus as a dataset: two Parquet files, of modules and of single functions.

    OUT/modules.parquet     one row a module
    OUT/functions.parquet   one row a function that stands alone as a module

Rows are named by the hash of their content, and each content stands once. What is in training
and in held-out projects alike (inline functions of a system's header) is training's: nothing that
a model may learn from is held out. A run that was killed goes on where it was (OUT/parts).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.llvm.features import FEATURES
from planish.llvm.requests import Describe, Extract, Extracted, Job
from planish.model.corpus import Index, Module, load_corpus, read_bitcode
from planish.model.tables import arrow, write_table
from planish.proc.pool import Call, Pool

Say = Callable[[str], None]
_AT_ONCE = 32

_PROVENANCE = {"project": "string", "version": "string", "split": "string",
               "category": "string", "licence": "string", "source": "string"}  # fmt: skip
_MODULES = {"sha": "string", **_PROVENANCE, "flags": "list<string>", "instructions": "int64",
            "functions": "int64", "bitcode": "binary", "features": "list<double>"}  # fmt: skip
_FUNCTIONS = {"sha": "string", "name": "string", "module": "string", **_PROVENANCE,
              "instructions": "int64", "bitcode": "binary", "features": "list<double>"}  # fmt: skip


def pack_corpus(
    corpus: Path, out: Path, pool: Pool, smallest: int, say: Say
) -> dict[str, dict[str, int]]:
    """Write both files; how many distinct modules and functions there are, by split.

    smallest  instructions of a function that is worth a row
    """
    arrow()  # before the work, not after it
    (out / "parts").mkdir(parents=True, exist_ok=True)
    index = load_corpus(corpus)
    if not index.modules:
        raise UsageError(f"the corpus {corpus} holds no modules", hint="planish corpus build")
    # Training first: of equal functions the first is kept.
    modules = sorted(index.modules, key=lambda m: (m.split != "train", m.project, m.source))
    rows: list[dict[str, Any]] = []
    functions: dict[str, dict[str, Any]] = {}
    for start in range(0, len(modules), _AT_ONCE):
        part = modules[start : start + _AT_ONCE]
        for row, alone in _look(part, index, corpus, out, pool, smallest):
            rows.append(row)
            for function in alone:
                functions.setdefault(function["sha"], function)
        say(f"{len(rows)} of {len(modules)} modules, {len(functions)} functions")
    words = {"features": list(FEATURES), "smallest function": smallest}
    _write(out / "modules.parquet", rows, _MODULES, words)
    _write(out / "functions.parquet", list(functions.values()), _FUNCTIONS, words)
    shutil.rmtree(out / "parts")
    return {
        "modules": Counter(row["split"] for row in rows),
        "functions": Counter(row["split"] for row in functions.values()),
    }


def _look(
    modules: Sequence[Module], index: Index, corpus: Path, out: Path, pool: Pool, smallest: int
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """For each module its row, and the rows of its functions."""
    data = {module.sha: read_bitcode(corpus, module) for module in modules}
    looked = _examine({s: d for s, d in data.items() if not _part(out, s).exists()}, pool, smallest)
    for sha, parts in looked.items():
        write_atomic(_part(out, sha), msgspec.msgpack.encode(parts))
    for module in modules:
        parts = msgspec.msgpack.decode(_part(out, module.sha).read_bytes(), type=_Parts)
        origin = {
            "project": module.project,
            "version": str(index.projects.get(module.project, {}).get("version", "")),
            "split": module.split, "category": module.category,
            "licence": module.licence, "source": module.source,
        }  # fmt: skip
        row = {
            "sha": module.sha, **origin, "flags": list(module.flags),
            "instructions": module.instructions, "functions": module.functions,
            "bitcode": data[module.sha], "features": list(parts.features),
        }  # fmt: skip
        singles = [
            {
                "sha": each.identity, "name": _plain(each.name), "module": module.sha, **origin,
                "instructions": each.instructions, "bitcode": each.bitcode,
                "features": list(each.features),
            }
            for each in parts.functions
        ]  # fmt: skip
        yield row, singles


class _Parts(msgspec.Struct):
    """What is known of one module: kept on disk, so that a run that was killed goes on."""

    features: tuple[float, ...]
    functions: tuple[Extracted, ...]


def _part(out: Path, sha: str) -> Path:
    return out / "parts" / sha


def _examine(data: dict[str, bytes], pool: Pool, smallest: int) -> dict[str, _Parts]:
    for sha, bitcode in data.items():
        pool.keep(sha, bitcode)
    jobs = [(Job(sha), (sha,)) for sha in data]
    described = pool.run([Call((), Describe(job), blobs) for job, blobs in jobs])
    extracted = pool.run([Call((), Extract(job, smallest), blobs) for job, blobs in jobs])
    for sha in data:
        pool.forget(sha)
    found = {}
    for sha, looks, alone in zip(data, described, extracted, strict=True):
        # A module whose functions crash LLVM, or take too long, is kept as a module.
        features = () if looks.failure is not None else looks.value.features
        functions = () if alone.failure is not None else alone.value
        found[sha] = _Parts(features, functions)
    return found


def _write(path: Path, rows: Sequence[dict[str, Any]], types: dict[str, str], words: Any) -> None:
    columns = {name: [row[name] for row in rows] for name in types}
    write_table(path, columns, types, words)


def _plain(name: str) -> str:
    """A symbol's name as text: what is no valid Unicode becomes a question mark."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
