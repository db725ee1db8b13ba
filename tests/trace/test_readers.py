"""Readers: what comes out equals what was written, however it is packed, cut and damaged."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.traces import Builder, training

from planish.base.errors import TraceError, UsageError
from planish.trace import chrome, jsonstream, source
from planish.trace.columns import Columns
from planish.trace.events import Kind, Table
from planish.trace.read import read_table


def rows(table: Table) -> list[tuple[Any, ...]]:
    """The columns as comparable rows, names spelled out."""
    events = table.events
    return [
        (
            int(events.start[i]), int(events.duration[i]), table.strings[events.name[i]],
            Kind(events.kind[i]).name, table.threads[events.thread[i]].thread,
            int(events.device[i]), int(events.stream[i]), int(events.correlation[i]),
        )
        for i in range(len(events))
    ]  # fmt: skip


def test_every_field_arrives(tmp_path: Path) -> None:
    table = read_table(training(1).write(tmp_path / "t.json"))
    assert table.format == "kineto"
    found = {row[2]: row for row in rows(table)}
    assert found["gemm"] == (60_000, 100_000, "gemm", "KERNEL", 7, 0, 7, 1)
    assert found["cudaLaunchKernel"][7] in (1, 3)
    gemm = [table.strings[name] for name in table.events.name].index("gemm")
    detail = table.events.detail[gemm]
    assert table.details.grid[detail] == 64
    assert table.details.block[detail] == 128
    assert table.details.registers[detail] == 64
    mm = [i for i in range(len(table.events)) if table.strings[table.events.name[i]] == "aten::mm"]
    assert json.loads(table.strings[table.events.shape[mm[0]]]) == [[64, 64], [64, 64]]


def test_packing_changes_nothing(tmp_path: Path) -> None:
    text = training().text().encode()
    (tmp_path / "plain.json").write_bytes(text)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text))
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/t.json", text)
    with zipfile.ZipFile(tmp_path / "both.zip", "w") as archive:
        archive.writestr("t.json.gz", gzip.compress(text))
    wanted = rows(read_table(tmp_path / "plain.json"))
    assert len(wanted) > 20
    for name in ("t.json.gz", "t.zip", "both.zip"):
        assert rows(read_table(tmp_path / name)) == wanted


def test_a_bare_array_and_odd_layouts(tmp_path: Path) -> None:
    made = training(2)
    plain = rows(read_table(made.write(tmp_path / "a.json")))
    (tmp_path / "array.json").write_text(json.dumps(made.events))
    assert rows(read_table(tmp_path / "array.json")) == plain
    (tmp_path / "indented.json").write_text(made.text(indent=3))
    assert rows(read_table(tmp_path / "indented.json")) == plain
    behind = {"traceEvents": made.events, "metadata": {"list": [{"a": 1}, {"b": "}, {"}]}}
    (tmp_path / "behind.json").write_text(json.dumps(behind))
    table = read_table(tmp_path / "behind.json")
    assert rows(table) == plain
    assert table.properties["metadata"] == behind["metadata"]


_NAMES = st.text(st.sampled_from('ab"\\{}[],: \u00e9\n'), min_size=1, max_size=12)
_ARGS = st.recursive(
    st.none() | st.integers(-5, 5) | _NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(_NAMES, st.integers(0, 1000), st.integers(0, 50), _ARGS), max_size=25),
    st.integers(30, 400),
)
def test_cuts_never_matter(
    tmp_path: Path, events: list[tuple[str, int, int, Any]], block: int
) -> None:
    """Names full of quotes and braces, lists of objects in arguments, blocks of any size."""
    made = [
        {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 2,
         "args": {"x": extra}}
        for name, ts, dur, extra in events
    ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": made, "tail": [{"a": [{}, {}]}]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonstream, "BLOCK", block)
        patch.setattr(source, "BLOCK", block)
        found = [(row[2], row[0], row[1]) for row in rows(read_table(path))]
    assert sorted(found) == sorted((n, 1000 * t, 1000 * d) for n, t, d, _ in events)


def test_begin_and_end_pair_up(tmp_path: Path) -> None:
    events = [
        {"ph": "B", "name": "outer", "ts": 1, "pid": 1, "tid": 1},
        {"ph": "B", "name": "inner", "ts": 2, "pid": 1, "tid": 1},
        {"ph": "E", "ts": 3, "pid": 1, "tid": 1},
        {"ph": "E", "ts": 9, "pid": 1, "tid": 1},
        {"ph": "b", "cat": "io", "id": "0x1", "name": "async", "ts": 4, "pid": 1, "tid": 1},
        {"ph": "e", "cat": "io", "id": "0x1", "name": "async", "ts": 6, "pid": 1, "tid": 1},
        {"ph": "B", "name": "open", "ts": 10, "pid": 1, "tid": 1},
        {"ph": "E", "ts": 11, "pid": 1, "tid": 9},
    ]
    (tmp_path / "t.json").write_text(json.dumps(events))
    table = read_table(tmp_path / "t.json")
    assert [row[:3] for row in rows(table)] == [
        (1000, 8000, "outer"), (2000, 1000, "inner"), (4000, 2000, "async"),
    ]  # fmt: skip
    notes = {note.what: note.count for note in table.notes}
    assert notes["events begun but never ended (left out)"] == 1
    assert notes["ends without a begin (left out)"] == 1


def test_nothing_is_dropped_in_silence(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"ph": "X", "name": "good", "ts": 1, "dur": 2, "pid": 1, "tid": 1},
        {"ph": "X", "name": "no time", "dur": 2},
        {"ph": "X", "name": "negative", "ts": 1, "dur": -2},
        {"ph": "X", "name": "endless", "ts": 1e300, "dur": 2},
        {"ph": "X", "name": "text", "ts": "5", "dur": "2", "pid": [1], "args": {"stream": "x"}},
        {"ph": "C", "name": "counter", "ts": 1, "args": {"v": 1}},
        {"ph": "i", "name": "instant", "ts": 1},
        {"ph": "s", "id": 4, "ts": 1},
        {},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    table = read_table(tmp_path / "t.json")
    assert [row[2] for row in rows(table)] == ["good", "text"]
    assert sum(note.count for note in table.notes if "types" not in note.what) == len(events) - 2


def test_numbers_too_large_are_noted(tmp_path: Path) -> None:
    made = Builder().kernel("k", 1, 1, 2**70, stream=2**65, grid=[2**40, 2**40, 1])
    table = read_table(made.write(tmp_path / "t.json"))
    assert table.events.correlation[0] == -1
    assert any("too large" in note.what for note in table.notes)


def test_times_keep_nanoseconds(tmp_path: Path) -> None:
    made = Builder().host("a", 4458676522690.655, 156.777).host("b", 1661203462598738, 3)
    table = read_table(made.write(tmp_path / "t.json"))
    assert table.events.start.tolist() == [4458676522690655, 1661203462598738000]
    assert table.events.duration.tolist() == [156777, 3000]


def test_a_cut_file_says_where(tmp_path: Path) -> None:
    text = training().text().encode()
    for length in (len(text) - 1, len(text) // 2, 60, 5):
        path = tmp_path / "cut.json"
        path.write_bytes(text[:length])
        with pytest.raises(TraceError) as caught:
            read_table(path)
        assert caught.value.position is not None
        assert 0 <= caught.value.position <= length
        assert "byte" in caught.value.message


def test_salvage_reads_what_is_whole(tmp_path: Path) -> None:
    made = training()
    whole = rows(read_table(made.write(tmp_path / "t.json")))
    text = (tmp_path / "t.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(text[: len(text) // 2])
    table = read_table(tmp_path / "cut.json", salvage=True)
    kept = rows(table)
    assert 10 < len(kept) < len(whole)
    assert set(kept) <= set(whole)
    assert table.skipped
    assert any("damaged" in note.what for note in table.notes)


def test_salvage_steps_over_damage_in_the_middle(tmp_path: Path) -> None:
    made = training()
    whole = rows(read_table(made.write(tmp_path / "t.json")))
    text = (tmp_path / "t.json").read_text()
    place = text.index('"name": "gemm"', len(text) // 2)
    (tmp_path / "bad.json").write_text(text[:place] + '"name": gemm' + text[place + 14 :])
    with pytest.raises(TraceError) as caught:
        read_table(tmp_path / "bad.json")
    assert caught.value.position is not None
    assert abs(caught.value.position - place) < 20
    table = read_table(tmp_path / "bad.json", salvage=True)
    assert len(table.events) == len(whole) - 1


def test_a_cut_gzip_stream(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    made = Builder()
    for i in range(4000):
        made.host(f"op{rng.integers(1 << 40)}", float(i), 0.5)
    packed = gzip.compress(made.text().encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(TraceError, match="damaged"):
        read_table(path)
    assert 1000 < len(read_table(path, salvage=True).events) < 4000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"hello", "no known trace format"),
        (b'{"a": 1}', "no 'traceEvents'"),
        (b'{"a": {"traceEvents": []}}', "not JSON"),
        (b"PK\x03\x04junk", "damaged"),
        (b"\x1f\x8bjunkjunkjunk", "damaged"),
        (b"SQLite format 3\0" + b"x" * 100, "SQLite"),
        (b'{"traceEvents": [' + b"[" * 3000, "byte"),
        (b'{"traceEvents": [{"name": "\xff\xfe"}]}', "byte"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(TraceError, match=words):
        read_table(tmp_path / "x.json")


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_table(tmp_path / "nothing.json")
    with pytest.raises(UsageError, match="folder"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        b'"name": "\xff\xfe"',
        b'"name": ' + b"[" * 2000,
        b'"name": "\\q"',
        b'"name": ',
        b'"name": 1e999',
    ],
)
def test_rescue_takes_time_in_proportion(tmp_path: Path, damage: bytes) -> None:
    """One damaged event among many: everything else is kept, decoded a few times at most."""
    made = Builder()
    for i in range(3000):
        made.host(f"op{i}", float(i), 1)
    text = made.text().encode()
    place = text.index(b'"name": "op2000"')
    (tmp_path / "t.json").write_bytes(text[:place] + damage + text[place + 16 :])
    calls = 0
    decode = chrome.decode

    def counting(piece: bytes, columns: Columns) -> Any:
        nonlocal calls
        calls += 1
        return decode(piece, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome, "decode", counting)
        table = read_table(tmp_path / "t.json", salvage=True)
    assert len(table.events) == 2999
    assert calls < 25
