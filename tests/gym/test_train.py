"""Training with stable-baselines3, and the same scores in NumPy as in torch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from planish.base.errors import UsageError
from planish.measure.machine import processor
from planish.model.mlp import Mlp, load, save


@pytest.fixture(autouse=True)
def _no_old_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    """stable-baselines3 asks for `gym`'s version when it saves, and would find this folder."""
    monkeypatch.setitem(sys.modules, "gym", None)


def test_a_network_computes_and_survives_the_disk(tmp_path: Path) -> None:
    weights = (np.array([[1, 0], [0, -1]], np.float32), np.array([[2, 3]], np.float32))
    network = Mlp(weights, (np.zeros(2, np.float32), np.ones(1, np.float32)), "relu", {"a": 1})
    assert network(np.array([2.0, 5.0])).tolist() == [5.0]
    assert network(np.array([[2.0, -5.0]])).tolist() == [[20.0]]
    save(network, tmp_path / "n.safetensors")
    again = load(tmp_path / "n.safetensors")
    assert again.card == {"a": 1} and again(np.array([2.0, -5.0])).tolist() == [20.0]
    (tmp_path / "x").write_text("no")
    with pytest.raises(UsageError, match="cannot read the network"):
        load(tmp_path / "x")


@pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_trained_policy_scores_alike_without_torch(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("stable_baselines3")
    from planish.gym import train

    agents: list[object] = []
    made = train._agent
    monkeypatch.setattr(train, "_agent", lambda *a: agents.append(made(*a)) or agents[-1])
    settings = train.TrainSettings(algorithm, steps=40, programs=2, groups=("reduction", "vector"))
    network = train.train_loops(settings, tmp_path / "p.safetensors", lambda words: None)
    assert load(tmp_path / "p.safetensors").card["algorithm"] == algorithm
    [agent] = agents
    features = np.random.default_rng(0).random((5, network.weights[0].shape[1]))
    chosen, _ = agent.predict(features.astype(np.float32), deterministic=True)  # type: ignore[attr-defined]
    assert network(features).argmax(1).tolist() == chosen.tolist()


@pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")
@pytest.mark.filterwarnings("ignore")
def test_a_training_that_was_stopped_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    from planish.gym.train import TrainSettings, train_loops

    how = {"programs": 1, "groups": ("reduction",)}
    out, said = tmp_path / "p.safetensors", []
    train_loops(TrainSettings("dqn", steps=60, seconds=0.0, **how), out, said.append)
    taken = load(out).card["taken"]
    assert taken < 60 and "run again" in said[-1]
    train_loops(TrainSettings("dqn", steps=60, **how), out, said.append)
    assert 60 <= load(out).card["taken"] < 64 and f"{60 - taken} actions to go" in said[-1]
    (tmp_path / "p.agent.zip").write_text("no")
    with pytest.raises(UsageError, match="is no agent"):
        train_loops(TrainSettings("dqn", steps=60, **how), out, said.append)


def test_an_unknown_algorithm_is_refused(tmp_path: Path) -> None:
    from planish.gym.train import TrainSettings, train_loops

    with pytest.raises(UsageError, match="unknown algorithm"):
        train_loops(TrainSettings("magic"), tmp_path / "p", lambda words: None)
