"""The environment: an episode builds up a plan, action by action, and each step is measured."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from planish.base.errors import UsageError, unknown
from planish.gym.problem import Problem, Seen, Start
from planish.search.protocol import Plan

REWARDS = ("change", "best", "rate", "log")
Observation = NDArray[np.float32]
Info = dict[str, Any]


@dataclass(frozen=True)
class Episode:
    """A final state, as text that anybody can replay.

    identity  content hash of the task
    recipe    what to build it with
    value     what it measured, `baseline` what there was to beat
    reward    sum of the rewards
    """

    benchmark: str
    identity: str
    recipe: str
    value: float
    baseline: float
    reward: float

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Episode:
        """The inverse of `to_json`; raises UsageError for what is no episode."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise UsageError(f"this is no episode: {error}", hint="see Episode.to_json") from error


class PlanEnv(gymnasium.Env[Observation, np.int64]):
    """Episodes over the tasks of a problem.

    observation  the problem's features of the module (or kernel) as it stands
    action       number of an action, appended to the plan
    reward       `change`: how much smaller this step made the value, as a share of the baseline's;
                 `best`: the same against the best value of the episode so far, never negative;
                 `rate`: the change of the problem's limit over the value (for loops: of GFLOP/s,
                 as a share of the machine's peak); `log`: how much the value's logarithm fell
    An action whose build fails, or that is not legal any more, leaves the state as it was and costs
    `penalty`; `info` says why. An episode is truncated after `max_steps` actions; with `stop` there
    is one action more, the last one, that terminates it, else none does.
    `reset(options={"benchmark": NAME})` chooses a task, else the seed does.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        problem: Problem,
        *,
        max_steps: int = 20,
        reward: str = "change",
        penalty: float = 0.0,
        stop: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if reward not in REWARDS:
            raise unknown("reward", reward, REWARDS)
        if max_steps < 1:
            raise UsageError("an episode has at least one step", hint="max_steps=20")
        self.problem = problem
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(problem.actions) + stop)
        self.observation_space = spaces.Box(
            0.0, problem.highest, (len(problem.features),), np.float32
        )
        self._max_steps = max_steps
        self._reward = reward
        self._penalty = penalty
        self._stop = stop
        self._benchmark = ""
        self._start: Start | None = None
        self._plan = Plan()
        self._seen: Seen | None = None
        self._best = math.inf
        self._steps = 0
        self._total = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin an episode; raises UsageError for a benchmark that there is not."""
        super().reset(seed=seed)
        names = self.problem.benchmarks
        chosen = (options or {}).get("benchmark")
        if chosen is None:
            chosen = names[int(self.np_random.integers(len(names)))]
        elif chosen not in names:
            raise unknown("benchmark", str(chosen), names)
        self._benchmark = chosen
        self._start = start = self.problem.start(chosen)
        if self._reward == "rate" and not start.limit:
            raise UsageError("this problem has no limit to reward a rate by", hint="reward='log'")
        self._plan, self._seen = start.plan, start.seen
        self._best = start.seen.outcome.value
        self._steps, self._total = 0, 0.0
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, Info]:
        """Append an action, build, and measure."""
        if int(action) == len(self.problem.actions) and self._stop:
            return self._observation(), 0.0, True, False, self._info()
        before = self._now().outcome.value
        plan = Plan((*self._plan.actions, self.problem.actions[int(action)]))
        self._steps += 1
        info: Info = {}
        if not self.problem.legal(plan):
            info = {"failure": "invalid", "reason": "the plan would not be legal"}
        else:
            seen = self.problem.build(self._benchmark, plan)
            if seen.outcome.failure is None:
                self._plan, self._seen = plan, seen
            else:
                info = {"failure": seen.outcome.failure.value, "reason": seen.outcome.reason}
        after = self._now().outcome.value
        reward = self._gain(before, after) - (self._penalty if info else 0.0)
        self._best = min(self._best, after)
        self._total += reward
        return (
            self._observation(), reward, False, self._steps >= self._max_steps,
            {**self._info(), **info},
        )  # fmt: skip

    def _gain(self, before: float, after: float) -> float:
        start = self._started()
        if self._reward == "rate":
            return start.limit * (1 / after - 1 / before)
        if self._reward == "log":
            return math.log(before / after)
        if self._reward == "best":
            return max(self._best - after, 0.0) / start.baseline
        return (before - after) / start.baseline

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are legal now, shape (actions,); the name that MaskablePPO looks for."""
        plans = (Plan((*self._plan.actions, action)) for action in self.problem.actions)
        return np.array([self.problem.legal(plan) for plan in plans] + [True] * self._stop)

    def episode(self) -> Episode:
        """The state as it stands, to keep and to validate."""
        start, recipe = self._started(), self.problem.recipe(self._plan)
        value = self._now().outcome.value
        return Episode(self._benchmark, start.identity, recipe, value, start.baseline, self._total)

    def validate(self, episode: Episode | None = None) -> list[str]:
        """Replay a state (this one where none is given) from its text; what differs, in words."""
        episode = episode or self.episode()
        if episode.benchmark not in self.problem.benchmarks:
            raise unknown("benchmark", episode.benchmark, self.problem.benchmarks)
        identity, outcome = self.problem.replay(episode.benchmark, episode.recipe)
        if identity != episode.identity:
            return [f"{episode.benchmark} has changed since"]
        if outcome.failure is not None:
            return [f"the replay fails: {outcome.failure.value}: {outcome.reason}"]
        if abs(outcome.value - episode.value) > self.problem.tolerance * episode.value:
            return [f"the replay gives {outcome.value:g}, not {episode.value:g}"]
        return []

    def render(self) -> str | None:
        """The recipe and its value, where the render mode is `ansi`."""
        if self.render_mode != "ansi" or self._start is None:
            return None
        value, baseline = self._now().outcome.value, self._start.baseline
        recipe = self.problem.recipe(self._plan) or "(nothing yet)"
        return f"{self._benchmark}: {value:g} (baseline {baseline:g})\n{recipe}"

    def close(self) -> None:
        """End the workers."""
        self.problem.close()

    def _observation(self) -> Observation:
        clipped = np.clip(self._now().features, 0.0, self.problem.highest)
        return np.asarray(clipped, np.float32)

    def _info(self) -> Info:
        value, start = self._now().outcome.value, self._started()
        return {
            "benchmark": self._benchmark,
            "recipe": self.problem.recipe(self._plan),
            "value": value,
            "best": self._best,
            "baseline": start.baseline,
        }

    def _started(self) -> Start:
        if self._start is None:
            raise UsageError("the episode has not begun", hint="call reset() first")
        return self._start

    def _now(self) -> Seen:
        self._started()
        assert self._seen is not None
        return self._seen
