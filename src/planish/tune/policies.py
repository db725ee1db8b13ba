"""Which policies there are for pass recipes, by name, and how a budget is shared among stages."""

from __future__ import annotations

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
from planish.tune.pass_space import localise

POLICIES = ("coreset", "genetic", "greedy", "random")
DEFAULT = "coreset"


def make_policy(
    name: str,
    space: Space,
    coreset: Coreset,
    budget: Budget,
    *,
    seed: int = 0,
    functions: bool = True,
    seeds: Sequence[Plan] = (),
) -> Stages:
    """The policy of that name; raises UsageError for an unknown one.

    functions  whether each function may get a suffix of its own
    seeds      plans to try first (the lockfile's)
    """
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    stages: list[tuple[str, Policy, int | None]] = []
    if seeds:
        stages.append(("lockfile", CoresetPolicy(seeds), len(seeds)))
    builds = budget.builds if budget.builds is not None else 1_000_000
    left = max(builds - len(seeds), 1)
    if name == "coreset":
        plans = [localise(plan, space) for plan in coreset.plans]
        plans = [plan for plan in plans if space.legal(plan.actions)]
        first, parts = _shares(left, len(plans), len(coreset.suffixes), functions)
        stages.append(("coreset", CoresetPolicy(plans), first))
        if parts:
            suffixes = coreset.suffixes[: parts - 1]
            stages.append(("functions", PartsPolicy(space.start, suffixes, rounds=1), parts))
        stages.append(("options", GreedyPolicy(space, seed, coreset.moves), left // 4))
        stages.append(("local", GeneticPolicy(space, seed), None))
        return Stages(stages)
    parts = _parts_share(left, len(coreset.suffixes)) if functions else 0
    rest = max(left - parts, 1)
    plain: dict[str, Policy] = {
        "genetic": GeneticPolicy(space, seed),
        "greedy": GreedyPolicy(space, seed),
        "random": RandomPolicy(space, seed),
    }
    stages.append((name, plain[name], rest))
    if parts:
        suffixes = coreset.suffixes[: parts - 1]
        stages.append(("functions", PartsPolicy(space.start, suffixes, rounds=1), parts))
    return Stages(stages)


def _shares(builds: int, plans: int, suffixes: int, functions: bool) -> tuple[int, int]:
    """Builds for the coreset and for the suffixes."""
    parts = _parts_share(builds, suffixes) if functions else 0
    return max(min(plans, round(builds * 0.4)), 1), parts


def _parts_share(builds: int, suffixes: int) -> int:
    share = min(suffixes + 1, round(builds * 0.35))
    return share if share >= 3 else 0
