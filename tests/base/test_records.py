from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import UsageError
from planish.base.hashing import digest
from planish.base.records import Budget, Failure, Grade, Ledger, Measurement, Outcome, Verdict


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("32", Budget(builds=32)),
        ("32b", Budget(builds=32)),
        (" 1 build ", Budget(builds=1)),
        ("10s", Budget(seconds=10)),
        ("1.5m", Budget(seconds=90)),
        ("1h", Budget(seconds=3600)),
        ("100,30s", Budget(builds=100, seconds=30)),
        ("30s, 100 builds", Budget(builds=100, seconds=30)),
    ],
)
def test_budgets_parse(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "ten",
        "-3",
        "1.5",
        "1.5b",
        "5d",
        "0",
        "0s",
        "1,2",
        "1s,2m",
        "1e3",
        "9" * 5000,
        "nan",
    ],
)  # fmt: skip
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Budget.parse(text)
    assert caught.value.hint


@given(st.text(alphabet="0123456789.,bsmh ul-", max_size=12))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        budget = Budget.parse(text)
    except UsageError:
        return
    assert (budget.builds or budget.seconds or 0) > 0


@given(st.integers(1, 10**6) | st.none(), st.integers(1, 10**5) | st.none())
def test_a_budget_is_printed_as_it_is_read(builds: int | None, seconds: int | None) -> None:
    budget = Budget(builds, seconds)
    if builds is None and seconds is None:
        assert str(budget) == "no limit"
    else:
        assert Budget.parse(str(budget)) == budget


def test_a_failure_never_wins() -> None:
    good = Outcome("a", Measurement(10, "bytes"))
    bad = Outcome("b", failure=Failure.CRASH, reason="SIGSEGV")
    worse = Outcome("c", Measurement(1, "bytes"), failure=Failure.REJECTED)
    assert min([bad, worse, good], key=lambda outcome: outcome.value) is good
    assert good.ok and not bad.ok and not worse.ok
    assert bad.value == worse.value == math.inf


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outcome("a").recipe = "b"  # type: ignore[misc]


def test_verdicts_read_as_text() -> None:
    assert str(Verdict(Grade.PROVED)) == "proved"
    assert str(Verdict(Grade.TESTED, "on 100 inputs")) == "tested on 100 inputs"
    assert str(Verdict(Grade.PROVED_TO_BOUND, "8")) == "proved to bound 8"


def test_the_ledger_counts_failures_of_all_kinds() -> None:
    assert Ledger(failures={"crash": 2, "timeout": 1}).rejected == 3
    assert Ledger().rejected == 0


def test_digests_separate_their_parts() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    assert digest("é") == digest("é".encode())
    assert len(digest()) == 32
