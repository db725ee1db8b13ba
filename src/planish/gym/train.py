"""Training of a policy over cursor actions with stable-baselines3 (extra `planish[learn]`)."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planish.base.errors import PlanishError, UsageError, unknown
from planish.base.files import write_atomic
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
    seconds   stop after so long; another run with the same `out` goes on from its checkpoint
    reward    `rate` (GFLOP/s over the peak, LoopTune's) or `log` (of the time)
    """

    algorithm: str = "ppo"
    steps: int = 20_000
    programs: int = 40
    reward: str = "rate"
    seed: int = 0
    held_out: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    seconds: float = float("inf")


def train_loops(settings: TrainSettings, out: Path, say: Say) -> Mlp:
    """Train, write the network with its card, and return it; raises PlanishError without SB3.

    The agent itself is kept beside it (`OUT.agent.zip`), for a later run to go on with.
    """
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
        agent = _begin(sb3, env, settings, _checkpoint(out))
        left = max(0, settings.steps - agent.num_timesteps)
        say(f"{settings.algorithm}: {left} actions to go on {settings.programs} programs")
        end = time.monotonic() + settings.seconds
        agent.learn(left, callback=lambda *_: time.monotonic() < end, reset_num_timesteps=False)
        held = io.BytesIO()
        agent.save(held)
        write_atomic(_checkpoint(out), held.getvalue())
    finally:
        env.close()
    if agent.num_timesteps < settings.steps:
        say(f"stopped after {agent.num_timesteps} of {settings.steps}; run again to go on")
    network = export(agent, _card(env, settings) | {"taken": agent.num_timesteps})
    save(network, out)
    return network


def _checkpoint(out: Path) -> Path:
    return out.with_suffix(".agent.zip")


def _begin(sb3: Any, env: PlanEnv, settings: TrainSettings, checkpoint: Path) -> Any:
    """The agent of an earlier run, or a new one."""
    if not checkpoint.exists():
        return _agent(sb3, env, settings)
    try:
        held = io.BytesIO(checkpoint.read_bytes())
        return getattr(sb3, settings.algorithm.upper()).load(held, env, device="cpu")
    except (ValueError, KeyError, OSError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"{checkpoint} is no agent that this training can go on with: {error}",
            hint="remove it, or choose another --out",
        ) from error


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
