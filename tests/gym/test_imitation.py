"""Lessons from measured nests, what a network learns from them, and training that begins there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from planish.base.errors import UsageError
from planish.base.records import Measurement, Outcome
from planish.gym import teacher
from planish.gym.imitate import examples, imitate
from planish.gym.loops import LoopProblem
from planish.gym.teacher import Lesson, Taught, sampled, searched, teach
from planish.measure.machine import processor
from planish.model.mlp import load
from planish.search.protocol import Plan
from planish.tensor.program import lower
from planish.tune.cursor_policy import load_network, network_plans
from planish.tune.cursor_space import ACTIONS
from planish.tune.kernel_training import matmul, softmax

pytestmark = [
    pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def problem() -> Iterator[LoopProblem]:
    made = LoopProblem({"a": lower([matmul(12, 40, 10)]), "b": lower([softmax(4, 24)])})
    yield made
    made.close()


def test_lessons_are_fast_nests_and_are_kept(problem: LoopProblem, tmp_path: Path) -> None:
    kept, said = tmp_path / "lessons.jsonl", []
    taught = teach(problem, searched(problem, 12, 0), kept, said.append)
    assert [one.benchmark for one in taught] == ["a", "b"] and not said
    for one in taught:
        assert 0 < len(one.lessons) <= 3 and one.best > 0
        assert all(1 <= le.ratio <= 1.03 and problem.space(one.benchmark).legal(le.actions)
                   for le in one.lessons)  # fmt: skip
    made = problem.measure
    problem.measure = None  # type: ignore[method-assign, assignment]  # calling it raises
    assert teach(problem, searched(problem, 12, 0), kept, said.append) == taught
    problem.measure = made  # type: ignore[method-assign]
    kept.write_text("no")
    with pytest.raises(UsageError, match="holds no lessons"):
        teach(problem, searched(problem, 12, 0), kept, said.append)


def test_a_round_keeps_the_fastest_of_the_earlier_lessons_and_the_networks_nests(
    problem: LoopProblem, tmp_path: Path
) -> None:
    seconds = {("down", "swap_down"): 1.0, ("down", "unroll"): 3.0, ("unroll",): 2.0}

    def measure(benchmark: str, plans: list[Plan]) -> list[Outcome]:
        return [
            Outcome("", Measurement(seconds.get(plan.actions, 9.0), "s", {}, (), ""))
            for plan in plans
        ]

    problem.measure = measure  # type: ignore[method-assign, assignment]
    baseline = problem.start("a").baseline
    first = teach(problem, lambda name: {("down", "unroll"): 3.0}, tmp_path / "0", print)
    assert first[0].best == pytest.approx(3.0 / baseline)
    second = teach(problem, lambda name: {("unroll",): 2.0}, tmp_path / "1", print, first)
    assert second[0].lessons == (Lesson(("unroll",), 1.0),)
    third = teach(problem, lambda name: {("unroll", "up"): 9.0}, tmp_path / "2", print, second)
    assert third[0].lessons == second[0].lessons, "what is slower than the known is not learned"
    network = load_network()
    drawn = sampled(problem, network, 5)("a")
    plans = islice(network_plans(network, problem.space("a"), problem.target), 5)
    assert list(drawn) == [plan.actions for plan in plans]


def test_a_program_that_cannot_be_taught_is_left_out(
    problem: LoopProblem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: LoopProblem, benchmark: str, plans: list[Plan]) -> list[object]:
        raise UsageError("it broke")

    monkeypatch.setattr(LoopProblem, "measure", fails)
    said: list[str] = []
    seek = searched(problem, 4, 0)
    assert teach(problem, seek, tmp_path / "lessons.jsonl", said.append) == []
    assert len(said) == 2 and "it broke" in said[0] and not (tmp_path / "lessons.jsonl").exists()
    assert teacher._read(tmp_path / "none") is not None


def test_what_was_imitated_is_done(problem: LoopProblem, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from planish.model.mlp import Mlp

    walk = ["down", "swap_down", "vectorise"]
    taught = [Taught("a", 1.0, (Lesson(tuple(walk), 1.0),))]
    features, labels, weights = examples(taught, problem)
    assert len(labels) == 4 and labels[-1] == len(ACTIONS) and weights.sum() == pytest.approx(4)
    layers = torch.nn.Sequential(
        torch.nn.Linear(features.shape[1], 64), torch.nn.Tanh(), torch.nn.Linear(64, 14)
    )
    first = imitate(layers, features, labels, weights, epochs=1, seed=0)
    last = imitate(layers, features, labels, weights, epochs=1500, seed=0)
    assert last < 0.1 < first
    parts = [layers[0], layers[2]]
    network = Mlp(
        tuple(part.weight.detach().numpy() for part in parts),
        tuple(part.bias.detach().numpy() for part in parts), "tanh", {},
    )  # fmt: skip
    [plan] = islice(network_plans(network, problem.space("a"), problem.target), 1)
    assert list(plan.actions) == walk


def test_training_begins_with_lessons_and_writes_the_better_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("stable_baselines3")
    # stable-baselines3 asks for `gym`'s version when it saves, and would find this folder.
    monkeypatch.setitem(sys.modules, "gym", None)
    from planish.gym.train import TrainSettings, train_loops

    how = {"programs": 1, "groups": ("reduction",), "nests": 8, "trials": 1}
    out, said = tmp_path / "p.safetensors", []
    train_loops(TrainSettings(steps=8, rounds=1, samples=2, **how), out, said.append)
    card = load_network(out).card
    assert card["written"] in card["trials"] and card["nests"] == 8 and card["rounds"] == 1
    assert set(card["trials"]) == {"after imitation", "after round 1", "after PPO"}
    assert sum("imitated 1 programs' nests" in words for words in said) == 2
    assert load(tmp_path / "p.imitation.safetensors").card["lessons"] == 1
    said.clear()
    train_loops(TrainSettings(steps=16, **how), out, said.append)
    assert not any("imitated" in words for words in said), "the agent goes on where it was"
    other = tmp_path / "r.safetensors"
    train_loops(TrainSettings(steps=0, **how), other, said.append)
    assert set(load_network(other).card["trials"]) == {"after imitation"}
    with pytest.raises(UsageError, match="begin with nests"):
        train_loops(TrainSettings(rounds=1), tmp_path / "q", said.append)
    with pytest.raises(UsageError, match="only ppo"):
        train_loops(TrainSettings("dqn", nests=4), tmp_path / "q", said.append)
