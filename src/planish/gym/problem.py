"""What a kind of work brings to the environment: actions, builds and what is seen of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from planish.base.records import Outcome
from planish.search.protocol import Plan


@dataclass(frozen=True)
class Seen:
    """One build, as an agent sees it.

    outcome   what became of the plan
    features  shape (number of features,), each from 0 to `Problem.highest`; of no meaning where
              the build failed
    """

    outcome: Outcome
    features: NDArray[Any]


@dataclass(frozen=True)
class Start:
    """Where an episode begins.

    identity  content hash of the task
    plan      nothing, or the baseline's own plan, and `seen`, its build
    baseline  the value to beat
    limit     no value can be lower: the roofline's seconds; 0 where there is no such limit
    """

    identity: str
    plan: Plan
    seen: Seen
    baseline: float
    limit: float = 0.0


class Problem(Protocol):
    """Tasks of one kind with actions that are the same for all of them.

    benchmarks  names of the tasks, by which `start` finds them
    actions     texts of the actions; number n of the action space is the n-th
    features    names of what is observed
    highest     no feature is larger
    tolerance   how far a replay's value may be from the first one's, as a share of it
    """

    benchmarks: tuple[str, ...]
    actions: tuple[str, ...]
    features: tuple[str, ...]
    highest: float
    tolerance: float

    def start(self, benchmark: str) -> Start:
        """Open a task; raises PlanishError where it cannot be built at all."""

    def build(self, benchmark: str, plan: Plan) -> Seen:
        """Build a plan of a task that was started, in a worker process."""

    def legal(self, plan: Plan) -> bool:
        """Whether the plan may be built."""

    def recipe(self, plan: Plan) -> str:
        """The plan as text that replays."""

    def replay(self, benchmark: str, recipe: str) -> tuple[str, Outcome]:
        """The task's identity and the recipe's outcome, from the text alone, by fresh workers."""

    def close(self) -> None:
        """End the workers."""
