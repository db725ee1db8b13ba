from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from planish.base.config import read_config
from planish.base.errors import UsageError
from planish.base.files import read_bytes, write_atomic


def test_text_and_bytes_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_atomic(path, "é\r\n")
    assert read_bytes(path) == b"\xc3\xa9\r\n"
    write_atomic(path, b"\0\xff")
    assert read_bytes(path) == b"\0\xff"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_the_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "out", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_relative_and_long_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomic(Path("out"), "x")
    write_atomic(Path("n" * 255), "y")
    assert read_bytes(tmp_path / ("n" * 255)) == b"y"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    write_atomic(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_atomic(tmp_path / "pipe", "through")
    reader.join()
    assert read == [b"through"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_one_line() -> None:
    with pytest.raises(UsageError, match="cannot write /dev/full: No space left on device"):
        write_atomic(Path("/dev/full"), "x")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_read_only_folder_is_one_line(read_only_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: Permission denied"):
        write_atomic(read_only_folder / "out", "x")


@pytest.mark.parametrize("name", ["missing/out", "file/out", "folder"])
def test_other_places_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomic(tmp_path / name, "x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


def test_reading_says_why_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_bytes(tmp_path / "missing")
    with pytest.raises(UsageError, match="Is a directory"):
        read_bytes(tmp_path)


def test_the_cache_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_CACHE", "/a")
    assert read_config().cache_dir == Path("/a")
    monkeypatch.delenv("PLANISH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert read_config().cache_dir == Path("/b/planish")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_config().cache_dir == tmp_path / ".cache/planish"


def test_a_user_without_home_has_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PLANISH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert read_config().cache_dir.is_absolute()
