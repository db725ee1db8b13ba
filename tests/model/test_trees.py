"""Boosted trees: they fit what there is, predict alike after a round trip, refuse rubbish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planish.base.errors import UsageError
from planish.model.trees import Forest, fit, load, save

_NAMES = ("a", "b", "c")


def _data(count: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    rows = numbers.random((count, 3))
    return rows, np.where(rows[:, 0] > 0.4, 2.0, 0.0) + rows[:, 1] * (rows[:, 0] > 0.4)


def test_they_learn_a_step_and_an_interaction() -> None:
    rows, targets = _data()
    forest = fit(rows, targets, _NAMES, {}, trees=80, depth=4, least=2.0)
    fresh, wanted = _data(seed=1)
    error = np.sqrt(np.mean((forest.predict(fresh) - wanted) ** 2))
    assert error < 0.15 < np.std(wanted)


def test_more_weight_is_more_attention() -> None:
    rows = np.array([[0.0, 0, 0]] * 50 + [[0.0, 0, 0]] * 50)
    targets = np.array([0.0] * 50 + [1.0] * 50)
    weights = np.array([1.0] * 50 + [9.0] * 50)
    assert fit(rows, targets, _NAMES, {}, weights=weights).predict(rows)[0] == pytest.approx(
        0.9, abs=0.01
    )


def test_the_same_seed_gives_the_same_forest() -> None:
    rows, targets = _data()
    one, two = (fit(rows, targets, _NAMES, {}, trees=5, seed=4) for _ in range(2))
    assert np.array_equal(one.value, two.value) and np.array_equal(one.feature, two.feature)


def test_a_forest_survives_the_disk(tmp_path: Path) -> None:
    rows, targets = _data()
    forest = fit(rows, targets, _NAMES, {"what": "a test"}, trees=7)
    save(forest, tmp_path / "f.safetensors")
    again = load(tmp_path / "f.safetensors")
    assert isinstance(again, Forest) and again.card == {"what": "a test"}
    assert again.names == _NAMES and np.array_equal(again.predict(rows), forest.predict(rows))


def test_what_is_no_forest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no")
    for name in ("x", "absent"):
        with pytest.raises(UsageError, match="cannot read the model"):
            load(tmp_path / name)
