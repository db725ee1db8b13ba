"""Two processes that read a Chrome trace in halves make the table that one process makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.traces import same

from planish.base.errors import TraceError
from planish.trace import chrome, chrome_halves, jsonstream, source
from planish.trace.chrome_halves import NotPlain
from planish.trace.events import Table
from planish.trace.read import read_table

_NAMES = st.sampled_from(["aten::mm", "aten::add", "kernel<float>", "[[1, 2]]", "cudaLaunchKernel"])


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "gpu_memcpy", "flow", "name"]))
    where = {"pid": draw(st.integers(0, 2)), "tid": draw(st.sampled_from([1, 2, "stream 7"]))}
    if kind == "flow":
        return {"ph": "s", "id": 1, "name": "ac2g", "ts": 1, **where}
    if kind == "name":
        return {"ph": "M", "name": "thread_name", "args": {"name": f"thread {where}"}, **where}
    args: dict[str, Any] = {"correlation": draw(st.integers(0, 400))}
    if kind == "cpu_op" and draw(st.booleans()):
        args["Input Dims"] = [[1, draw(st.integers(1, 3))]]
    if kind == "kernel":
        args |= {"grid": [draw(st.integers(1, 70000)), 2, 1], "block": [32, 1, 1], "stream": 7}
    if kind == "gpu_memcpy":
        args |= {"bytes": draw(st.integers(1, 1 << 40)), "device": draw(st.integers(0, 1))}
    start, lasted = draw(st.integers(0, 50)), draw(st.integers(-1, 9))
    times = {"ts": start, "dur": lasted}
    return {"ph": "X", "cat": kind, "name": draw(_NAMES), "args": args, **where, **times}


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (jsonstream, source):
        monkeypatch.setattr(module, "BLOCK", 700)


def _read(path: Path, monkeypatch: pytest.MonkeyPatch, *, halves: bool) -> Table:
    monkeypatch.setattr(chrome, "worth_halving", lambda _: halves)
    return read_table(path)


@settings(deadline=None, max_examples=40)
@given(st.lists(_events(), max_size=120), st.booleans())
def test_the_table_does_not_depend_on_the_processes(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], bare: bool
) -> None:
    path = tmp_path_factory.mktemp("halves") / "t.json"
    whole = {"deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x"}
    path.write_text(json.dumps(events if bare else whole))
    with pytest.MonkeyPatch.context() as patch:
        halved: list[bool] = []
        original = chrome._read_halves
        patch.setattr(
            chrome, "_read_halves", lambda *given: halved.append(True) or original(*given)
        )
        same(_read(path, patch, halves=False), _read(path, patch, halves=True))
        assert halved


def _write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def _op(number: int) -> dict[str, Any]:
    row = {"ph": "X", "cat": "cpu_op", "name": f"op{number % 9}", "ts": number, "dur": 1}
    return row | {"pid": 1, "tid": 1}


def test_pairs_across_windows_are_left_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = [_op(i) for i in range(200)]
    begin = {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 0}
    end = {"ph": "E", "pid": 1, "tid": 1, "ts": 500}
    path = _write(tmp_path / "t.json", [begin, *middle, end])
    with pytest.raises(NotPlain):
        chrome._read_halves(path, jsonstream.Scanner(source.Blocks(path)))
    table = _read(path, monkeypatch, halves=True)
    assert table.strings[table.events.name[0]] == "outer"
    assert table.events.duration[0] == 500_000


def test_a_thread_renamed_half_way_is_left_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1}
    first, last = row | {"args": {"name": "first"}}, row | {"args": {"name": "last"}}
    path = _write(tmp_path / "t.json", [first, *(_op(i) for i in range(200)), last])
    assert _read(path, monkeypatch, halves=True).threads[0].name == "last"


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_damage_is_named_as_one_process_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: float
) -> None:
    path = _write(tmp_path / "t.json", [_op(i) for i in range(300)])
    text = path.read_bytes()
    cut = int(len(text) * place)
    for damaged in (text[:cut], text[:cut] + b"\x00\xff" + text[cut:]):
        path.write_bytes(damaged)
        said = []
        for halves in (False, True):
            with pytest.raises(TraceError) as caught:
                _read(path, monkeypatch, halves=halves)
            said.append((caught.value.message, caught.value.position))
        assert said[0] == said[1]


def test_a_file_that_inflates_beyond_the_bound_is_left_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "t.json", [_op(i) for i in range(300)])
    wanted = _read(path, monkeypatch, halves=False)
    monkeypatch.setattr(chrome_halves, "_PLAIN_SIZES", range(2000))
    with pytest.raises(NotPlain):
        chrome._read_halves(path, jsonstream.Scanner(source.Blocks(path)))
    same(_read(path, monkeypatch, halves=True), wanted)
