"""Verdicts of earlier runs, kept in the store by the hash of both functions (with all that they
refer to, see `cones.py`) and the limits."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Protocol

from planish.base.hashing import digest
from planish.base.records import Grade, Outcome, Verdict
from planish.store.store import Key, Store
from planish.verify.requests import FunctionVerdict

# Part of every key: a new version of the encoding forgets the verdicts of the old one.
SEMANTICS = "verify-4"


class _Limits(Protocol):
    @property
    def bound(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def explain(self) -> bool: ...
    @property
    def run(self) -> bool: ...
    @property
    def proofs(self) -> bool: ...
    @property
    def test_first(self) -> bool: ...


class Cache:
    """Answers nothing where there is no store."""

    def __init__(self, store: Store | None) -> None:
        self._store = store

    def get(self, before: str, after: str, limits: _Limits) -> FunctionVerdict | None:
        """The verdict on this pair of functions under these limits, if there is one."""
        if self._store is None or limits.explain:
            return None
        outcome = self._store.get(_key(before, after, limits), "")
        return _decode(outcome.reason) if outcome is not None else None

    def put(
        self,
        before: str,
        after: str,
        limits: _Limits,
        verdict: FunctionVerdict,
    ) -> None:
        """Keep a verdict."""
        if self._store is not None and not limits.explain:
            outcome = Outcome("", reason=_encode(verdict))
            self._store.put(_key(before, after, limits), outcome)


def _key(before: str, after: str, limits: _Limits) -> Key:
    task = digest(before, after)
    goal = f"{limits.bound} {limits.seconds:g} {limits.run} {limits.proofs} {limits.test_first}"
    return Key(task, "", f"verify {goal}", SEMANTICS)


def _encode(verdict: FunctionVerdict) -> str:
    fields = asdict(verdict)
    fields["verdict"] = [verdict.verdict.grade.value, verdict.verdict.detail]
    return json.dumps(fields)


def _decode(text: str) -> FunctionVerdict:
    fields: dict[str, Any] = json.loads(text)
    grade, detail = fields.pop("verdict")
    fields["assumptions"] = tuple(fields["assumptions"])
    return FunctionVerdict(verdict=Verdict(Grade(grade), detail), **fields)
