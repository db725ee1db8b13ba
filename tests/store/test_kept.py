"""Files kept by key: found again, unless damaged, large or not used for long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.hashing import digest
from planish.store import kept


def _files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


@given(st.binary(max_size=200))
def test_what_was_kept_is_found(data: bytes) -> None:
    key = digest(data)
    kept.keep("things", key, data)
    assert kept.load_kept("things", key) == data
    assert kept.load_kept("others", key) is None


@pytest.mark.parametrize("damage", [b"", b"\n", b"x" * 40, b"cut"])
def test_a_damaged_file_is_none(tmp_path: Path, damage: bytes) -> None:
    kept.keep("things", "00ff", b"some bytes")
    [path] = _files(tmp_path / "cache")
    path.write_bytes(damage if damage != b"cut" else path.read_bytes()[:-1])
    assert kept.load_kept("things", "00ff") is None


def test_those_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_IN_A_FOLDER", 8)
    for number in range(8):
        kept.keep("things", f"00{number}", b"%d" % number)
    for at, path in enumerate(sorted(_files(tmp_path / "cache"))):
        os.utime(path, (at, at))
    assert kept.load_kept("things", "000") == b"0"  # used again: the newest now
    kept.keep("things", "008", b"8")
    stay = {n for n in range(9) if kept.load_kept("things", f"00{n}") is not None}
    assert stay == {0, 6, 7, 8}


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("no folder")
    kept.keep("things", "00ff", b"some bytes")
    assert kept.load_kept("things", "00ff") is None


def test_what_is_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_BYTES", 4)
    kept.keep("things", "00ff", b"12345")
    assert kept.load_kept("things", "00ff") is None
