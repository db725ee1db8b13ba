from __future__ import annotations

import pytest

from planish.base import errors
from planish.base.errors import CompileError, PlanishError, UsageError, unknown


def test_an_error_is_one_line_with_its_hint() -> None:
    assert str(PlanishError("it broke", hint="mend it")) == "it broke (mend it)"
    assert str(PlanishError("it broke")) == "it broke"
    assert CompileError("no", diagnostics="a.c:1: error").diagnostics == "a.c:1: error"


def test_all_errors_have_one_root() -> None:
    kinds = [
        kind for kind in vars(errors).values() if getattr(kind, "__module__", "") == errors.__name__
    ]
    kinds = [k for k in vars(errors).values() if getattr(k, "__module__", "") == errors.__name__]
    kinds = [kind for kind in kinds if isinstance(kind, type)]
    assert len(kinds) > 5
    assert all(issubclass(kind, PlanishError) for kind in kinds)


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("gredy", ["random", "greedy", "beam"], "did you mean greedy?"),
        ("instructoins", ["size", "instructions"], "did you mean instructions?"),
        ("x", ["random", "greedy"], "known: greedy, random"),
        ("x", [f"policy{n:02}" for n in range(20)], "20 are known, for instance policy00, "),
    ],
)
def test_an_unknown_name_lists_near_matches(name: str, choices: list[str], hint: str) -> None:
    error = unknown("policy", name, choices)
    assert isinstance(error, UsageError)
    assert error.message == f"unknown policy '{name}'"
    assert error.hint.startswith(hint)


def test_near_matches_are_at_most_three() -> None:
    error = unknown("pass", "simplify", [f"simplify{n}" for n in range(9)])
    assert error.hint.count("simplify") == 3
