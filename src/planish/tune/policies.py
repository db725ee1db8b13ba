"""Which policies there are for pass recipes, by name, and how a budget is shared among stages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planish.base.errors import unknown
from planish.base.records import Budget
from planish.search.coreset import CoresetPolicy
from planish.search.genetic import GeneticPolicy
from planish.search.greedy import GreedyPolicy
from planish.search.parts import PartsPolicy
from planish.search.protocol import Plan, Policy, Space
from planish.search.random import RandomPolicy
from planish.search.stages import Stages
from planish.tune.coreset import Coreset
from planish.tune.pass_space import usable

POLICIES = ("coreset", "genetic", "greedy", "random")
# Made for one task by the caller, and given to `make_policy`.
GIVEN_POLICIES = ("learned", "llm")

# Shares of the budget, chosen on training modules among some ten splits, which differed little:
# 8 plans, 12 options and 12 suffixes of 32 builds.
_CORESET_SHARE = 0.25
_MOVES_SHARE = 0.375
_PARTS_SHARE = 0.375
_FEWEST_FOR_PARTS = 4
# Up to so many builds the model's recipes gain more than single options and suffixes do.
_LEARNED_ALONE = 12
# From here on the functions get a second round, on top of what they chose in the first.
_TWO_ROUNDS = 30


def make_policy(
    name: str,
    space: Space,
    coreset: Coreset,
    budget: Budget,
    *,
    seed: int = 0,
    functions: bool = True,
    seeds: Sequence[Plan] = (),
    given: Policy | None = None,
) -> Stages:
    """The policy of that name; raises UsageError for an unknown one.

    functions  whether each function may get a suffix of its own
    seeds      plans to try first (the lockfile's)
    given      the policy itself where it was made for one task (`learned`, `llm`)
    """
    if name not in POLICIES and given is None:
        raise unknown("policy", name, POLICIES)
    stages: list[tuple[str, Policy, int | None]] = []
    if seeds:
        stages.append(("lockfile", CoresetPolicy(seeds), len(seeds)))
    builds = budget.builds if budget.builds is not None else 1_000_000
    left = max(builds - len(seeds), 1)
    alone = name == "learned" and builds <= _LEARNED_ALONE
    parts = _parts_share(left) if functions and not alone else 0
    rounds = 2 if parts >= _TWO_ROUNDS else 1
    suffixes = coreset.suffixes[: max(parts // rounds - 1, 0)]
    functions_stage = ("functions", PartsPolicy(space.start, suffixes, rounds=rounds), parts)
    if name in ("coreset", "learned"):
        plans = usable(coreset.plans, space)
        moves = [move for move in coreset.moves if space.legal((move,))]
        first = given or CoresetPolicy(plans)
        stages.append((name, first, left if alone else math.ceil(left * _CORESET_SHARE)))
        stages.append(("options", GreedyPolicy(space, seed, moves), round(left * _MOVES_SHARE)))
        if parts:
            stages.append(functions_stage)
        stages.append(("local", GeneticPolicy(space, seed), None))
        return Stages(stages)
    plain: dict[str, Policy] = {
        "genetic": GeneticPolicy(space, seed),
        "greedy": GreedyPolicy(space, seed),
        "random": RandomPolicy(space, seed),
    }
    stages.append((name, given or plain[name], max(left - parts, 1)))
    if parts:
        stages.append(functions_stage)
    return Stages(stages)


def _parts_share(builds: int) -> int:
    """Builds for suffixes of single functions; fewer than a few choose nothing."""
    share = round(builds * _PARTS_SHARE)
    return share if share >= _FEWEST_FOR_PARTS else 0
