"""Labels: the table, its reach under a clock, rejected recipes, and what is read back."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from planish.base.errors import UsageError
from planish.base.records import Measurement, Outcome
from planish.llvm.features import Description
from planish.model.labels import TRIED, Labelled, Program, read_labels, write_labels
from planish.model.train import Shape
from planish.search.protocol import Plan
from planish.store.store import Store
from planish.tune import label as labelling
from planish.tune.label import Clock, Labels, label, reject
from planish.tune.learn_coreset import learn_coreset
from planish.tune.learn_policy import learn_policy
from planish.tune.pass_space import PassSpace, describe
from planish.tune.policy_training import prepare
from planish.tune.session import Session
from planish.tune.winners import Sample, Settings

SPACE = PassSpace(Plan(("default<Oz>",)), ("default<O1>", "sroa"), ("-x", "-y"))
_GIVEN = [Plan(("default<O1>",)), Plan(("default<Oz>", "-x"))]
_LOST = {"default<O1>": 1, "sroa": 5, "-x": 3, "-y": 2}


class _Evaluator:
    """100 bytes less what each action takes away; counts its builds."""

    def __init__(self) -> None:
        self.built: list[Plan] = []

    def __call__(self, plans: Sequence[Plan]) -> Sequence[Outcome]:
        self.built += plans
        return [self._one(plan) for plan in plans]

    def _one(self, plan: Plan) -> Outcome:
        value = 100.0 - sum(_LOST.get(action, 0) for action in set(plan.actions))
        beside = {"instructions": value / 2}
        return Outcome(describe(plan), Measurement(value, "bytes", beside=beside))


def _samples(count: int) -> list[Sample]:
    made = []
    for at in range(count):
        evaluate = _Evaluator()
        [baseline] = evaluate([SPACE.start])
        made.append(Sample(f"p{at}/a.c", f"p{at}", evaluate, baseline))
    return made


def _quiet(words: str) -> None:
    pass


def test_winners_are_minimised_and_built_everywhere() -> None:
    samples = _samples(3)
    labels = label(samples, SPACE, _GIVEN, Settings(searched=2, builds=40), Clock(None), _quiet)
    assert labels.searched == (2, 2)
    plans = [plan for plan, _ in labels.plans]
    assert plans[:2] == _GIVEN
    # All four help, and nothing else stays in the winner.
    assert any(set(plan.actions) >= {"sroa", "-x", "-y"} for plan in plans)
    assert all(len(row) == len(plans) for row in labels.outcomes)
    assert labels.reach["built"].startswith("3 of 3 programs")


def test_a_clock_that_is_up_leaves_the_rest_out() -> None:
    samples = _samples(2)
    labels = label(samples, SPACE, _GIVEN, Settings(searched=2), Clock(0.0), _quiet)
    assert labels.searched == (0, 2) and labels.outcomes == ((), ())
    assert labels.reach["built"] == "0 of 2 programs by 2 recipes"


def test_rejected_recipes_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = _samples(1)
    labels = label(samples, SPACE, _GIVEN, Settings(searched=0), Clock(None), _quiet)
    asked: list[Plan] = []

    def judge(subject: object, plan: Plan, pool: object) -> str:
        asked.append(plan)
        return "differs in: $PROGRAM" if "-x" in plan.actions else ""

    class Subject:
        name, blobs = "demo", ("b",)

    monkeypatch.setattr(labelling, "differs", judge)
    with Store(tmp_path / "store.db") as store:
        for _ in range(2):
            judged = reject(labels, [Subject()], None, store, "c", Clock(None), _quiet)  # type: ignore[list-item, arg-type]
            assert judged.rejected == {_GIVEN[1]: "demo: differs in: $PROGRAM"}
            assert judged.checked == 2
        assert sorted(asked, key=str) == sorted(_GIVEN, key=str)  # the second time none
        # Another compiler's verdicts do not count.
        other = reject(labels, [Subject()], None, store, "d", Clock(0.0), _quiet)  # type: ignore[list-item, arg-type]
        assert other.checked == 0 and not other.rejected


def _table(out: Path, programs: int = 8) -> None:
    rows = [
        Program(f"p{at}/a.c", f"{at}", f"p{at % 4}", (100.0, 50.0),
                Description((float(at), 1.0), {(1, 2): at + 1}))
        for at in range(programs)
    ]  # fmt: skip
    recipes = [("passes: default<O1>", "given", ""), ("passes: sroa", TRIED, ""),
               ("passes: default<Oz>\noptions: -x", "p1/a.c", ""),
               ("passes: bad", "given", "demo: differs")]  # fmt: skip
    outcomes = [
        Labelled(at, recipe, 90 + recipe + at, 45 + recipe)
        for at in range(programs) for recipe in (0, 2, 3)
    ]  # fmt: skip
    outcomes += [Labelled(0, 1, 80, 40), Labelled(1, 1, None, None, "crash")]
    words = {"architecture": "X86", "compiler": "LLVM", "searched": "1", "built": "8",
             "checked": "3"}  # fmt: skip
    write_labels(out, rows, recipes, outcomes, words)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    _table(tmp_path)
    table = read_labels(tmp_path, "size")
    # Without the rejected one, and those that all were built by first.
    assert table.recipes == ("passes: default<O1>", "passes: default<Oz>\noptions: -x",
                             "passes: sroa")  # fmt: skip
    assert table.broadcast == 2 and table.ratios.shape == (8, 3)
    assert np.allclose(table.ratios[0], [0.90, 0.92, 0.80])
    assert np.isnan(table.ratios[1, 2])
    assert table.looks[3] == Description((3.0, 1.0), {(1, 2): 4})
    assert read_labels(tmp_path, "instructions").ratios[0, 0] == 0.9
    with pytest.raises(UsageError, match="there is no"):
        read_labels(tmp_path / "none", "size")


def test_actions_that_were_hardly_measured_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    _table(tmp_path)
    training = prepare(read_labels(tmp_path, "size"))
    assert "passes: sroa" not in training.table.recipes
    assert training.actions == ("default<O1>", "default<Oz>", "-x")


def test_the_command_writes_a_model_and_its_card(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    _table(tmp_path)
    out = tmp_path / "policy.safetensors"
    said: list[str] = []
    shape = Shape(embedding=2, factors=1, bag=3, state=4, steps=6)
    learn_policy(tmp_path, "size", out, shape, 2, said.append)
    assert any(words.startswith("learned: ") for words in said)
    card = out.with_suffix(".md").read_text()
    assert "# Recipes for X86, goal size" in card and "| coreset |" in card
    assert "8 of 4 training projects" in card


def test_reach_says_what_is_missing() -> None:
    labels = Labels((), (), (), searched=(3, 60))
    assert labels.reach["searched"] == "3 of 60 programs"


def test_a_coreset_takes_its_plans_from_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    _table(tmp_path / "labels")
    earlier, out = tmp_path / "old.toml", tmp_path / "new.toml"
    earlier.write_text('moves = ["-x"]\nsuffixes = ["sroa"]\nplan = []\n')

    def learn(*files: Path) -> None:
        with Session(jobs=1) as session:
            learn_coreset(
                session, tmp_path, None, "X86", "size", out, Settings(earlier=files), modules=1,
                largest=1, say=_quiet, labels=tmp_path / "labels",
            )  # fmt: skip

    learn(earlier)
    made = tomllib.loads(out.read_text())
    # What a search tried on one program only is no candidate, and no more what adds nothing.
    assert [row["recipe"] for row in made["plan"]] == ["passes: default<O1>"]
    assert made["moves"] == ["-x"] and made["suffixes"] == ["sroa"]
    assert made["source"]["modules"] == 8 and made["source"]["projects"] == ["p0", "p1", "p2", "p3"]
    with pytest.raises(UsageError, match="no options and suffixes"):
        learn()
    for text in ("moves = 3", 'moves = []\nsuffixes = []\n[[plan]]\nrecipe = "?"', "{"):
        earlier.write_text(text)
        with pytest.raises(UsageError, match="cannot read the coreset"):
            learn(earlier)
