"""What a result owes, on real C: never worse, repeatable, within the budget, honest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.base.errors import LockError, UsageError
from planish.base.records import Budget, Grade
from planish.llvm.recipe import Recipe
from planish.measure.sizes import measure_object
from planish.store.lockfile import Lockfile
from planish.store.store import Store
from planish.tune.passes import optimise
from planish.tune.replay import replay
from planish.tune.result import Result
from planish.tune.session import Options, Session
from planish.tune.source import Request

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
SMALL = Options(budget=Budget(builds=12))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(jobs=2) as opened:
        yield opened


@pytest.fixture(scope="module")
def lzss(session: Session) -> Result:
    return optimise(session, LZSS, Request(), SMALL)


def one(session: Session, lock: Lockfile, options: Options = SMALL, **given: object) -> Result:
    request = Request(**given)  # type: ignore[arg-type]
    [result] = replay(session, [LZSS], request, options, lock, LZSS.parent)
    if not isinstance(result, Result):
        raise result
    return result


def lock_of(result: Result) -> Lockfile:
    return Lockfile().with_entry(result.entry(LZSS.parent))


def test_the_example_shrinks_and_the_numbers_are_those_of_the_object(lzss: Result) -> None:
    assert lzss.best < lzss.baseline
    assert measure_object(lzss.artefact).allocated == lzss.best
    assert sum(lzss.sections_before.values()) == lzss.baseline
    assert lzss.ledger.builds + lzss.ledger.cached <= 12
    assert list(lzss.ledger.curve) == sorted(lzss.ledger.curve, reverse=True)
    assert lzss.verdict.grade is Grade.UNKNOWN
    assert "replayed to the same bytes" in lzss.ledger.checks


@pytest.mark.parametrize("policy", ["random", "greedy", "genetic"])
def test_no_policy_gives_anything_worse(session: Session, policy: str) -> None:
    options = Options(budget=Budget(builds=4), policy=policy, seed=3)
    result = optimise(session, LZSS, Request(), options)
    assert result.best <= result.baseline
    assert result.ledger.builds + result.ledger.cached <= 4


@pytest.mark.parametrize(
    "triple",
    [
        "aarch64-linux-gnu", "thumbv7m-none-eabi", "riscv64-linux-gnu", "wasm32-unknown-unknown",
        "mips-linux-musl",
    ],
)  # fmt: skip
def test_other_targets(session: Session, tmp_path: Path, triple: str) -> None:
    source = tmp_path / "sum.c"
    source.write_text(
        "int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * i;"
        " return s; }\nint twice(int x) { return x > 7 ? x * 2 : sum(&x, 1); }\n"
    )
    options = Options(budget=Budget(builds=3))
    result = optimise(session, source, Request(triple=triple), options)
    assert result.best <= result.baseline
    assert measure_object(result.artefact).allocated == result.best
    assert result.target.startswith(triple.split("-")[0])


def test_results_do_not_depend_on_the_number_of_workers(lzss: Result) -> None:
    with Session(jobs=1) as alone:
        again = optimise(alone, LZSS, Request(), SMALL)
    assert again.artefact == lzss.artefact
    assert again.recipe == lzss.recipe
    assert again.ledger.curve == lzss.ledger.curve


def test_a_search_resumes_from_the_store_with_the_same_result(lzss: Result, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Session(jobs=2, store=Store(path)) as first:
        optimise(first, LZSS, Request(), Options(budget=Budget(builds=6)))
        whole = optimise(first, LZSS, Request(), SMALL)
        assert 0 < whole.ledger.cached < 12
        again = optimise(first, LZSS, Request(), SMALL)
    assert again.ledger.builds == 0
    assert again.artefact == whole.artefact == lzss.artefact


def test_instructions_as_the_goal(session: Session) -> None:
    options = Options(goal="instructions", budget=Budget(builds=6), emit="bc")
    result = optimise(session, LZSS, Request(), options)
    assert result.unit == "instructions"
    assert 0 < result.best <= result.baseline
    assert result.artefact.startswith(b"BC")


def test_replay_gives_the_same_bytes_and_builds_nothing(session: Session, lzss: Result) -> None:
    again = one(session, lock_of(lzss))
    assert again.artefact == lzss.artefact
    assert again.ledger.builds == 0
    assert not again.stale


def test_a_stale_entry_gives_the_better_of_both(session: Session, lzss: Result) -> None:
    entry = dataclasses.replace(lzss.entry(LZSS.parent), hash="0" * 32)
    result = one(session, Lockfile().with_entry(entry))
    assert result.stale
    assert result.best <= result.baseline
    [refused] = replay(
        session, [LZSS], Request(), SMALL, Lockfile().with_entry(entry), LZSS.parent, locked=True
    )
    assert isinstance(refused, LockError)
    assert "stale" in refused.message


def test_a_useless_recipe_in_a_stale_entry_gives_the_baseline(
    session: Session, lzss: Result
) -> None:
    entry = dataclasses.replace(
        lzss.entry(LZSS.parent), hash="0" * 32, recipe="passes: function(reg2mem)"
    )
    result = one(session, Lockfile().with_entry(entry))
    assert result.best == result.baseline
    assert result.recipe == Recipe()


def test_an_edited_entry_is_refused(session: Session, lzss: Result) -> None:
    entry = lzss.entry(LZSS.parent)
    other = dataclasses.replace(entry, recipe="passes: default<Oz>")
    with pytest.raises(LockError, match="replays to"):
        one(session, Lockfile().with_entry(other))
    unknown = dataclasses.replace(entry, recipe="passes: default<Oz>,function(gnv)")
    with pytest.raises(UsageError, match="did you mean gvn"):
        one(session, Lockfile().with_entry(unknown))
    with pytest.raises(LockError, match="no entry"):
        one(session, Lockfile())


def test_the_users_flags_hold(session: Session) -> None:
    flags = ("-ffunction-sections", "-fdata-sections", "-g", "-DNDEBUG")
    result = optimise(session, LZSS, Request(flags=flags), Options(budget=Budget(builds=3)))
    sections = measure_object(result.artefact).sections
    assert ".text.lzss_expand" in sections
    assert b".debug_line" in result.artefact
    assert result.best <= result.baseline


def test_explaining_minimises_and_costs_nothing(session: Session, lzss: Result) -> None:
    result = optimise(session, LZSS, Request(), dataclasses.replace(SMALL, explain=True))
    assert result.best <= lzss.best
    assert result.shares
    assert all(share.gain > 0 for share in result.shares)


def test_a_module_marked_optnone_is_optimised_all_the_same(
    session: Session, tmp_path: Path
) -> None:
    source = tmp_path / "plain.ll"
    source.write_text(
        'target triple = "x86_64-unknown-linux-gnu"\n'
        "define i32 @f(i32 %x) noinline optnone {\n  %p = alloca i32\n  store i32 %x, ptr %p\n"
        "  %v = load i32, ptr %p\n  %w = add i32 %v, 1\n  ret i32 %w\n}\n"
    )
    result = optimise(session, source, Request(), Options(budget=Budget(builds=3)))
    assert result.best < result.baseline


def test_a_test_that_fails_on_the_baseline_judges_nothing(session: Session) -> None:
    options = dataclasses.replace(SMALL, check=lambda artefact: False)
    with pytest.raises(UsageError, match="baseline"):
        optimise(session, LZSS, Request(), options)


def test_the_culprit_is_expelled_and_never_used_again(tmp_path: Path) -> None:
    """Frame pointers "break" this program: its test looks for `push rbp; mov rbp, rsp`."""

    def check(artefact: bytes) -> bool:
        return b"\x55\x48\x89\xe5" not in artefact

    options = dataclasses.replace(SMALL, check=check)
    with Session(jobs=2, store=Store(tmp_path / "store.db")) as session:
        result = optimise(session, LZSS, Request(), options)
        assert check(result.artefact)
        assert result.best <= result.baseline
        assert any("expelled" in words for words in result.ledger.fallbacks)
        assert session.store is not None
        expelled = session.store.expelled(session.compiler)
        assert expelled
        again = optimise(session, LZSS, Request(), SMALL)
    assert not set(expelled) & {*again.recipe.passes, *again.recipe.options}
