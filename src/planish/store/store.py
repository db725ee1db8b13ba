"""The SQLite store of outcomes; makes every search resumable.

One file in WAL mode that several processes may write at once. Each batch is one transaction: what
was put before a process was killed is there for the next. Outcomes are keyed by task, target, goal,
compiler and (for timings) machine, so that results of two compilers or machines never mix.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from planish.base.closing import Closing
from planish.base.config import read_config
from planish.base.errors import StoreError
from planish.base.records import Failure, Measurement, Outcome

FILE_NAME = "store.db"
_WAIT_SECONDS = 60.0
_APPLICATION = 0x506C616E  # "Plan", so that the file tells whose it is

# Statements that lead from each schema version to the next; a new one is appended, none changed.
# `body` is JSON: it keeps integers, floats (NaN too) and any text exactly, which columns do not.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE keys (
               id INTEGER PRIMARY KEY,
               task TEXT NOT NULL, target TEXT NOT NULL, goal TEXT NOT NULL,
               compiler TEXT NOT NULL, machine TEXT NOT NULL,
               UNIQUE (task, target, goal, compiler, machine))""",
        """CREATE TABLE outcomes (
               key INTEGER NOT NULL REFERENCES keys (id),
               recipe TEXT NOT NULL, body TEXT NOT NULL,
               PRIMARY KEY (key, recipe)) WITHOUT ROWID""",
        """CREATE TABLE expelled (
               compiler TEXT NOT NULL, recipe TEXT NOT NULL, reason TEXT NOT NULL,
               PRIMARY KEY (compiler, recipe)) WITHOUT ROWID""",
    ),
)
SCHEMA = len(_MIGRATIONS)

_SAME_KEY = "task = ? AND target = ? AND goal = ? AND compiler = ? AND machine = ?"
_OF_KEY = f"key = (SELECT id FROM keys WHERE {_SAME_KEY})"


@dataclass(frozen=True)
class Key:
    """What an outcome holds for, besides its recipe.

    task      content hash of the unoptimised module
    target    triple, processor and features
    goal      what is measured (`size`, `instructions`, `time`)
    compiler  compiler and its version
    machine   fingerprint of the machine; empty where the value does not depend on one
    """

    task: str
    target: str
    goal: str
    compiler: str
    machine: str = ""


class Store(Closing):
    """An open store. Not shared between threads; each process opens its own."""

    def __init__(self, path: Path | str) -> None:
        """Open or create; raises StoreError (damaged, too new, not writable, disk full)."""
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder of the store {self.path}: {error.strerror or error}",
                hint=_ELSEWHERE,
            ) from error
        with self._errors():
            # Transactions are written out below, so the module must not open its own.
            self._db = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        try:
            with self._errors():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    @classmethod
    def open_default(cls) -> Store:
        """The store in the cache folder of the configuration."""
        return cls(read_config().cache_dir / FILE_NAME)

    def close(self) -> None:
        """Close the file; what was put stays."""
        with self._errors():
            self._db.close()

    # -- outcomes ----------------------------------------------------------------------------

    def get(self, key: Key, recipe: str) -> Outcome | None:
        """The outcome of one recipe, marked as cached; None where there is none."""
        rows = self._query(
            f"SELECT body FROM outcomes WHERE {_OF_KEY} AND recipe = ?", *astuple(key), recipe
        )
        return self._outcome(recipe, rows[0][0]) if rows else None

    def outcomes(self, key: Key) -> dict[str, Outcome]:
        """All outcomes under the key by recipe, sorted by it and marked as cached."""
        rows = self._query(
            f"SELECT recipe, body FROM outcomes WHERE {_OF_KEY} ORDER BY recipe", *astuple(key)
        )
        return {recipe: self._outcome(recipe, body) for recipe, body in rows}

    def put(self, key: Key, outcome: Outcome) -> None:
        """Keep one outcome, in place of an earlier one of the same recipe."""
        self.put_many(key, (outcome,))

    def put_many(self, key: Key, outcomes: Iterable[Outcome]) -> None:
        """Keep outcomes in one transaction: all of them are kept or none."""
        rows = [(outcome.recipe, _body(outcome)) for outcome in outcomes]
        if not rows:
            return
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO keys VALUES (NULL, ?, ?, ?, ?, ?)", astuple(key))
            found = db.execute(f"SELECT id FROM keys WHERE {_SAME_KEY}", astuple(key)).fetchone()
            db.executemany(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?)",
                ((found[0], recipe, body) for recipe, body in rows),
            )

    def forget(self, key: Key) -> None:
        """Drop all outcomes under the key."""
        with self._transaction() as db:
            db.execute(f"DELETE FROM outcomes WHERE {_OF_KEY}", astuple(key))
            db.execute(f"DELETE FROM keys WHERE {_SAME_KEY}", astuple(key))

    def count(self) -> int:
        """Outcomes in the store, under all keys."""
        return int(self._query("SELECT count(*) FROM outcomes")[0][0])

    # -- expelled recipes --------------------------------------------------------------------

    def expel(self, compiler: str, recipe: str, reason: str) -> None:
        """Note that a recipe must never be used with this compiler, whatever it measures.

        A pipeline that miscompiled one program is not to be trusted with another.
        """
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO expelled VALUES (?, ?, ?)", (compiler, recipe, reason)
            )

    def expelled(self, compiler: str) -> dict[str, str]:
        """Expelled recipes of a compiler, sorted, each with its reason."""
        rows = self._query(
            "SELECT recipe, reason FROM expelled WHERE compiler = ? ORDER BY recipe", compiler
        )
        return dict(rows)

    # -- inside ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        version = self._version()
        self._use_wal()
        # Safe against a killed process; a loss of power may cost the last batches, no more.
        self._db.execute("PRAGMA synchronous = NORMAL")
        if version == SCHEMA:
            return
        with self._transaction() as db:
            # Asked again under the lock, since another process may have been first.
            for statements in _MIGRATIONS[self._version() :]:
                for statement in statements:
                    db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _version(self) -> int:
        """Schema version, 0 for a new file; raises StoreError for what is not to be touched."""
        application, version, tables = self._db.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if application != _APPLICATION and (tables or version):
            raise StoreError(f"{self.path} is another program's database", hint=_ELSEWHERE)
        if version > SCHEMA:
            raise StoreError(
                f"the store {self.path} has schema {version}, written by a newer Planish",
                hint=f"this one knows {SCHEMA}: upgrade, or {_ELSEWHERE}",
            )
        return int(version)

    def _use_wal(self) -> None:
        """Switch the file to WAL mode, which sticks to it."""
        # SQLite does not wait here for others that do the same, whatever the timeout.
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _query(self, statement: str, *values: str) -> list[Any]:
        with self._errors():
            return self._db.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors():
            # The lock is taken at once: a reader that turns into a writer could not wait for it.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into the one that users see."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from error
        except UnicodeEncodeError as error:
            raise StoreError(
                f"a recipe or key has a character that the store {self.path} cannot hold",
                hint="it is no valid Unicode",
            ) from error

    def _explain(self, error: sqlite3.Error) -> StoreError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return self._damaged()
        if name.startswith("SQLITE_FULL"):
            return StoreError(f"no room on the disk for the store {self.path}", hint=_MAKE_ROOM)
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            return StoreError(f"the store {self.path} is not writable", hint=_ELSEWHERE)
        if _is_busy(error):
            return StoreError(
                f"another process has held the store {self.path} for {_WAIT_SECONDS:.0f} s",
                hint="end it, or try again later",
            )
        return StoreError(f"the store {self.path} fails: {error}", hint=_ELSEWHERE)

    def _damaged(self) -> StoreError:
        return StoreError(
            f"the store {self.path} is damaged",
            hint="delete it; only measurements are lost, and they are taken again",
        )

    def _outcome(self, recipe: str, body: str) -> Outcome:
        try:
            return _from_body(recipe, body)
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged() from error


_ELSEWHERE = "set PLANISH_CACHE to another folder"
_MAKE_ROOM = f"make room, or {_ELSEWHERE}"


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _body(outcome: Outcome) -> str:
    """Everything but the recipe; what is empty is left out."""
    fields: dict[str, Any] = {}
    if outcome.measurement is not None:
        fields["measurement"] = _measurement_fields(outcome.measurement)
    if outcome.failure is not None:
        fields["failure"] = outcome.failure.value
    if outcome.reason:
        fields["reason"] = outcome.reason
    if outcome.identity:
        fields["identity"] = outcome.identity
    return json.dumps(fields, separators=(",", ":"))


def _measurement_fields(measurement: Measurement) -> dict[str, Any]:
    fields: dict[str, Any] = {"value": measurement.value, "unit": measurement.unit}
    if measurement.parts:
        fields["parts"] = dict(measurement.parts)
    if measurement.samples:
        fields["samples"] = list(measurement.samples)
    if measurement.machine:
        fields["machine"] = measurement.machine
    if measurement.beside:
        fields["beside"] = dict(measurement.beside)
    return fields


def _from_body(recipe: str, body: str) -> Outcome:
    fields = json.loads(body)
    if not isinstance(fields, dict):
        raise TypeError("not an object")
    measurement = None
    if "measurement" in fields:
        part = fields["measurement"]
        measurement = Measurement(
            value=part["value"],
            unit=part["unit"],
            parts=part.get("parts", {}),
            samples=tuple(part.get("samples", ())),
            machine=part.get("machine", ""),
            beside=part.get("beside", {}),
        )
    return Outcome(
        recipe,
        measurement=measurement,
        failure=Failure(fields["failure"]) if "failure" in fields else None,
        reason=fields.get("reason", ""),
        identity=fields.get("identity", ""),
        cached=True,
    )
