"""Training of a policy over cursor actions with stable-baselines3 (extra `planish[learn]`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planish.base.errors import PlanishError, unknown
from planish.gym.env import PlanEnv
from planish.gym.loops import make_loops
from planish.measure.machine import processor
from planish.model.mlp import Mlp, save

Say = Callable[[str], None]

ALGORITHMS = ("ppo", "dqn")
_ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu"}
_ROLLOUT = 128
_WARM_UP = 100


@dataclass(frozen=True)
class TrainSettings:
    """What to train on, and for how long.

    steps     actions of all episodes together
    programs  how many training programs; `held_out` are identities that must not be among them
    reward    `rate` (GFLOP/s over the peak, LoopTune's) or `log` (of the time)
    """

    algorithm: str = "ppo"
    steps: int = 20_000
    programs: int = 40
    reward: str = "rate"
    seed: int = 0
    held_out: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def train_loops(settings: TrainSettings, out: Path, say: Say) -> Mlp:
    """Train, write the network with its card, and return it; raises PlanishError without SB3."""
    if settings.algorithm not in ALGORITHMS:
        raise unknown("algorithm", settings.algorithm, ALGORITHMS)
    try:
        import stable_baselines3 as sb3
    except ImportError:
        raise PlanishError(
            "training needs stable-baselines3, which is not installed",
            hint="pip install 'planish[learn]'",
        ) from None
    env = make_loops(
        count=settings.programs, seed=settings.seed, held_out=settings.held_out,
        groups=settings.groups, reward=settings.reward,
    )  # fmt: skip
    try:
        agent = _agent(sb3, env, settings)
        say(f"{settings.algorithm}: {settings.steps} actions on {settings.programs} programs")
        agent.learn(total_timesteps=settings.steps)
    finally:
        env.close()
    network = export(agent, _card(env, settings))
    save(network, out)
    return network


def _agent(sb3: Any, env: PlanEnv, settings: TrainSettings) -> Any:
    common = {"seed": settings.seed, "device": "cpu", "verbose": 0}
    if settings.algorithm == "ppo":
        batch = min(_ROLLOUT, settings.steps)
        return sb3.PPO("MlpPolicy", env, n_steps=batch, batch_size=batch // 2 or 1, **common)
    warm = min(_WARM_UP, settings.steps // 2)
    return sb3.DQN("MlpPolicy", env, learning_starts=warm, **common)


def export(agent: Any, card: dict[str, Any]) -> Mlp:
    """The network that scores actions, out of an agent of stable-baselines3."""
    policy = agent.policy
    if hasattr(policy, "q_net"):
        modules: Sequence[Any] = list(policy.q_net.q_net)
    else:
        modules = [*policy.mlp_extractor.policy_net, policy.action_net]
    layers = [module for module in modules if hasattr(module, "weight")]
    between = {type(m).__name__ for m in modules if not hasattr(m, "weight")}
    [name] = between or {"ReLU"}
    weights = tuple(np.array(layer.weight.detach().numpy(), np.float32) for layer in layers)
    biases = tuple(np.array(layer.bias.detach().numpy(), np.float32) for layer in layers)
    return Mlp(weights, biases, _ACTIVATIONS[name], card)


def _card(env: PlanEnv, settings: TrainSettings) -> dict[str, Any]:
    return {
        "what": "scores of cursor actions on a loop nest (planish/Loops-v0)",
        "algorithm": settings.algorithm,
        "steps": settings.steps,
        "reward": settings.reward,
        "programs": list(env.problem.benchmarks),
        "actions": list(env.problem.actions),
        "machine": processor().name,
        "held out": len(settings.held_out),
        "seed": settings.seed,
        "planish": "0.1.0",
    }
