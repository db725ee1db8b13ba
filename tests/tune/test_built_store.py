"""Builds of replays that are kept: the same bytes with and without, and never those of another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from planish.base.errors import LockError
from planish.base.records import Ledger
from planish.llvm.recipe import Recipe
from planish.proc.pool import Pool
from planish.store.lockfile import Lockfile
from planish.tune.finish import before_of, finish
from planish.tune.replay import replay
from planish.tune.result import Result, to_result
from planish.tune.session import Options, Session
from planish.tune.source import Request, load

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
_REQUEST = Request(triple="aarch64-linux-gnu")
_TAKEN = "taken from an earlier build of the same bitcode"


class _Project:
    """A copy of the example with an entry in a lockfile."""

    def __init__(self, folder: Path, session: Session) -> None:
        self.folder, self.session = folder, session
        self.source = folder / "lzss.c"
        shutil.copy(LZSS, self.source)
        self.lock = self.locked(Recipe(("default<Oz>", "@frame-pointer=none")))

    def locked(self, recipe: Recipe) -> Lockfile:
        """A lockfile that holds the source's entry."""
        session, options = self.session, Options()
        task = load(self.source, _REQUEST, session.toolchain, session.pool)
        before = before_of(session, task, options)
        done = finish(session, task, before, recipe, options)
        result = to_result(session, task, before, done, options, Ledger())
        return Lockfile().with_entry(result.entry(self.folder))

    def replay(self, *, kept: bool = True, locked: bool = True) -> Result:
        """One replay."""
        [result] = replay(
            self.session, [self.source], _REQUEST, Options(), self.lock, self.folder,
            locked=locked, kept=kept,
        )  # fmt: skip
        if not isinstance(result, Result):
            raise result
        return result


@pytest.fixture
def project(tmp_path: Path) -> _Project:
    with Session(jobs=1) as session:
        yield _Project(tmp_path, session)


def test_the_second_replay_takes_what_the_first_built(
    project: _Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, first = project.replay(kept=False), project.replay()
    assert _TAKEN not in (*plain.ledger.checks, *first.ledger.checks)
    ran: list[int] = []
    run = Pool.run
    monkeypatch.setattr(Pool, "run", lambda pool, calls: ran.append(len(calls)) or run(pool, calls))
    again = project.replay()
    assert not any(ran), "nothing is built"
    assert _TAKEN in again.ledger.checks
    assert plain.artefact == first.artefact == again.artefact
    assert again.best == first.best
    assert again.sections_after == first.sections_after


def test_another_recipe_or_source_is_built(project: _Project) -> None:
    first = project.replay()
    project.lock = project.locked(Recipe(("default<Oz>", "@frame-pointer=none", "globaldce")))
    assert _TAKEN not in project.replay().ledger.checks
    text = project.source.read_text()
    project.source.write_text(text.replace("int main", "int another(void) { return 7; }\nint main"))
    for _ in range(2):
        with pytest.raises(LockError, match="stale"):
            project.replay()
    assert project.replay(locked=False).artefact != first.artefact


def test_damage_to_what_was_kept_costs_a_build(project: _Project, tmp_path: Path) -> None:
    first = project.replay()
    for path in (tmp_path / "cache" / "builds").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-9])
    again = project.replay()
    assert _TAKEN not in again.ledger.checks
    assert again.artefact == first.artefact
