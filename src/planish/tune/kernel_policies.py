"""Which policies there are for loop schedules, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish.base.records import Outcome
from planish.search.beam import BeamPolicy
from planish.search.genetic import GeneticPolicy
from planish.search.greedy import GreedyPolicy
from planish.search.lookahead import LookaheadPolicy
from planish.search.portfolio import Portfolio
from planish.search.protocol import Plan, Policy
from planish.search.random import RandomPolicy
from planish.search.stages import Stages
from planish.search.streamed import StreamPolicy
from planish.tune.cursor_space import of_cursor
from planish.tune.loop_space import LoopSpace
from planish.tune.nest_policy import NestPolicy
from planish.tune.schedule_space import AllSchedules

_SAMPLES = 12  # of the network; then
_DRAWN = 24  # nests are drawn, before the fastest are changed


def _genetic(space: LoopSpace, seed: int) -> Policy:
    """Begun with every way to compute statements together: a mutation would rarely meet them."""
    return GeneticPolicy(space, seed, space.fused)


def _cost_model(space: LoopSpace, seed: int) -> Policy:
    """Ranked by the shipped model; what is left when it has no more to suggest is for genetic."""
    from planish.tune.cost_model import load_cost_model
    from planish.tune.cost_policy import CostPolicy

    ranked = CostPolicy(space, seed, load_cost_model())
    return Stages([("cost-model", ranked, None), ("local", _genetic(space, seed), None)])


def _network(space: AllSchedules, seed: int) -> Policy:
    """The shipped network's nests by Priority Sampling, and nothing else."""
    from planish.tune.cursor_policy import load_network, network_plans

    return StreamPolicy(network_plans(load_network(), space.cursor, space.target))


def _guided(space: AllSchedules, seed: int) -> Policy:
    """The network's and drawn nests, in turn with the cost model's choices; then changes.

    Which statements are computed together neither knows of: where there are such choices, the
    genetic search, which begins with every one of them, has its turns as well.
    """
    local = NestPolicy(space.cursor, space.target, seed, _DRAWN)
    nests = Stages([("network", _network(space, seed), _SAMPLES), ("local", local, None)])
    choices = [_cost_model(space.choices, seed)]
    if space.choices.fused:
        choices.insert(0, _genetic(space.choices, seed))
    return Portfolio([*map(_OwnPlans, choices), nests])


class _OwnPlans:
    """A policy of the rules' choices that hears of no cursor's plans, of which it knows nothing."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def suggest(self, count: int) -> Sequence[Plan]:
        return self._policy.suggest(count)

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        if not of_cursor(plan.actions):
            self._policy.observe(plan, outcome)


def _of_choices(make: Callable[[LoopSpace, int], Policy]) -> Callable[[AllSchedules, int], Policy]:
    return lambda space, seed: make(space.choices, seed)


_MAKERS: dict[str, Callable[[AllSchedules, int], Policy]] = {
    "guided": _guided,
    "network": _network,
    "nests": lambda space, seed: NestPolicy(space.cursor, space.target, seed, _DRAWN),
    "cost-model": _of_choices(_cost_model),
    "genetic": _of_choices(_genetic),
    "greedy": _of_choices(GreedyPolicy),
    "greedy1": _of_choices(lambda space, seed: LookaheadPolicy(space, seed, depth=1)),
    "greedy2": _of_choices(lambda space, seed: LookaheadPolicy(space, seed, depth=2)),
    "beam-breadth": _of_choices(BeamPolicy),
    "beam-depth": _of_choices(lambda space, seed: BeamPolicy(space, seed, deep=True)),
    "random": _of_choices(RandomPolicy),
}
POLICIES = tuple(_MAKERS)
DEFAULT = "guided"


def make_policy(name: str, space: AllSchedules, seed: int) -> Policy:
    """The policy of that name for one program."""
    return _MAKERS[name](space, seed)
