"""Training of a policy over cursor actions with stable-baselines3 (extra `planish[learn]`).

PPO first imitates the fastest of many measured nests (`teacher`), then the fastest of its own, in
rounds, then goes on by itself; of these networks the one is written that is better on programs of
another seed (`trial`).
"""

from __future__ import annotations

import contextlib
import functools
import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from planish.base.errors import PlanishError, UsageError, unknown
from planish.base.files import write_atomic
from planish.gym.env import PlanEnv
from planish.gym.imitate import examples, imitate
from planish.gym.loops import LoopProblem, make_loops
from planish.gym.teacher import Taught, sampled, searched, teach
from planish.gym.trial import trial
from planish.measure.machine import processor
from planish.model.mlp import Mlp, load, save
from planish.tune.cursor_space import LONGEST

Say = Callable[[str], None]

ALGORITHMS = ("ppo", "dqn")
_ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu"}
_ROLLOUT = 512
_WARM_UP = 100
_UNITS = [128, 128]
_FINE = 3e-5  # rate of learning that does not undo what was imitated
_EPOCHS = 60
_CRITIC = 4  # one part in so many of the actions is for the critic alone
_PENALTY = 0.02  # of an action that may not be taken


@dataclass(frozen=True)
class TrainSettings:
    """What to train on, and for how long.

    steps     actions of all episodes together
    programs  how many training programs; `held_out` are identities that must not be among them
    seconds   stop after so long; another run with the same `out` goes on from its checkpoint
    reward    `rate` (GFLOP/s over the peak, LoopTune's) or `log` (of the time)
    nests     how many are measured of each program for PPO to imitate the fastest; 0 for none
    rounds    of expert iteration after that: the network's own `samples` nests of each program are
              measured, and the fastest known ones imitated
    trials    programs on which networks are compared
    """

    algorithm: str = "ppo"
    steps: int = 20_000
    programs: int = 40
    reward: str = "rate"
    seed: int = 0
    held_out: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    seconds: float = float("inf")
    nests: int = 0
    rounds: int = 0
    samples: int = 24
    trials: int = 0


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
    if settings.nests and settings.algorithm != "ppo":
        raise UsageError("only ppo can imitate nests", hint="--nests 0")
    if settings.rounds and not settings.nests:
        raise UsageError("rounds begin with nests to imitate", hint="--nests 144")
    env = make_loops(
        count=settings.programs, seed=settings.seed, held_out=settings.held_out,
        groups=settings.groups, reward=settings.reward, stop=True, max_steps=LONGEST,
        penalty=_PENALTY if settings.nests else 0.0,
    )  # fmt: skip
    try:
        imitates = settings.nests > 0 and not _checkpoint(out).exists()
        agent = _begin(sb3, env, settings, _checkpoint(out))
        if imitates:
            _imitate(agent, env, settings, out, say)
        left = max(0, settings.steps - agent.num_timesteps)
        say(f"{settings.algorithm}: {left} actions to go on {settings.programs} programs")
        end = time.monotonic() + settings.seconds
        learn = functools.partial(
            agent.learn, callback=lambda *_: time.monotonic() < end, reset_num_timesteps=False
        )
        if imitates:
            with _frozen(agent):
                learn(left // _CRITIC)
            left = max(0, settings.steps - agent.num_timesteps)
        learn(left)
        held = io.BytesIO()
        agent.save(held)
        write_atomic(_checkpoint(out), held.getvalue())
    finally:
        env.close()
    if agent.num_timesteps < settings.steps:
        say(f"stopped after {agent.num_timesteps} of {settings.steps}; run again to go on")
    network = export(agent, _card(env, settings) | {"taken": agent.num_timesteps})
    if settings.trials:
        network = _better(network, settings, out, say)
    save(network, out)
    return network


def _imitate(agent: Any, env: PlanEnv, settings: TrainSettings, out: Path, say: Say) -> None:
    """The agent, taught what the fastest nests do; each round's network is kept beside `out`."""
    problem = env.problem
    assert isinstance(problem, LoopProblem)
    seek = searched(problem, settings.nests, settings.seed)
    taught: list[Taught] = []
    for number in range(settings.rounds + 1):
        taught = teach(problem, seek, _lessons(out, number), say, taught)
        card = _card(env, settings)
        network = _fitted(agent, problem, taught, settings.seed, card, say)
        save(network, _round(out, number))
        seek = sampled(problem, network, settings.samples)


def _fitted(
    agent: Any, problem: LoopProblem, taught: Sequence[Taught], seed: int, card: dict[str, Any],
    say: Say,
) -> Mlp:  # fmt: skip
    """The agent after these lessons; its network."""
    import torch

    known = examples(taught, problem)
    layers = torch.nn.Sequential(agent.policy.mlp_extractor.policy_net, agent.policy.action_net)
    loss = imitate(layers, *known, epochs=_EPOCHS, seed=seed)
    ahead = round(geometric_mean(1 / one.best for one in taught), 3)
    say(
        f"imitated {len(taught)} programs' nests, {ahead} times as fast as the rules' schedules, "
        f"{len(known[1])} actions: loss {loss:.3f}"
    )
    learned = {"lessons": len(taught), "their nests over the rules'": ahead, "taken": 0}
    return export(agent, card | learned)


@contextlib.contextmanager
def _frozen(agent: Any) -> Iterator[None]:
    """The policy stays as it is; its critic, which imitated nothing, learns what states are worth.

    Advantages over a critic that knows nothing would undo what was imitated.
    """
    layers = (agent.policy.mlp_extractor.policy_net, agent.policy.action_net)
    parameters = [one for layer in layers for one in layer.parameters()]
    for one in parameters:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in parameters:
            one.requires_grad_(True)


def _better(network: Mlp, settings: TrainSettings, out: Path, say: Say) -> Mlp:
    """This network, or one that only imitated, whichever does best on other programs."""
    found = {"after PPO": network} if network.card["taken"] else {}
    for number in range(settings.rounds + 1):
        if _round(out, number).exists():
            name = f"after round {number}" if number else "after imitation"
            found[name] = load(_round(out, number))
    if not found:
        return network
    scores = trial(found, settings.trials, settings.seed + 1, settings.held_out)
    for name, score in scores.items():
        say(f"{name}: {score}")
    best = max(found, key=lambda name: scores[name].speed)
    card = {"trials": {name: str(score) for name, score in scores.items()}, "written": best}
    return replace(found[best], card={**found[best].card, **card})


def _round(out: Path, number: int) -> Path:
    return out.with_suffix(f".round{number}.safetensors" if number else ".imitation.safetensors")


def _lessons(out: Path, number: int) -> Path:
    return out.with_suffix(f".round{number}.jsonl" if number else ".lessons.jsonl")


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
    common: dict[str, Any] = {"seed": settings.seed, "device": "cpu", "verbose": 0}
    if settings.algorithm == "ppo":
        batch = max(4, min(_ROLLOUT, settings.steps))
        if settings.nests:
            common |= {"learning_rate": _FINE, "target_kl": 0.02, "n_epochs": 4}
        return sb3.PPO(
            "MlpPolicy", env, n_steps=batch, batch_size=batch // 2,
            policy_kwargs={"net_arch": _UNITS}, **common,
        )  # fmt: skip
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
        "nests": settings.nests,
        "rounds": settings.rounds,
        "programs": list(env.problem.benchmarks),
        "actions": [*env.problem.actions, "stop"],
        "machine": processor().name,
        "held out": len(settings.held_out),
        "seed": settings.seed,
        "planish": "0.1.0",
    }
