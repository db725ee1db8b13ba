"""Which policies there are for loop schedules, by name."""

from __future__ import annotations

from collections.abc import Callable

from planish.search.genetic import GeneticPolicy
from planish.search.greedy import GreedyPolicy
from planish.search.protocol import Policy
from planish.search.random import RandomPolicy
from planish.tune.loop_space import LoopSpace

_MAKERS: dict[str, Callable[[LoopSpace, int], Policy]] = {
    "genetic": GeneticPolicy,
    "greedy": GreedyPolicy,
    "random": RandomPolicy,
}
POLICIES = tuple(_MAKERS)
DEFAULT = "genetic"


def make_policy(name: str, space: LoopSpace, seed: int) -> Policy:
    """The policy of that name for one program."""
    return _MAKERS[name](space, seed)
