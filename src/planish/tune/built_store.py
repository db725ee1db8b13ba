"""Builds of lockfile entries kept on disk: the next replay of an unchanged unit needs no passes.

A build is a function of the unoptimised bitcode, the request and the compiler, all of which the key
holds; so what is found is what would be built.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from planish.base.hashing import digest
from planish.llvm.requests import Built, Facts
from planish.proc.pool import Call, Reply
from planish.store.kept import keep, load_kept
from planish.tune.session import Session

# Part of every key: raise it when a build of the same request may give other bytes.
_FORMAT = "1"
_KIND = "builds"


def run_or_load(session: Session, calls: Sequence[Call]) -> list[tuple[Reply, bool]]:
    """A reply for each call, in order, and whether it was found rather than built."""
    keys = [_key(session, call) for call in calls]
    found = [_load(key) for key in keys]
    missing = [call for call, built in zip(calls, found, strict=True) if built is None]
    replies = iter(session.pool.run(missing))
    answers = []
    for key, built in zip(keys, found, strict=True):
        if built is not None:
            answers.append((Reply(value=built), True))
            continue
        reply = next(replies)
        if reply.failure is None:
            keep(_KIND, key, _to_bytes(reply.value))
        answers.append((reply, False))
    return answers


def _key(session: Session, call: Call) -> str:
    toolchain = session.toolchain
    library = toolchain.library.stat()
    front_end = toolchain.front_end.describe() if toolchain.front_end is not None else ""
    return digest(
        _FORMAT, session.compiler, str(library.st_size), str(library.st_mtime_ns), front_end,
        repr(call.flavour), repr(call.request), *call.blobs,
    )  # fmt: skip


def _load(key: str) -> Built | None:
    data = load_kept(_KIND, key)
    if data is None:
        return None
    head, _, rest = data.partition(b"\n")
    record = json.loads(head)
    artefacts, at = {}, 0
    for name, length in record.pop("artefacts").items():
        artefacts[name] = rest[at : at + length]
        at += length
    facts: dict[str, Any] | None = record.pop("facts")
    record["absent"] = tuple(record["absent"])
    record["opcodes"] = {int(code): count for code, count in record["opcodes"].items()}
    of_module = None
    if facts is not None:
        listed = {key: tuple(facts[key]) for key in ("functions", "resized")}
        of_module = Facts(**{**facts, **listed})
    return Built(**record, artefacts=artefacts, facts=of_module)


def _to_bytes(built: Built) -> bytes:
    record = asdict(built)
    record["artefacts"] = {name: len(data) for name, data in built.artefacts.items()}
    return json.dumps(record).encode() + b"\n" + b"".join(built.artefacts.values())
