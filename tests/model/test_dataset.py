"""The packed corpus: each content once, its provenance and split in the file, resumable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planish.base.errors import UsageError
from planish.build.corpora import from_directory, from_recording
from planish.llvm.features import FEATURES
from planish.llvm.toolchain import FrontEnd
from planish.model import dataset, tables
from planish.model.corpus import load_corpus
from planish.model.projects import own_project
from planish.proc.pool import Pool

pytest.importorskip("pyarrow")

_SHARED = "int shared(int x) { return x > 3 ? x * 7 : x / 3; }\n"
_LOOP = "int NAME(const int *a, int n) { int s = 0; while (n--) s += a[n] * 5; return s; }\n"


def _corpus(folder: Path, front_end: FrontEnd, pool: Pool) -> Path:
    out = folder / "corpus"
    for name, split in (("one", "train"), ("two", "held-out")):
        source = folder / name
        source.mkdir()
        (source / "a.c").write_text(_SHARED + _LOOP.replace("NAME", name))
        (source / "broken.c").write_text("int f( {\n")
        from_directory(own_project(name, "MIT", split), source, out, front_end, pool, 2, 60)
    return out


def test_a_folder_becomes_a_dataset(
    tmp_path: Path, front_end: FrontEnd, builder_pool: Pool
) -> None:
    corpus = _corpus(tmp_path, front_end, builder_pool)
    counts = dataset.pack_corpus(corpus, tmp_path / "ds", builder_pool, 1, lambda words: None)
    assert counts["modules"] == {"train": 1, "held-out": 1}
    # `shared` is in both: it is training's, and stands once.
    assert counts["functions"] == {"train": 2, "held-out": 1}
    modules, words = tables.read_table(tmp_path / "ds" / "modules.parquet")
    functions, _ = tables.read_table(tmp_path / "ds" / "functions.parquet")
    assert words["features"] == list(FEATURES)
    assert sorted(zip(functions["name"], functions["split"], strict=True)) == [
        ("one", "train"), ("shared", "train"), ("two", "held-out"),
    ]  # fmt: skip
    assert len(set(functions["sha"])) == 3 and set(functions["licence"]) == {"MIT"}
    assert {len(row) for row in (*modules["features"], *functions["features"])} == {len(FEATURES)}
    assert modules["source"] == ["a.c", "a.c"]
    index = load_corpus(corpus)
    assert [index.projects[name]["refused"] for name in ("one", "two")] == [1, 1]
    assert not (tmp_path / "ds" / "parts").exists()


def test_a_killed_run_goes_on(
    tmp_path: Path, front_end: FrontEnd, builder_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = _corpus(tmp_path, front_end, builder_pool), tmp_path / "ds"

    def die(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(dataset, "write_table", die)
        dataset.pack_corpus(corpus, out, builder_pool, 1, lambda words: None)
    assert len(list((out / "parts").iterdir())) == 2

    def forbidden(data: dict[str, bytes], *given: object) -> dict[str, object]:
        assert not data
        return {}

    monkeypatch.setattr(dataset, "_examine", forbidden)
    dataset.pack_corpus(corpus, out, builder_pool, 1, lambda words: None)
    assert (out / "functions.parquet").exists()


def test_a_recorded_build_becomes_modules(
    tmp_path: Path, sample_bitcode: bytes, builder_pool: Pool
) -> None:
    from planish.build.blobs import Blobs
    from planish.build.units import Recorded, append, begin

    record = tmp_path / "project" / ".planish"
    begin(record)
    name = Blobs(record).put(sample_bitcode)
    made = record.parent / "a.o"
    made.write_bytes(b"")
    unit = Recorded(str(record.parent), "a.c", "a.o", ("-O2",), bitcode=name)
    append(record, unit)
    append(record, replace(unit, source="b.s", output="b.o", bitcode=""))
    (record.parent / "b.o").write_bytes(b"")
    own = own_project("mine", "MIT", "train")
    index = from_recording(own, record, tmp_path / "corpus", builder_pool)
    assert [(m.source, m.flags, m.licence) for m in index.modules] == [("a.c", ("-O2",), "MIT")]
    assert index.projects["mine"]["refused"] == 1
    # Recorded again, it is replaced and not added.
    again = from_recording(own, record, tmp_path / "corpus", builder_pool)
    assert again.modules == index.modules
    with pytest.raises(UsageError, match="holds no recorded build"):
        from_recording(own, tmp_path, tmp_path / "corpus", builder_pool)


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        tables.read_table(tmp_path / "modules.parquet")
    (tmp_path / "modules.parquet").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="cannot read the table"):
        tables.read_table(tmp_path / "modules.parquet")
    with pytest.raises(UsageError, match="there is no corpus"):
        dataset.pack_corpus(tmp_path, tmp_path, None, 1, print)  # type: ignore[arg-type]
