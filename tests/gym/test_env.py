"""The environment against Gymnasium's own checker, and what its numbers owe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import planish.gym
from planish.base.errors import PlanishError, UsageError
from planish.gym import Episode, PlanEnv
from planish.gym.passes import PassProblem, make_passes
from planish.llvm.recipe import Recipe

DATA = Path(__file__).parents[1] / "data"
LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
SAMPLE = DATA / "sample.c"


def make(**given: object) -> PlanEnv:
    made = gymnasium.make("planish/Passes-v0", **{"benchmark": SAMPLE, **given}).unwrapped  # type: ignore[arg-type]
    assert isinstance(made, PlanEnv)
    return made


@pytest.fixture(scope="module")
def env() -> Iterator[PlanEnv]:
    made = make(benchmark=[SAMPLE, LZSS], max_steps=6, render_mode="ansi")
    yield made
    made.close()


def number(env: PlanEnv, action: str) -> np.int64:
    return np.int64(env.problem.actions.index(action))


def test_it_passes_the_checker_of_gymnasium() -> None:
    made = make(max_steps=5)
    check_env(made)
    made.close()


def test_rewards_add_up_to_the_change_of_the_value(env: PlanEnv) -> None:
    _, first = env.reset(seed=3, options={"benchmark": str(LZSS)})
    total, truncated, infos = 0.0, False, []
    env.action_space.seed(5)
    while not truncated:
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation) and not terminated
        total += reward
        infos.append(info)
    assert len(infos) == 6
    assert total == pytest.approx((first["value"] - infos[-1]["value"]) / first["baseline"])
    assert infos[-1]["best"] == min([first["value"], *(info["value"] for info in infos)])


def test_the_observation_counts_the_instructions(env: PlanEnv) -> None:
    observation, info = env.reset(seed=0, options={"benchmark": str(SAMPLE)})
    assert sum(2.0**observation - 1) == pytest.approx(info["value"], rel=1e-4)
    observation, *_, info = env.step(number(env, "default<Oz>"))
    assert info["value"] == info["baseline"]
    assert sum(2.0**observation - 1) == pytest.approx(info["value"], rel=1e-4)
    names = dict(zip(env.problem.features, observation, strict=True))
    assert names["ret"] > 0 and names["other"] == 0


def test_seeds_repeat_an_episode(env: PlanEnv) -> None:
    def play(seed: int) -> list[object]:
        rows: list[object] = [env.reset(seed=seed)[1]["benchmark"]]
        env.action_space.seed(seed)
        for _ in range(3):
            observation, reward, *_, info = env.step(env.action_space.sample())
            rows.append((observation.tolist(), reward, info["recipe"]))
        return rows

    assert play(1) == play(1)
    assert len({str(play(seed)[0]) for seed in range(8)}) == 2


def test_a_state_is_validated_by_a_replay_from_its_text(env: PlanEnv) -> None:
    env.reset(seed=0, options={"benchmark": str(LZSS)})
    for action in ("default<Oz>", "function(gvn)", "@no-minsize"):
        env.step(number(env, action))
    episode = Episode.from_json(env.episode().to_json())
    assert episode == env.episode()
    assert Recipe.parse(episode.recipe).passes == ("default<Oz>", "function(gvn)", "@no-minsize")
    assert env.validate(episode) == env.validate() == []
    assert "not 1" in env.validate(replace(episode, value=1.0))[0]
    assert "has changed" in env.validate(replace(episode, identity="0"))[0]
    assert "invalid" in env.validate(replace(episode, recipe="passes: nonsense"))[0]
    with pytest.raises(UsageError, match="unknown benchmark"):
        env.validate(replace(episode, benchmark="x.c"))
    with pytest.raises(UsageError, match="no episode"):
        Episode.from_json("[1]")
    assert episode.recipe in (env.render() or "")


class Crashing(PassProblem):
    """Every pass but the baseline is one that LLVM refuses."""

    def __init__(self) -> None:
        super().__init__([SAMPLE])
        self.actions = (*self.actions, "function(no-such-pass)")
        self._space._known |= {"function(no-such-pass)"}


def test_a_failed_build_leaves_the_state_as_it_was() -> None:
    env = PlanEnv(Crashing(), penalty=0.5)
    observation, before = env.reset(seed=0)
    after, reward, *_, info = env.step(number(env, "function(no-such-pass)"))
    assert np.array_equal(observation, after)
    assert (info["failure"], reward, info["value"]) == ("invalid", -0.5, before["value"])
    assert "no-such-pass" in info["reason"] and info["recipe"] == ""
    env.close()


def test_masks_and_length_are_those_of_the_space() -> None:
    env = make(max_steps=30, reward="best", start="baseline")
    env.reset(seed=0)
    assert env.action_masks().all()
    gains = []
    for _ in range(24):
        *_, info = result = env.step(number(env, "function(dce)"))
        gains.append(result[1])
    assert info["failure"] == "invalid" and not env.action_masks().any()
    assert min(gains) >= 0
    env.close()


def test_benchmarks_come_from_files_folders_and_corpora(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    rows = [
        {
            "sha": sha, "project": "p", "split": split, "category": "c", "licence": "MIT",
            "source": "a.c", "flags": [], "instructions": 1, "functions": 1,
        }
        for sha, split in (("a", "train"), ("b", "test"))
    ]  # fmt: skip
    (corpus / "index.json").write_text(
        json.dumps({"modules": rows, "projects": {}, "failed": {}}), encoding="utf-8"
    )
    problem = PassProblem([corpus, LZSS], split="test")
    assert problem.benchmarks == (str(corpus / "modules" / "b.bc"), str(LZSS))
    problem.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"benchmark": "no.c"}, "there is no no.c"),
        ({"benchmark": []}, "no module in nothing"),
        ({"goal": "speed"}, "unknown goal"),
        ({"start": "end"}, "unknown start"),
        ({"reward": "money"}, "unknown reward"),
        ({"max_steps": 0}, "at least one step"),
    ],
)
def test_wrong_arguments_are_one_line(given: dict[str, object], words: str) -> None:
    with pytest.raises(PlanishError, match=words):
        make_passes(**{"benchmark": SAMPLE, **given})  # type: ignore[arg-type]


def test_what_comes_before_reset_is_told(env: PlanEnv) -> None:
    fresh = PlanEnv(env.problem)
    with pytest.raises(UsageError, match="reset"):
        fresh.step(np.int64(0))
    with pytest.raises(UsageError, match="unknown benchmark"):
        env.reset(options={"benchmark": "x.c"})
    assert planish.gym.__all__
