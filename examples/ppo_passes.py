"""Train PPO (stable-baselines3) to order passes, and compare it with random search at equal builds.

    pip install 'planish[gym]' stable-baselines3
    python examples/ppo_passes.py --train src/ --test lzss.c --steps 4000

PPO sees `train` only. On each test module it then plays one episode greedily and a few by its
probabilities, as many builds as random search gets; both count the best state that they met. The
last line says how much smaller the modules are than at -Oz, as the geometric mean.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import planish.gym  # noqa: F401 - registers the environments

HERE = Path(__file__).parent


def make(paths: list[Path], arguments: argparse.Namespace) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(
        "planish/Passes-v0", benchmark=paths, goal=arguments.goal, start="baseline",
        reward="best", max_steps=arguments.length,
    )  # fmt: skip


def play(env: gymnasium.Env[Any, Any], name: str, choose: Any) -> tuple[float, float]:
    """The best value of one episode, and the baseline's."""
    observation, info = env.reset(options={"benchmark": name})
    done = False
    while not done:
        observation, _, _, done, info = env.step(choose(observation))
    return info["best"], info["baseline"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, nargs="+", default=[HERE / "lzss.c"])
    parser.add_argument("--test", type=Path, nargs="+", default=[HERE / "lzss.c"])
    parser.add_argument("--goal", default="instructions", help="instructions or size")
    parser.add_argument("--steps", type=int, default=2000, help="builds that PPO trains on")
    parser.add_argument("--length", type=int, default=8, help="actions of an episode")
    parser.add_argument("--episodes", type=int, default=4, help="episodes for each test module")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    train = make(arguments.train, arguments)
    model = PPO(
        "MlpPolicy", train, seed=arguments.seed, n_steps=256, batch_size=64, gamma=1.0,
        ent_coef=0.01, device="cpu", verbose=0,
    )  # fmt: skip
    model.learn(arguments.steps)
    train.close()

    test = make(arguments.test, arguments)
    test.reset(seed=arguments.seed)
    rng = np.random.default_rng(arguments.seed)
    logs: dict[str, list[float]] = {"ppo": [], "random": []}
    print(f"{'module':<32} {'-Oz':>8} {'random':>8} {'ppo':>8}")
    for name in test.unwrapped.problem.benchmarks:  # type: ignore[attr-defined]
        found = {}
        for way in logs:
            values = []
            for episode in range(arguments.episodes):
                if way == "random":
                    best, baseline = play(test, name, lambda _: rng.integers(test.action_space.n))  # type: ignore[attr-defined]
                else:
                    greedy = episode == 0
                    best, baseline = play(
                        test, name, lambda seen, g=greedy: model.predict(seen, deterministic=g)[0]
                    )
                values.append(best)
            found[way] = min(values)
            logs[way].append(math.log(max(found[way], 1.0) / baseline))
        print(f"{Path(name).name:<32} {baseline:8g} {found['random']:8g} {found['ppo']:8g}")
    test.close()
    rows = (f"{way} {1 - math.exp(sum(log) / len(log)):.2%}" for way, log in logs.items())
    print(f"smaller than -Oz at {arguments.episodes * arguments.length} builds: {', '.join(rows)}")


if __name__ == "__main__":
    main()
