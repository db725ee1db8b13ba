from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import StoreError
from planish.base.records import Failure, Measurement, Outcome
from planish.store import store as module
from planish.store.store import Key, Store

KEY = Key(task="a" * 32, target="x86_64-linux-gnu", goal="size", compiler="LLVM 22.1.8")
GOOD = Outcome(
    "passes: default<Oz>\noptions: -disable-lsr",
    Measurement(436, "bytes", {"main": 87, "f\udc80": 2.5}, (1.0, 2.0), "box"),
    identity="ab" * 16,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.db") as opened:
        yield opened


def test_an_outcome_comes_back_marked_as_cached(store: Store) -> None:
    assert store.get(KEY, GOOD.recipe) is None
    store.put(KEY, GOOD)
    assert store.get(KEY, GOOD.recipe) == replace(GOOD, cached=True)
    assert store.get(KEY, "other") is None


def test_failures_are_kept_too(store: Store) -> None:
    failed = [
        Outcome(kind.value, failure=kind, reason=f"because \udc80 {kind}") for kind in Failure
    ]
    worse = replace(GOOD, recipe="worse", failure=Failure.WORSE)
    store.put_many(KEY, [*failed, worse])
    assert store.outcomes(KEY) == {o.recipe: replace(o, cached=True) for o in [*failed, worse]}


def test_a_later_outcome_takes_the_place_of_an_earlier(store: Store) -> None:
    store.put(KEY, Outcome("a", failure=Failure.TIMEOUT))
    store.put(KEY, Outcome("a", Measurement(1, "bytes")))
    assert store.count() == 1
    assert store.outcomes(KEY)["a"].value == 1


@pytest.mark.parametrize("field", ["task", "target", "goal", "compiler", "machine"])
def test_no_two_keys_mix(store: Store, field: str) -> None:
    other = replace(KEY, **{field: "other"})
    store.put(KEY, GOOD)
    assert store.get(other, GOOD.recipe) is None
    store.put(other, Outcome(GOOD.recipe, failure=Failure.CRASH))
    assert store.outcomes(KEY)[GOOD.recipe].ok
    assert store.count() == 2


def test_a_forgotten_key_leaves_the_others(store: Store) -> None:
    other = replace(KEY, machine="other")
    store.put(KEY, GOOD)
    store.put(other, GOOD)
    store.forget(KEY)
    store.forget(KEY)
    assert store.outcomes(KEY) == {}
    assert list(store.outcomes(other)) == [GOOD.recipe]


def test_expelled_recipes_belong_to_a_compiler(store: Store) -> None:
    store.expel("LLVM 22", "passes: normalize", "miscompiles")
    store.expel("LLVM 22", "passes: normalize", "miscompiles bzip2")
    store.expel("LLVM 21", "passes: reg2mem", "grows")
    assert store.expelled("LLVM 22") == {"passes: normalize": "miscompiles bzip2"}
    assert store.expelled("LLVM 20") == {}


_NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
_NAMES = st.text(alphabet=st.characters(), max_size=8)  # surrogates too
_MEASUREMENTS = st.builds(
    Measurement,
    value=_NUMBERS,
    unit=_NAMES,
    parts=st.dictionaries(_NAMES, _NUMBERS, max_size=4),
    samples=st.lists(_NUMBERS, max_size=4).map(tuple),
    machine=_NAMES,
)
_OUTCOMES = st.builds(
    Outcome,
    recipe=st.text(max_size=20),
    measurement=st.none() | _MEASUREMENTS,
    failure=st.none() | st.sampled_from(Failure),
    reason=_NAMES,
    identity=_NAMES,
)


@given(st.lists(_OUTCOMES, max_size=5, unique_by=lambda outcome: outcome.recipe))
def test_outcomes_round_trip_exactly(outcomes: list[Outcome]) -> None:
    with Store(":memory:") as store:
        store.put_many(KEY, outcomes)
        found = store.outcomes(KEY)
        assert store.count() == len(outcomes)
    for outcome in outcomes:
        assert repr(found[outcome.recipe]) == repr(replace(outcome, cached=True))


def test_what_was_put_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "store.db"
    with Store(path) as store:
        store.put(KEY, GOOD)
    with Store(path) as store:
        assert store.get(KEY, GOOD.recipe) == replace(GOOD, cached=True)
    assert [entry.name for entry in path.parent.iterdir()] == ["store.db"]


def test_the_default_store_lies_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path / "here"))
    with Store.open_default() as store:
        store.put(KEY, GOOD)
    assert (tmp_path / "here" / "store.db").is_file()


# -- several processes ---------------------------------------------------------------------------

_WRITER = """
import sys
from planish.base.records import Measurement, Outcome
from planish.store.store import Key, Store

path, name, batches, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Store(path) as store:
    for batch in range(batches):
        store.put_many(
            Key("task", "target", "size", "LLVM"),
            [Outcome(f"{name} {batch} {i}", Measurement(i, "bytes")) for i in range(size)],
        )
        print(batch, flush=True)
"""


def _writer(path: Path, name: str, batches: int, size: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _WRITER, str(path), name, str(batches), str(size)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_several_processes_open_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writers = [_writer(path, f"w{n}", 20, 10) for n in range(4)]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 4
    with Store(path) as store:
        assert store.count() == 4 * 20 * 10


def test_a_killed_writer_loses_no_finished_batch(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with _writer(path, "w", 10**6, 50) as writer:
        assert writer.stdout is not None
        done = [int(writer.stdout.readline()) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        done += [int(line) for line in writer.stdout if line.endswith("\n")]
    with Store(path) as store:
        found = store.outcomes(Key("task", "target", "size", "LLVM"))
        assert set(found) >= {f"w {batch} {i}" for batch in done for i in range(50)}
        assert len(found) % 50 == 0, "a batch is kept whole or not at all"
        store.put(KEY, GOOD)


# -- what can go wrong ---------------------------------------------------------------------------


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match=r"schema 99.*newer") as caught:
        Store(path)
    assert "upgrade" in caught.value.hint


def test_an_older_schema_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.put(KEY, GOOD)
    monkeypatch.setattr(
        module, "_MIGRATIONS", (*module._MIGRATIONS, ("CREATE TABLE extra (a INTEGER)",))
    )
    monkeypatch.setattr(module, "SCHEMA", module.SCHEMA + 1)
    for _ in range(2):
        with Store(path) as store:
            assert store.get(KEY, GOOD.recipe) is not None
            assert store._query("SELECT * FROM extra") == []


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (a INTEGER)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("junk", [b"junk" * 500, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_corrupt_file_is_one_line(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(junk)
    with pytest.raises(StoreError, match="damaged") as caught:
        Store(path)
    assert "\n" not in str(caught.value)
    assert "delete it" in caught.value.hint


def test_pages_overwritten_later_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        store.put_many(KEY, [replace(GOOD, recipe=f"r{i}") for i in range(500)])
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with Store(path) as store, pytest.raises(StoreError, match="damaged"):
        store.outcomes(KEY)


@pytest.mark.parametrize("body", ["", "{", "[]", '{"failure":"odd"}', '{"measurement":{}}'])
def test_a_corrupt_record_is_one_line(store: Store, body: str) -> None:
    store.put(KEY, GOOD)
    store._query("UPDATE outcomes SET body = ?", body)
    with pytest.raises(StoreError, match="damaged"):
        store.get(KEY, GOOD.recipe)


def test_a_read_only_folder_is_one_line(read_only_folder: Path) -> None:
    for path in (read_only_folder / "store.db", read_only_folder / "deeper" / "store.db"):
        with pytest.raises(StoreError) as caught:
            Store(path)
        assert "PLANISH_CACHE" in caught.value.hint
        assert "\n" not in str(caught.value)


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make the folder"):
        Store(tmp_path / "file" / "store.db")


def test_a_full_disk_is_one_line_and_keeps_what_was_there(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        store.put(KEY, GOOD)
        pages = store._query("PRAGMA page_count")[0][0]
        store._query(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="no room") as caught:
            store.put_many(KEY, [replace(GOOD, recipe=f"r{i}") for i in range(1000)])
        assert "\n" not in str(caught.value)
        assert list(store.outcomes(KEY)) == [GOOD.recipe]


def test_a_store_held_by_another_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.05)
    with Store(tmp_path / "store.db") as first, Store(tmp_path / "store.db") as second:
        with first._transaction(), pytest.raises(StoreError, match="another process"):
            second.put(KEY, GOOD)
        second.put(KEY, GOOD)


def test_text_that_is_no_unicode_is_one_line(store: Store) -> None:
    with pytest.raises(StoreError, match="Unicode"):
        store.put(KEY, Outcome("\udc80"))
