"""The belief over recipes: the conditional of a joint normal, neighbours informed, choices."""

from __future__ import annotations

import numpy as np
import pytest

from planish.model.process import Expected, Process, expected_improvement

_ACTIONS = [("a",), ("a", "b"), ("a", "a"), ("c", "d", "e"), ("c", "d", "f")]


def _prior(seed: int = 0, count: int = 5) -> Expected:
    rng = np.random.default_rng(seed)
    return Expected(
        rng.normal(0, 0.02, count), rng.normal(0, 0.03, (count, 2)), rng.uniform(1e-4, 4e-4, count)
    )


def _process(expected: Expected) -> Process:
    process = Process(0.2)
    assert process.add(expected, _ACTIONS) == range(5)
    return process


def _covariance(expected: Expected) -> np.ndarray:
    apart = np.array([[0, 1, 1, 4, 4], [1, 0, 2, 5, 5], [1, 2, 0, 5, 5],
                      [4, 5, 5, 0, 2], [4, 5, 5, 2, 0]])  # fmt: skip
    spread = np.sqrt(expected.noise)
    return expected.loading @ expected.loading.T + 0.8**apart * np.outer(spread, spread)


def test_a_conditional_is_that_of_the_joint_normal() -> None:
    expected = _prior()
    process, covariance = _process(expected), _covariance(expected)
    mean, spread = process.predict(range(5))
    assert np.allclose(mean, expected.mean) and np.allclose(spread**2, np.diag(covariance))
    values = {0: -0.05, 3: 0.02}
    for number, value in values.items():
        process.see(number, value)
    known, open_ = [0, 3], [1, 2, 4]
    inner, cross = covariance[np.ix_(known, known)], covariance[np.ix_(open_, known)]
    rest = np.array(list(values.values())) - expected.mean[known]
    mean, spread = process.predict(open_)
    assert np.allclose(mean, expected.mean[open_] + cross @ np.linalg.solve(inner, rest), atol=1e-4)
    left = covariance[np.ix_(open_, open_)] - cross @ np.linalg.solve(inner, cross.T)
    assert np.allclose(spread**2, np.diag(left), rtol=1e-2)


def test_recipes_may_be_added_in_any_portions() -> None:
    expected = _prior()
    process = Process(0.2)
    for at in range(5):
        row = Expected(expected.mean[[at]], expected.loading[[at]], expected.noise[[at]])
        assert list(process.add(row, [_ACTIONS[at]])) == [at]
    whole = _process(expected)
    for process_ in (process, whole):
        process_.see(1, -0.03)
    for one, other in zip(process.predict(range(5)), whole.predict(range(5)), strict=True):
        assert np.allclose(one, other)


def test_a_surprise_tells_most_about_the_nearest() -> None:
    expected = _prior()
    plain = Expected(np.zeros(5), np.zeros((5, 2)), expected.noise)
    process = _process(plain)
    process.see(4, -0.1)
    mean, _ = process.predict(range(5))
    assert mean[3] < mean[0] < 0 and mean[3] < mean[1]
    process.see(4, -9.0)  # cut, as in training
    assert process.best == pytest.approx(-0.2)


def test_choices_are_unique_and_change_nothing() -> None:
    process = _process(_prior())
    before = process.predict(range(5))
    chosen = process.choose(range(5), 5)
    assert sorted(set(chosen)) == sorted(chosen) and process.choose(range(5), 2) == chosen[:2]
    assert all(np.array_equal(a, b) for a, b in zip(before, process.predict(range(5)), strict=True))
    process.see(chosen[0], None)
    assert chosen[0] not in process.choose(range(5), 5)
    assert process.choose(range(5), 5, least=1.0) == []


def test_what_is_trusted_less_has_to_promise_more() -> None:
    equal = Expected(np.full(5, -0.01), np.zeros((5, 2)), np.full(5, 1e-4))
    process = Process(0.2)
    process.add(equal, _ACTIONS, np.array([0.5, 0.5, 1.0, 0.5, 0.5]))
    assert process.choose(range(5), 1) == [2]


def test_a_promise_grows_with_the_builds_and_is_no_loss() -> None:
    process = _process(_prior())
    promises = [process.promise(range(5), builds) for builds in (1, 2, 4)]
    assert 0 < promises[0] <= promises[1] <= promises[2] < 0.2
    sure = Expected(np.array([0.1]), np.zeros((1, 2)), np.array([1e-8]))
    hopeless = Process(0.2)
    hopeless.add(sure, [("a",)])
    assert hopeless.promise([0], 3) == 0.0


def test_expected_improvement_is_the_mean_of_what_lies_below() -> None:
    rng = np.random.default_rng(1)
    mean, spread, best = np.array([-0.1, 0.0, 0.2]), np.array([0.05, 0.1, 0.1]), -0.05
    drawn = mean[:, None] + spread[:, None] * rng.standard_normal((3, 200_000))
    below = np.maximum(best - drawn, 0.0).mean(1)
    assert np.allclose(expected_improvement(mean, spread, best), below, atol=2e-3)
