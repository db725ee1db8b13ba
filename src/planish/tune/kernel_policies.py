"""Which policies there are for loop schedules, by name."""

from __future__ import annotations

from collections.abc import Callable

from planish.search.beam import BeamPolicy
from planish.search.genetic import GeneticPolicy
from planish.search.greedy import GreedyPolicy
from planish.search.lookahead import LookaheadPolicy
from planish.search.protocol import Policy
from planish.search.random import RandomPolicy
from planish.search.stages import Stages
from planish.tune.loop_space import LoopSpace


def _genetic(space: LoopSpace, seed: int) -> Policy:
    """Begun with every way to compute statements together: a mutation would rarely meet them."""
    return GeneticPolicy(space, seed, space.fused)


def _cost_model(space: LoopSpace, seed: int) -> Policy:
    """Ranked by the shipped model; what is left when it has no more to suggest is for genetic."""
    from planish.tune.cost_model import load_cost_model
    from planish.tune.cost_policy import CostPolicy

    ranked = CostPolicy(space, seed, load_cost_model())
    return Stages([("cost-model", ranked, None), ("local", _genetic(space, seed), None)])


_MAKERS: dict[str, Callable[[LoopSpace, int], Policy]] = {
    "cost-model": _cost_model,
    "genetic": _genetic,
    "greedy": GreedyPolicy,
    "greedy1": lambda space, seed: LookaheadPolicy(space, seed, depth=1),
    "greedy2": lambda space, seed: LookaheadPolicy(space, seed, depth=2),
    "beam-breadth": BeamPolicy,
    "beam-depth": lambda space, seed: BeamPolicy(space, seed, deep=True),
    "random": RandomPolicy,
}
POLICIES = tuple(_MAKERS)
DEFAULT = "genetic"


def make_policy(name: str, space: LoopSpace, seed: int) -> Policy:
    """The policy of that name for one program."""
    return _MAKERS[name](space, seed)
