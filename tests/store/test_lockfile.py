from __future__ import annotations

import datetime
import fcntl
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import LockError
from planish.store import lockfile as module
from planish.store.lockfile import LockEntry, Lockfile, load, parse, update

ENTRY = LockEntry(
    source="src/lzss.c",
    hash="ab" * 16,
    goal="size",
    target="x86_64-unknown-linux-gnu",
    recipe="passes: function(sroa),default<Oz>\noptions: -disable-lsr\nfunction main: simplifycfg",
    baseline=812,
    result=760,
    unit="bytes",
    compiler="LLVM 22.1.8",
    verdict="tested on 100 inputs",
)
TEXT = '''\
version = 1

[[task]]
source = "src/lzss.c"
goal = "size"
target = "x86_64-unknown-linux-gnu"
level = "Oz"
hash = "abababababababababababababababab"
compiler = "LLVM 22.1.8"
baseline = 812
result = 760
unit = "bytes"
verdict = "tested on 100 inputs"
recipe = """
passes: function(sroa),default<Oz>
options: -disable-lsr
function main: simplifycfg"""
'''


def test_the_text_is_made_for_diffs() -> None:
    assert Lockfile().with_entry(ENTRY).render() == TEXT


def test_the_text_reads_back() -> None:
    assert parse(TEXT).entries == (ENTRY,)


def test_optional_keys_stand_in_their_place() -> None:
    entry = replace(ENTRY, function="main", cpu="cortex-m4", flags=("-DA=1", "-Iinc"), level="O2")
    text = Lockfile().with_entry(entry).render()
    keys = [line.partition(" ")[0] for line in text.splitlines() if " = " in line]
    assert keys[:8] == [
        "version", "source", "function", "goal", "target", "cpu", "level", "flags",
    ]  # fmt: skip
    assert parse(text).entries == (entry,)


def test_entries_are_found_and_replaced() -> None:
    first = Lockfile().with_entry(ENTRY)
    both = first.with_entry(replace(ENTRY, function="main"))
    assert first.find("src/lzss.c", "size", ENTRY.target) == ENTRY
    assert first.find("src/lzss.c", "size", ENTRY.target, "main") is None
    assert both.find("src/lzss.c", "size", ENTRY.target, "main") is not None
    assert first.find("src/lzss.c", "time", ENTRY.target) is None
    assert first.find("src/lzss.c", "size", "riscv64") is None
    assert len(first.with_entry(replace(ENTRY, result=1)).entries) == 1
    assert first.entries == (ENTRY,), "updates make a new lockfile"


def test_the_order_is_that_of_source_function_goal_target() -> None:
    tasks = [
        ("a.c", "", "size", "x86"), ("a.c", "", "time", "arm"), ("a.c", "f", "size", "arm"),
        ("b.c", "", "size", "arm"),
    ]  # fmt: skip
    lock = Lockfile()
    for source, function, goal, target in reversed(tasks):
        entry = replace(ENTRY, source=source, function=function, goal=goal, target=target)
        lock = lock.with_entry(entry)
    assert [entry.task for entry in lock.entries] == tasks
    assert parse(lock.render()) == lock


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert load(tmp_path / "planish.lock") == Lockfile()
    assert parse(Lockfile().render()) == Lockfile()


def test_unknown_keys_are_kept() -> None:
    text = TEXT.replace("version = 1", 'version = 1\nmade-by = "someone"').replace(
        "unit =", "energy = 1.5\nseen = 2025-01-02\nunit ="
    )
    lock = parse(text + '\n[task.more]\na = [1, { b = "c\\r\\nd" }]\n\n[meta]\nx = "y\\nz"\n')
    assert dict(lock.extra) == {"made-by": "someone", "meta": {"x": "y\nz"}}
    (entry,) = lock.entries
    assert dict(entry.extra) == {
        "energy": 1.5,
        "seen": datetime.date(2025, 1, 2),
        "more": {"a": [1, {"b": "c\r\nd"}]},
    }
    assert parse(lock.render()) == lock
    replaced = lock.with_entry(replace(ENTRY, result=7))
    assert replaced.entries[0].result == 7
    assert replaced.entries[0].extra == entry.extra
    assert parse(replaced.render()) == replaced


_TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=12)
_ODD = st.lists(
    st.sampled_from(
        ['"""', "'''", '"', "\\", "\n", "\r\n", "\r", "\t", "\0", "\x7f", "é", " ", "🙂"]
    )
    | _TEXTS,
    max_size=8,
).map("".join)
_ENTRIES = st.builds(
    LockEntry,
    source=_ODD,
    hash=_TEXTS,
    goal=_TEXTS,
    target=_TEXTS,
    recipe=_ODD,
    baseline=st.integers(-(2**63), 2**63 - 1),
    result=st.integers(0, 10**6),
    unit=_TEXTS,
    compiler=_TEXTS,
    verdict=_ODD,
    function=_ODD,
    cpu=_TEXTS,
    flags=st.lists(_ODD, max_size=3).map(tuple),
    level=_TEXTS,
    extra=st.dictionaries(
        _TEXTS.map("x".__add__),
        _ODD | st.integers(-9, 9) | st.booleans() | st.floats(allow_nan=False) | st.lists(_ODD),
        max_size=2,
    ),
)


@given(st.lists(_ENTRIES, max_size=4))
def test_what_is_saved_is_what_is_loaded(entries: list[LockEntry]) -> None:
    lock = Lockfile().with_entries(entries)
    text = lock.render()
    assert parse(text) == lock
    assert parse(text).render() == text
    assert Lockfile().with_entries(reversed(lock.entries)).render() == text
    assert tomllib.loads(text)["version"] == 1


@given(_ENTRIES)
def test_the_shortest_task_is_still_a_table_of_its_own(entry: LockEntry) -> None:
    assert "\n[[task]]\n" in Lockfile().with_entry(entry).render()


def test_saving_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    lock = Lockfile().with_entry(ENTRY)
    lock.save(path)
    assert path.read_bytes() == TEXT.encode()
    load(path).save(path)
    assert path.read_bytes() == TEXT.encode()
    assert [entry.name for entry in tmp_path.iterdir()] == ["planish.lock"]


def test_a_checkout_with_dos_line_ends_loads(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert load(path).entries == (ENTRY,)


# -- updates -------------------------------------------------------------------------------------


def test_an_update_merges(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    update(path, [ENTRY])
    other = replace(ENTRY, source="a.c")
    assert update(path, [other]).entries == (other, ENTRY)
    assert load(path).entries == (other, ENTRY)
    assert [entry.name for entry in tmp_path.iterdir()] == ["planish.lock"]


def test_an_update_without_change_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    update(path, [])
    assert not path.exists()
    update(path, [ENTRY])
    before = path.stat()
    update(path, [ENTRY])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


_UPDATER = """
import sys
from pathlib import Path
from planish.store.lockfile import LockEntry, update

for n in range(10):
    entry = LockEntry(
        f"{sys.argv[2]}{n}.c", "", "size", "x86", "passes: sroa", 2, 1, "bytes", "LLVM", "unknown"
    )
    update(Path(sys.argv[1]), [entry])
"""


def test_processes_keep_each_others_entries(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    running = [
        subprocess.Popen([sys.executable, "-c", _UPDATER, str(path), name]) for name in "abcd"
    ]
    assert [process.wait() for process in running] == [0] * 4
    assert len(load(path).entries) == 40


def test_a_folder_that_stays_locked_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.05)
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(LockError, match="another process has locked"):
            update(tmp_path / "planish.lock", [ENTRY])
    finally:
        os.close(handle)
    update(tmp_path / "planish.lock", [ENTRY])


def test_a_file_system_without_locks_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(handle: int, operation: int) -> None:
        raise OSError("Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert update(tmp_path / "planish.lock", [ENTRY]).entries == (ENTRY,)


# -- what can go wrong ---------------------------------------------------------------------------


def test_corrupt_toml_names_its_line() -> None:
    conflict = TEXT.replace("baseline", "<<<<<<< ours\nbaseline")
    with pytest.raises(LockError, match=r"no valid TOML.*line 10") as caught:
        parse(conflict)
    assert "version control" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["= 1", "[[task", "a = " + "[" * 5000, 'version = 1\na = "\0"'])
def test_no_corrupt_text_raises_anything_else(text: str) -> None:
    with pytest.raises(LockError):
        parse(text)


@pytest.mark.parametrize(
    "key", ["source", "goal", "target", "hash", "compiler", "baseline", "result", "unit", "verdict"]
)
def test_a_missing_key_is_named_with_its_task(key: str) -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith(f"{key} =")]
    with pytest.raises(LockError, match=rf"task 1.* lacks the key '{key}'") as caught:
        parse("\n".join(lines))
    assert key == "source" or "(src/lzss.c)" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("baseline = 812", 'baseline = "812"', "'baseline' is no whole number"),
        ("baseline = 812", "baseline = 812.0", "'baseline' is no whole number"),
        ("baseline = 812", "baseline = true", "'baseline' is no whole number"),
        ('goal = "size"', "goal = 1", "'goal' is no text"),
        ('level = "Oz"', "level = 2", "'level' is no text"),
        ('level = "Oz"', 'flags = "-g"', "'flags' is no list of texts"),
        ('level = "Oz"', "flags = [1]", "'flags' is no list of texts"),
    ],
)
def test_a_wrong_type_is_named_with_its_task(old: str, new: str, words: str) -> None:
    with pytest.raises(LockError) as caught:
        parse(TEXT.replace(old, new))
    assert words in str(caught.value) and "src/lzss.c" in str(caught.value)


@pytest.mark.parametrize("text", ["version = 1\ntask = 3", "version = 1\ntask = [1]"])
def test_tasks_that_are_no_tables(text: str) -> None:
    with pytest.raises(LockError, match="array of tables"):
        parse(text)


def test_a_task_that_stands_twice_is_refused() -> None:
    with pytest.raises(LockError, match=r"src/lzss.c \(size, x86_64.*stands twice"):
        parse(TEXT + TEXT.removeprefix("version = 1\n"))


def test_a_newer_version_asks_for_an_upgrade() -> None:
    with pytest.raises(LockError, match="version 7; this Planish knows up to 1") as caught:
        parse(TEXT.replace("version = 1", "version = 7"))
    assert caught.value.hint == "upgrade Planish"


@pytest.mark.parametrize("version", ["", 'version = "1"', "version = true", "version = -1"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(LockError, match="version"):
        parse(TEXT.replace("version = 1", version))


def test_an_older_version_is_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(document: dict[str, object]) -> dict[str, object]:
        tables = document["task"]
        assert isinstance(tables, list)
        renamed = [{("source" if k == "file" else k): v for k, v in t.items()} for t in tables]
        return {**document, "task": renamed}

    old = TEXT.replace("version = 1", "version = 0").replace("source =", "file =")
    with pytest.raises(LockError, match="unknown version 0"):
        parse(old)
    monkeypatch.setitem(module._MIGRATIONS, 0, rename)
    assert parse(old).render() == TEXT


def test_names_that_are_no_utf8_are_one_line() -> None:
    with pytest.raises(LockError, match="no UTF-8"):
        Lockfile().with_entry(replace(ENTRY, source="caf\udce9.c")).render()


def test_files_that_cannot_be_read_or_written(tmp_path: Path, read_only_folder: Path) -> None:
    with pytest.raises(LockError, match="cannot write"):
        update(read_only_folder / "planish.lock", [ENTRY])
    with pytest.raises(LockError, match="cannot open the folder"):
        update(read_only_folder / "missing" / "planish.lock", [ENTRY])


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "planish.lock").write_bytes(b"\xff\xfe")
    with pytest.raises(LockError, match="no UTF-8"):
        load(tmp_path / "planish.lock")
    with pytest.raises(LockError, match="Is a directory"):
        load(tmp_path)


@given(st.lists(_ENTRIES, max_size=4), st.integers(0, 3))
def test_a_sources_own_entries_are_those_of_the_whole_file(
    entries: list[LockEntry], at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "planish.lock"
        whole = Lockfile().with_entries(entries)
        whole.save(path)
        source = entries[at].source if at < len(entries) else "absent.c"
        mine = [entry for entry in whole.entries if entry.source == source]
        assert [e for e in load(path, source=source).entries if e.source == source] == mine
        for goal in {entry.goal for entry in mine}:
            assert whole.of(source, goal) == [entry for entry in mine if entry.goal == goal]


def test_a_killed_writer_leaves_a_whole_file_with_one_entry_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    code = (
        "import sys, itertools; from pathlib import Path;"
        "from dataclasses import replace; from planish.store.lockfile import load, update;"
        "path = Path(sys.argv[1]); [entry] = load(path).entries;"
        "print(flush=True);"
        "[update(path, [replace(entry, recipe=f'{n} ' * 20000)]) for n in itertools.count()]"
    )
    update(path, [ENTRY])
    for attempt in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            before = path.stat().st_mtime_ns
            while path.stat().st_mtime_ns == before:
                pass  # until it is at it
            time.sleep(0.003 * attempt)  # in another part of its work each time
            writer.kill()
        [entry] = load(path).entries
        words = entry.recipe.split()
        assert len(words) == 20000 and len(set(words)) == 1
    update(path, [ENTRY])
    assert load(path).entries == (ENTRY,), "nobody holds it any more"
