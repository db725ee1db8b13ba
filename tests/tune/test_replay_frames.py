"""Frame pointers: those that nobody asked for may go; those that somebody asked for stay."""

from __future__ import annotations

import shutil
from pathlib import Path

from planish.base.records import Ledger
from planish.llvm.recipe import Recipe
from planish.store.lockfile import Lockfile
from planish.tune.finish import before_of, finish
from planish.tune.passes import make_key
from planish.tune.replay import replay
from planish.tune.result import to_result
from planish.tune.session import Options, Session
from planish.tune.source import Request, load

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
BARE = Recipe(("default<Oz>", "@frame-pointer=none"))
ARM64 = "aarch64-linux-gnu"
KEEP = "-fno-omit-frame-pointer"


def _sizes(session: Session, source: Path, *flags: str, triple: str = ARM64) -> tuple[int, int]:
    """Bytes of the baseline and of the recipe that drops frame pointers."""
    task = load(source, Request(flags, triple=triple), session.toolchain, session.pool)
    before = before_of(session, task, Options())
    return before.size, finish(session, task, before, BARE, Options()).value


def test_frame_pointers_go_where_nobody_asked_for_them(tmp_path: Path) -> None:
    with Session(jobs=2) as session:
        before, after = _sizes(session, LZSS)
        assert after < before
        before, after = _sizes(session, LZSS, KEEP)
        assert after == before, "they were asked for"
        module = tmp_path / "lzss.bc"
        task = load(LZSS, Request(triple=ARM64), session.toolchain, session.pool)
        module.write_bytes(session.pool.kept(task.search.blob))
        before, after = _sizes(session, module)
        assert after == before, "a module does not tell who wants its frame pointers"


def test_outcomes_with_and_without_them_are_kept_apart() -> None:
    with Session(jobs=1) as session:
        tasks = [
            load(LZSS, Request(flags, triple=ARM64), session.toolchain, session.pool)
            for flags in ((), (KEEP,))
        ]
        first, second = (make_key(session, task, "size") for task in tasks)
        assert first != second


def test_an_entry_without_them_is_stale_once_they_are_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "lzss.c"
    shutil.copy(LZSS, source)
    request, options = Request(triple=ARM64), Options()
    with Session(jobs=1) as session:
        task = load(source, request, session.toolchain, session.pool)
        before = before_of(session, task, options)
        done = finish(session, task, before, BARE, options)
        result = to_result(session, task, before, done, options, Ledger())
        lock = Lockfile().with_entry(result.entry(tmp_path))
        for flags, stale in (((), False), ((KEEP,), True)):
            asked = Request(flags, triple=ARM64)
            [again] = replay(session, [source], asked, options, lock, tmp_path)
            assert not isinstance(again, Exception), again
            assert again.stale is stale
            assert (again.best == result.best) is not stale
