"""The Gaussian over programs and recipes: what it learns, and what an outcome does to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import UsageError
from planish.base.records import Failure, Measurement, Outcome
from planish.model.ranker import Belief, Ranker, expected_improvement, fit, load, save
from planish.search.expected import ExpectedPolicy
from planish.search.loop import run
from planish.search.protocol import Plan


def _world(programs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two kinds of programs that a feature tells apart: what serves one kind, harms the other."""
    rng = np.random.default_rng(seed)
    kind = np.where(rng.random(programs) < 0.5, 1.0, -1.0)
    features = np.column_stack([kind, rng.normal(size=programs)])
    effects = np.array([0.08, -0.08, 0.03, -0.03, 0.0, 0.0])
    shared = np.array([0.0, 0.0, 0.0, 0.0, -0.02, 0.01])
    noise = rng.normal(scale=0.004, size=(programs, 6))
    return features, np.exp(-kind[:, None] * effects + shared + noise)


def _ranker(factors: int = 2) -> Ranker:
    features, ratios = _world(60, 1)
    return fit(features, ratios, [f"r{at}" for at in range(6)], factors, {"seed": 1})


def test_the_first_choice_is_the_features_and_outcomes_correct_it() -> None:
    ranker = _ranker()
    for kind, best in ((1.0, 0), (-1.0, 1)):
        belief = Belief(ranker, [kind, 0.0], [True] * 6)
        assert belief.choose(1) == [best]
    # A program that looks like one kind and behaves like the other.
    belief = Belief(ranker, [1.0, 0.0], [True] * 6)
    belief.see(0, 1.08)
    belief.see(2, 1.03)
    assert belief.choose(1) == [1]


def test_what_was_tried_or_is_not_legal_is_not_chosen() -> None:
    belief = Belief(_ranker(), [1.0, 0.0], [True, True, False, True, True, True])
    belief.see(0, None)
    seen = {0}
    while chosen := belief.choose(4):
        assert not seen & set(chosen) and 2 not in chosen and len(set(chosen)) == len(chosen)
        for at in chosen:
            belief.see(at, 1.0)
            seen.add(at)
    assert belief.choose(1) == []


def test_choosing_changes_nothing() -> None:
    belief = Belief(_ranker(), [1.0, 0.0], [True] * 6)
    before = belief.predict()
    first = belief.choose(4)
    assert belief.choose(4) == first and belief.choose(2) == first[:2]
    assert all((a == b).all() for a, b in zip(before, belief.predict(), strict=True))
    assert belief.choose(6, least=1.0) == []


def test_a_conditional_is_that_of_the_joint_normal() -> None:
    ranker = _ranker(3)
    covariance = ranker.loadings @ ranker.loadings.T + np.diag(ranker.noise)
    known = [0, 1, 2, 4]  # both features, two recipes
    open_ = [3, 5, 6, 7]
    values = np.array([0.4, -0.2, 0.7, -1.1])
    inner = np.linalg.inv(covariance[np.ix_(known, known)])
    cross = covariance[np.ix_(open_, known)]
    mean = cross @ inner @ values
    spread = np.sqrt(np.diag(covariance[np.ix_(open_, open_)] - cross @ inner @ cross.T))
    raw = values * ranker.scale[known] + ranker.mean[known]
    belief = Belief(ranker, raw[:2].tolist(), [True] * 6)
    belief.see(0, float(np.exp(raw[2])))
    belief.see(2, float(np.exp(raw[3])))
    got_mean, got_spread = belief.predict()
    at = np.array(open_)
    assert np.allclose((got_mean[at - 2] - ranker.mean[at]) / ranker.scale[at], mean)
    assert np.allclose(got_spread[at - 2] / ranker.scale[at], spread)


@given(st.floats(-1, 1), st.floats(0.01, 2), st.floats(-1, 1))
def test_expected_improvement_is_the_integral(mean: float, spread: float, best: float) -> None:
    grid = np.linspace(mean - 9 * spread, mean + 9 * spread, 20001)
    density = np.exp(-0.5 * ((grid - mean) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
    integral = np.trapezoid(np.maximum(best - grid, 0) * density, grid)
    got = expected_improvement(np.array([mean]), np.array([spread]), best)
    assert got[0] == pytest.approx(integral, abs=1e-5)


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(_ranker(), path)
    read, again = load(path), _ranker()
    assert read.recipes == again.recipes and read.card == again.card
    assert np.allclose(read.loadings, again.loadings, atol=1e-6)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(UsageError, match="cannot read the model"):
        load(path)


class _Space:
    start = Plan(("base",))

    def actions(self, plan: Plan) -> tuple[str, ...]:
        return ()

    def legal(self, actions: object) -> bool:
        return True


def test_the_policy_finds_the_best_in_few_builds() -> None:
    features, ratios = _world(20, 7)
    plans = [Plan((f"r{at}",)) for at in range(6)]
    for looks, row in zip(features, ratios, strict=True):
        belief = Belief(_ranker(), looks.tolist(), [True] * 6)
        policy = ExpectedPolicy(_Space.start, plans, belief, 0.0)

        def evaluate(asked: list[Plan], row: np.ndarray = row) -> list[Outcome]:
            found = []
            for plan in asked:
                at = plans.index(plan)
                if at == 5:
                    found.append(Outcome("", failure=Failure.CRASH))
                else:
                    found.append(Outcome("", Measurement(1000 * float(row[at]), "bytes")))
            return found

        from planish.base.records import Budget

        baseline = Outcome("", Measurement(1000.0, "bytes"))
        best = run(_Space(), policy, evaluate, Budget(builds=2), baseline=baseline)  # type: ignore[arg-type]
        assert best.value <= 1000 * row[:5].min() * 1.02
