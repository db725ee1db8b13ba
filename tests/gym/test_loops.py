"""Loop nests as an environment: Gymnasium's checker, LoopTune's state, both of its rewards."""

from __future__ import annotations

import math
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import planish.gym
from planish.base.errors import UsageError
from planish.gym import Episode, PlanEnv
from planish.measure.machine import processor
from planish.tensor.program import lower
from planish.tune.kernel_training import matmul, softmax

assert planish.gym  # importing it registers the environments

pytestmark = pytest.mark.skipif(processor().vector < 32, reason="not an x86 machine with AVX2")


def make(**given: object) -> PlanEnv:
    programs = {"product": lower([matmul(12, 40, 10)]), "softmax": lower([softmax(4, 24)])}
    made = gymnasium.make(
        "planish/Loops-v0", disable_env_checker=True, programs=programs, **given
    ).unwrapped
    assert isinstance(made, PlanEnv)
    return made


@pytest.fixture(scope="module")
def env() -> Iterator[PlanEnv]:
    made = make()
    yield made
    made.close()


def play(env: PlanEnv, *actions: str) -> tuple[list[float], list[dict], np.ndarray]:
    rewards, infos = [], []
    observation, first = env.reset(seed=0, options={"benchmark": "product"})
    infos.append(first)
    for action in actions:
        number = np.int64(env.problem.actions.index(action))
        observation, reward, _, _, info = env.step(number)
        rewards.append(float(reward))
        infos.append(info)
    return rewards, infos, observation


def test_it_passes_the_checker_of_gymnasium() -> None:
    made = make(max_steps=3)
    check_env(made, skip_render_check=True)
    made.close()


def test_the_state_shows_cursor_sizes_tails_kinds_and_strides(env: PlanEnv) -> None:
    _, _, observation = play(env, "down", "split_16", "down", "down", "unroll")
    names = dict(zip(env.problem.features, observation.tolist(), strict=True))
    cursors = [names[f"loop {at}: cursor"] for at in range(5)]
    assert cursors == [0, 0, 0, 1, 0], "m, n/16, n, k"
    assert names["loop 0: log size"] == pytest.approx(math.log2(12))
    assert names["loop 1: log size"] == pytest.approx(math.log2(3))
    assert names["loop 1: log tail"] == pytest.approx(math.log2(1 + 8)), "40 is 2.5 times 16"
    assert names["loop 3: reduces"] == 1 and names["loop 3: unrolled"] == 1
    # Along n: A stays, B and C move by one element; in blocks by sixteen.
    assert names["loop 2: strides of 2^0"] == 1 and names["loop 2: strides of 2^1"] == 2
    assert names["loop 1: strides of 2^5"] == 2


def test_the_reward_is_the_change_of_the_rate(env: PlanEnv) -> None:
    rewards, infos, _ = play(env, "down", "swap_down", "vectorise", "up")
    assert rewards[0] == 0.0 and rewards[3] == 0.0, "the cursor's walk changes nothing"
    limit = env._started().limit
    first, last = infos[0]["value"], infos[-1]["value"]
    assert sum(rewards) == pytest.approx(limit * (1 / last - 1 / first))
    assert last < first and 0 < sum(rewards) < 1, "vectors are faster than none"
    assert infos[-1]["recipe"] == "reorder out m k n\nvectorise out n".replace("out", "C")


def test_the_other_reward_is_the_logarithm_of_the_time() -> None:
    made = make(reward="log")
    rewards, infos, _ = play(made, "down", "swap_down", "vectorise")
    assert sum(rewards) == pytest.approx(math.log(infos[0]["value"] / infos[-1]["value"]))
    made.close()


def test_what_may_not_be_done_leaves_the_nest_as_it_was(env: PlanEnv) -> None:
    rewards, infos, _ = play(env, "up")
    assert rewards == [0.0] and infos[1]["failure"] == "invalid"
    mask = dict(zip(env.problem.actions, env.action_masks().tolist(), strict=True))
    assert not mask["up"] and not mask["vectorise"] and mask["down"] and mask["split_8"]


def test_an_episode_replays_from_its_text(env: PlanEnv) -> None:
    play(env, "down", "swap_down", "vectorise")
    episode = env.episode()
    assert Episode.from_json(episode.to_json()) == episode
    found = env.validate(episode)
    assert not [words for words in found if "fails" in words or "changed" in words]


def test_passes_have_no_rate(tmp_path) -> None:
    (tmp_path / "f.c").write_text("int f(int x) { return x + 1; }\n")
    made = gymnasium.make(
        "planish/Passes-v0", disable_env_checker=True, benchmark=tmp_path / "f.c", reward="rate"
    )
    with pytest.raises(UsageError, match="no limit"):
        made.reset()
    made.close()
