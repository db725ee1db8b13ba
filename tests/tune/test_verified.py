"""What `--verify` keeps: refuted never, undecided functions only as they were."""

from __future__ import annotations

from planish.base.records import Grade, Verdict
from planish.llvm.recipe import Recipe
from planish.tune.finish import sheltering
from planish.tune.verified import Verified
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Report


def _report(**grades: Grade) -> Report:
    return Report(
        tuple(FunctionVerdict(name, Verdict(grade), "too hard") for name, grade in grades.items())
    )


def test_undecided_functions_are_named_until_they_are_sheltered() -> None:
    report = _report(f=Grade.PROVED, g=Grade.UNKNOWN, h=Grade.TESTED)
    open_ = Verified(report, tested=False)
    assert open_.unknown == ["g"]
    assert "1 of 3 functions" in open_.problem and "g: too hard" in open_.problem
    kept = Verified(report, tested=False, sheltered=frozenset({"g"}))
    assert kept.problem == "" and kept.verdict.grade is Grade.TESTED
    assert kept.words == ["functions: 1 proved, 1 tested", "as by default simplification: g"]
    assert Verified(report, tested=True).problem == ""


def test_what_is_refuted_is_never_kept_sheltered_or_not() -> None:
    report = _report(f=Grade.PROVED, g=Grade.REFUTED)
    for sheltered in (frozenset[str](), frozenset({"g"})):
        for tested in (False, True):
            found = Verified(report, tested=tested, sheltered=sheltered)
            assert found.problem.startswith("refuted: g") and found.refuted == ["g"]


def test_a_sheltering_recipe_parses_back() -> None:
    recipe = Recipe(("default<Oz>",), (), (("f", "gvn"), ("g", "sroa")))
    found = sheltering(recipe, ["g"])
    assert found.functions == (("f", "gvn"), ("g", "@baseline"))
    assert Recipe.parse(str(found)) == found
