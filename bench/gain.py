"""Held-out gain over -Oz: each policy at equal numbers of builds, in bytes or IR instructions.

The modules come from projects that the coreset was never learned from. Every policy starts from
the same baseline and uses the same vocabulary; a build is one recipe built and measured, whatever
came of it; `learned-blind` is `learned` without the compiler's feedback. With `--long N`, what each
reaches of the gain of a genetic search of N builds. Prints mean, median,
quartiles, the share of modules improved and the worst module, and for the shipped policy what each
level of its recipes contributes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import common

from planish.base.records import Budget
from planish.llvm.requests import UNITS
from planish.model.policy_net import load
from planish.search.loop import run
from planish.search.protocol import Best, Plan, Policy
from planish.store.store import Store
from planish.tune.coreset import Coreset, load_coreset
from planish.tune.label import Clock
from planish.tune.learn_coreset import make_space
from planish.tune.learned import advised, describe, load_net
from planish.tune.pass_space import PassSpace
from planish.tune.policies import POLICIES, make_policy
from planish.tune.samples import draw, make_samples
from planish.tune.session import Session
from planish.tune.targets import TARGETS
from planish.tune.winners import Sample

_Case = tuple[str, bool, int]  # policy, whether functions get recipes of their own, builds
_BUDGETS = (1, 5, 10, 32, 100)
_FUNCTIONS = {"both": (True, False), "yes": (True,), "no": (False,)}
_SHOWN = ("coreset", True, 32, "size")  # by levels, too
_MADE = ("learned", "learned-blind")
_LONG = "genetic"  # the policy of the long search: it starts from nothing
_WORDS = {"size": "allocated bytes", "instructions": "IR instructions"}
_LEVELS = ("passes", "attributes", "generator options", "functions")


def main() -> None:
    given = _arguments()
    with Session(jobs=given.jobs, store=Store.open_default()) as session:
        modules = draw(
            given.corpus, given.split, given.modules, given.seed,
            smallest=given.smallest, largest=given.largest,
        )  # fmt: skip
        coreset = load_coreset(given.arch, given.goal)
        _, space = make_space(session, given.arch, given.goal)
        samples = make_samples(
            session, given.corpus, modules, given.arch, given.goal, space.start, print
        )
        gains: dict[_Case, list[float]] = {}
        levels: list[list[float]] = []
        clock = Clock(given.seconds)
        for at, sample in enumerate(samples):
            if clock.up:
                samples = samples[:at]
                break
            for case in _cases(given):
                first = _given(case[0], session, sample, space, given)
                best = _search(sample, space, coreset, *case, given.seed, first)
                gains.setdefault(case, []).append(100 * (1 - best.value / sample.baseline.value))
                if (*case, given.goal) == _SHOWN:
                    levels.append(_levels(sample, best))
            print(f"{at + 1} of {len(samples)}: {sample.name}", flush=True)
    _show(gains, levels, given, len({sample.project for sample in samples}))
    if given.long:
        _show_shares(gains, given.long)
    if given.json:
        rows = {f"{p} {f} {b}": values for (p, f, b), values in gains.items()}
        given.json.write_text(json.dumps(rows, indent=1))


def _cases(given: argparse.Namespace) -> list[_Case]:
    cases = list(itertools.product(given.policies, _FUNCTIONS[given.functions], given.budgets))
    return [*cases, (_LONG, True, given.long)] if given.long else cases


def _arguments() -> argparse.Namespace:
    options = common.parser(__doc__ or "")
    options.add_argument("--arch", default="X86", choices=tuple(TARGETS))
    options.add_argument("--smallest", type=int, default=30, help="instructions")
    options.add_argument("--largest", type=int, default=20_000, help="instructions")
    options.add_argument(
        "--policies", nargs="+", default=[*POLICIES, "learned"], choices=(*POLICIES, *_MADE)
    )
    options.add_argument("--goal", default="size", choices=tuple(UNITS))
    options.add_argument("--net", type=Path, help="a model of planish learn policy; else shipped")
    options.add_argument("--split", default="held-out", help="train: to try out, not to judge")
    options.add_argument("--seconds", type=float, help="stop drawing modules then")
    options.add_argument("--budgets", nargs="+", type=int, default=list(_BUDGETS))
    options.add_argument("--long", type=int, help="also a genetic search of so many builds")
    options.add_argument("--functions", choices=_FUNCTIONS, default="both", help="their recipes")
    options.add_argument("--json", type=Path, help="write every module's gain to this file")
    return options.parse_args()


def _given(
    policy: str, session: Session, sample: Sample, space: PassSpace, given: argparse.Namespace
) -> Policy | None:
    """The policy itself where it is made for one module."""
    if policy not in _MADE:
        return None
    looks = describe(session.pool, sample.job)
    net = load(given.net) if given.net else load_net(given.arch, given.goal)
    return advised(net, space, looks, feedback=policy == "learned")


def _search(
    sample: Sample,
    space: PassSpace,
    coreset: Coreset,
    policy: str,
    functions: bool,
    builds: int,
    seed: int,
    given: Policy | None = None,
) -> Best:
    budget = Budget(builds=builds)
    name = "learned" if policy == "learned-blind" else policy
    made = make_policy(name, space, coreset, budget, seed=seed, functions=functions, given=given)
    return run(space, made, sample.evaluate, budget, baseline=sample.baseline)


def _levels(sample: Sample, best: Best) -> list[float]:
    """Percent of the baseline that each level takes away, one after the other."""
    plan = best.plan
    passes = [a for a in plan.actions if not a.startswith(("@", "-"))]
    attributes = [a for a in plan.actions if a.startswith("@")]
    plans = [
        Plan(tuple(passes)),
        Plan((*passes, *attributes)),
        replace(plan, parts=()),
        plan,
    ]
    values = [sample.baseline.value, *(outcome.value for outcome in sample.evaluate(plans))]
    pairs = itertools.pairwise(values)
    return [100 * (before - after) / values[0] for before, after in pairs]


def _show(
    gains: dict[_Case, list[float]],
    levels: Sequence[Sequence[float]],
    given: argparse.Namespace,
    projects: int,
) -> None:
    count = len(next(iter(gains.values())))
    rows = []
    for (policy, functions, builds), values in sorted(
        gains.items(), key=lambda item: (item[0][2], not item[0][1], item[0][0])
    ):
        low, high = common.interval(values)
        rows.append(
            (
                policy,
                builds,
                "yes" if functions else "no",
                f"{statistics.fmean(values):.2f} % ({low:.2f} to {high:.2f})",
                f"{statistics.median(values):.2f} %",
                f"{sum(value > 0 for value in values) / count:.0%}",
                f"{min(values):.2f} %",
            )
        )
    columns = ("policy", "builds", "functions", "mean (95 %)", "median", "improved", "worst")
    title = (
        f"{given.arch}: gain over -Oz in {_WORDS[given.goal]}, {count} {given.split} modules of "
        f"{projects} projects"
    )
    common.show(title, columns, rows)
    if levels:
        means = [statistics.fmean(column) for column in zip(*levels, strict=True)]
        common.show(
            "coreset at 32 builds: what each level adds to the ones above it, mean",
            ("level", "gain"),
            [(name, f"{mean:.2f} %") for name, mean in zip(_LEVELS, means, strict=True)],
        )


def _show_shares(gains: dict[_Case, list[float]], builds: int) -> None:
    """How much of the mean gain of the long search each policy reaches."""
    whole = statistics.fmean(gains[_LONG, True, builds])
    rows = [
        (policy, count, "yes" if functions else "no", f"{statistics.fmean(values) / whole:.0%}")
        for (policy, functions, count), values in gains.items()
        if count != builds
    ]
    title = f"share of what genetic search gains in {builds:,} builds ({whole:.2f} %)"
    common.show(title, ("policy", "builds", "functions", "share"), rows)


if __name__ == "__main__":
    main()
