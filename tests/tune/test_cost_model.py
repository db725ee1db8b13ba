"""The cost model: what it sees, what ships, what its policy suggests, and that it is learned."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.base.records import Budget, Measurement, Outcome
from planish.measure.machine import processor
from planish.model.trees import Forest, fit, save
from planish.search.loop import run
from planish.search.protocol import Plan
from planish.store.store import Store
from planish.tensor.program import lower
from planish.tune import kernel_training
from planish.tune import learn_kernels as learn
from planish.tune.cost_model import (
    SHIPPED,
    configs_of,
    default_config,
    load_cost_model,
    predict,
    rows_of,
)
from planish.tune.cost_policy import CostPolicy
from planish.tune.kernel_samples import agrees, draw_plans
from planish.tune.kernel_training import (
    GROUPS,
    layernorm,
    matmul,
    shape_identity,
    training_examples,
)
from planish.tune.learn_kernels import KernelSettings, learn_kernels
from planish.tune.loop_features import CHOICES, FEATURES
from planish.tune.loop_space import LoopSpace
from planish.tune.stage_shape import Target

_TARGET = Target(64, 31, 32 << 10, 1 << 20)


def _space(m: int = 96, n: int = 208, k: int = 64) -> LoopSpace:
    return LoopSpace(lower([matmul(m, n, k)]), _TARGET)


def test_features_describe_the_choices() -> None:
    space = _space()
    config = default_config(space, "C")
    other = config.copy()
    other[CHOICES.index("rows")] = 1
    rows = rows_of(space, "C", np.vstack([config, other]))
    assert rows.shape == (2, len(FEATURES)) and np.isfinite(rows).all()
    differs = [FEATURES[at] for at in np.flatnonzero(rows[0] != rows[1])]
    assert {"rows", "results", "loads per operation", "cycles"} <= set(differs)
    assert "log columns length" not in differs
    over = [at for at, name in enumerate(FEATURES) if name.endswith("over the rules'")]
    assert (rows[0, over] == 0).all(), "the rules' choices do not differ from themselves"
    assert rows[0, FEATURES.index("columns left")] == pytest.approx(256 / 208 - 1, abs=0.3)


def test_plans_and_configurations_say_the_same() -> None:
    space = _space()
    found = configs_of(space, ("C pack=2", "C rows=3"))
    assert set(found) == {"C"}
    assert found["C"][CHOICES.index("rows")] == 3 and found["C"][CHOICES.index("pack")] == 2


@pytest.mark.parametrize("group", GROUPS)
def test_every_kind_of_training_program_can_be_described(group: str) -> None:
    for example in training_examples(2, 3, groups=(group,)):
        space = LoopSpace(example.program, _TARGET)
        for stage, rules in space.rules.items():
            if rules.domain():
                rows = rows_of(space, stage, default_config(space, stage)[None])
                assert np.isfinite(rows).all()
        assert draw_plans(space, 3, 0)


def test_a_group_without_new_programs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"few": lambda draw: matmul(64, 64, draw.choice([64, 80])), "many": GROUPS["vector"]}
    monkeypatch.setattr(kernel_training, "GROUPS", few)
    found = [example.group for example in training_examples(7, 0)]
    assert sorted(found) == ["few"] * 2 + ["many"] * 5
    assert len(list(training_examples(7, 0, groups=("few",)))) == 2


def test_held_out_shapes_are_not_learned_from() -> None:
    first = [example.identity for example in training_examples(10, 0)]
    again = [example.identity for example in training_examples(10, 0, held_out=first[:4])]
    assert not set(again) & set(first[:4]) and len(set(again)) == 10
    assert shape_identity(lower([matmul(8, 9, 10)])) == shape_identity(
        lower([matmul(8, 9, 10, transposed=True)])
    ), "the same lengths, however they lie"


def test_the_shipped_model_has_a_card_and_never_saw_a_shape_of_the_bench() -> None:
    forest = load_cost_model()
    assert forest.names == FEATURES and SHIPPED.stat().st_size < 300_000
    card = forest.card
    assert card["programs"] >= 100 and card["schedules"] > 3000 and card["machine"]
    assert len(card["shapes"]) == card["programs"]
    sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
    try:
        import kernel_cases

        held_out = {shape_identity(lower([case.tensor])) for case in kernel_cases.cases()}
    finally:
        sys.path.pop(0)
    assert len(held_out) >= 40 and not held_out & set(card["shapes"])


def test_a_model_of_other_features_is_refused(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((40, 2))
    save(fit(rows, rows[:, 0], ("x", "y"), {}, trees=2), tmp_path / "m.safetensors")
    with pytest.raises(UsageError, match="other features"):
        load_cost_model(tmp_path / "m.safetensors")


def _truth(space: LoopSpace, plan: Plan) -> float:
    """A made-up machine: 3 rows, packing, and nothing else, are good."""
    config = configs_of(space, plan.actions).get("C", default_config(space, "C"))
    rows, pack = config[CHOICES.index("rows")], config[CHOICES.index("pack")]
    return 1.0 + 0.1 * abs(int(rows) - 3) + 0.3 * (pack != 1) + 0.05 * (config[2] != 2)


def _model(space: LoopSpace) -> Forest:
    plans = draw_plans(space, 150, 1)
    base = _truth(space, space.start)
    rows = np.vstack([rows_of(space, "C", configs_of(space, p.actions)["C"][None]) for p in plans])
    targets = np.array([math.log(_truth(space, p) / base) for p in plans])
    return fit(rows, targets, FEATURES, {"error": 0.05}, trees=60, depth=4, least=2.0)


def _search(space: LoopSpace, policy: CostPolicy, builds: int) -> list[float]:
    def outcome(plan: Plan) -> Outcome:
        return Outcome(str(plan.actions), Measurement(_truth(space, plan), "s"))

    curve: list[float] = []
    run(
        space, policy, lambda plans: [outcome(p) for p in plans], Budget(builds=builds),
        baseline=outcome(space.start), watch=lambda p, o, best: curve.append(best.value),
    )  # fmt: skip
    return curve


def test_good_candidates_are_ranked_before_any_is_measured() -> None:
    space = _space()
    curve = _search(space, CostPolicy(space, 0, _model(space)), 4)
    assert curve[-1] <= 1.06


def test_a_model_that_knows_nothing_is_corrected_by_what_is_measured() -> None:
    space = _space()
    silent = fit(np.zeros((40, len(FEATURES))), np.zeros(40), FEATURES, {"error": 0.3}, trees=1)
    curve = _search(space, CostPolicy(space, 0, silent), 80)
    assert curve[-1] <= 1.11 < _truth(space, space.start)


def test_its_plans_are_legal_new_and_the_same_for_the_same_seed() -> None:
    space, forest = _space(), load_cost_model()

    def plans() -> list[Plan]:
        policy = CostPolicy(space, 7, forest)
        policy.observe(space.start, Outcome("", Measurement(1.0, "s")))
        found = []
        for _ in range(6):
            for plan in policy.suggest(4):
                found.append(plan)
                policy.observe(plan, Outcome("", Measurement(1.1, "s")))
        return found

    first = plans()
    assert first == plans() and len({str(space.schedule(p.actions)) for p in first}) == len(first)
    assert all(space.legal(plan.actions) for plan in first)


def test_a_program_of_several_stages_is_searched_in_all_of_them() -> None:
    space, forest = LoopSpace(lower([layernorm(64, 300)]), _TARGET), load_cost_model()
    policy = CostPolicy(space, 0, forest)
    policy.observe(space.start, Outcome("", Measurement(1.0, "s")))
    touched = set()
    for _ in range(20):
        for plan in policy.suggest(4):
            touched |= set(configs_of(space, plan.actions))
            policy.observe(plan, Outcome("", Measurement(1.1, "s")))
    assert touched == {"mean", "variance", "y"}
    predicted = predict(forest, space, "y", default_config(space, "y")[None])
    assert predicted.tolist() == [0.0]


def test_samples_that_contradict_each_other_are_not_learned_from() -> None:
    def outcome(*samples: float) -> Outcome:
        return Outcome("", Measurement(1.0, "s", {}, samples))

    assert agrees(outcome(1.0, 1.01, 1.02)) and not agrees(outcome(0.03, 0.9, 1.0))
    assert not agrees(outcome(1.0, 1.0)), "two say too little"


@pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")
def test_a_model_is_learned_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "_TREES", 4)
    groups = ("reduction", "elementwise", "vector")
    said: list[str] = []
    settings = KernelSettings(programs=10, plans=3, groups=groups)
    with Store.open_default() as store:
        learn_kernels(settings, tmp_path / "m.safetensors", store, said.append)
        assert any("10 of 10" in line for line in said)
        said.clear()
        forest = learn_kernels(settings, tmp_path / "m.safetensors", store, said.append)
    assert not any("of 10" in line for line in said), "nothing is measured twice"
    assert forest.card["programs"] == 10 and set(forest.card["groups"]) == set(groups)
    with Store.open_default() as store, pytest.raises(UsageError, match="too few"):
        learn_kernels(KernelSettings(programs=2, plans=1), tmp_path / "x", store, said.append)


@pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")
def test_the_policy_tunes_a_kernel() -> None:
    found = pl.tune_kernel(matmul(20, 70, 24), budget="8", policy="cost-model", store=False)
    assert found.ledger.policy == "cost-model" and found.ledger.measured == 8
    assert found.best <= found.baseline
