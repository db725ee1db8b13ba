"""The learned policy's decoders, and what a long search reaches, on held-out programs.

Priority Sampling, beam search, temperature and nucleus sampling draw from one model under one
grammar; each builds its samples in its own order, at equal numbers of builds (a sample that was
drawn before counts as nothing). Beside them: the policy `learned`, which orders the samples by what
the model expects and takes outcomes into account, and, with `--search`, genetic search at a large
budget, started from nothing: how much of its gain so many builds reach. Only recipes for whole
modules are compared; suffixes for functions are left out. Prints the mean gain over -Oz.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import common

from planish.base.records import Budget, Outcome
from planish.llvm.requests import UNITS
from planish.model.policy_net import load
from planish.search.decoding import Sample as Drawn
from planish.search.decoding import Tree, beam, greedy, sampled
from planish.search.genetic import GeneticPolicy
from planish.search.loop import run
from planish.search.priority import priority_samples
from planish.search.protocol import Best, Plan, Policy
from planish.search.streamed import StreamPolicy
from planish.store.store import Store
from planish.tune.label import Clock
from planish.tune.learn_coreset import make_space
from planish.tune.learned import RecipeDecoder, advised, describe, load_net
from planish.tune.pass_space import PassSpace
from planish.tune.samples import draw, make_samples
from planish.tune.session import Session
from planish.tune.winners import Sample

_BUDGETS = (1, 5, 10, 32, 100)
# Samples asked of a decoder that draws by chance, for each that is wanted.
_DRAWS = 50

_DECODERS: dict[str, Callable[[Tree, int, int], Iterator[Drawn]]] = {
    "priority": lambda tree, count, seed: priority_samples(tree),
    "greedy": lambda tree, count, seed: iter([greedy(tree)]),
    "beam": lambda tree, count, seed: iter(beam(tree, count)),
    "temperature 1": lambda tree, count, seed: islice(sampled(tree, seed=seed), count * _DRAWS),
    "temperature 0.5": lambda tree, count, seed: islice(
        sampled(tree, temperature=0.5, seed=seed), count * _DRAWS
    ),
    "nucleus 0.9": lambda tree, count, seed: islice(
        sampled(tree, nucleus=0.9, seed=seed), count * _DRAWS
    ),
}


def main() -> None:
    given = _arguments()
    most = max(given.budgets)
    clock = Clock(given.seconds)
    gains: dict[str, list[list[float]]] = {}
    searched: list[float] = []
    with Session(jobs=given.jobs, store=Store.open_default()) as session:
        modules = draw(
            given.corpus, "held-out", given.modules, given.seed,
            smallest=given.smallest, largest=given.largest,
        )  # fmt: skip
        _, space = make_space(session, "X86", given.goal)
        net = load(given.net) if given.net else load_net("X86", given.goal)
        samples = make_samples(
            session, given.corpus, modules, "X86", given.goal, space.start, print
        )
        for at, sample in enumerate(samples):
            if clock.up:
                break
            looks = describe(session.pool, sample.job)
            for name, decode in _DECODERS.items():
                decoder = RecipeDecoder(net, space, looks)
                drawn = decode(Tree(decoder), most, given.seed)
                plans = (decoder.grammar.plan(each.tokens) for each in drawn)
                policy = StreamPolicy(plan for plan in plans if plan != space.start)
                gains.setdefault(name, []).append(_curve(sample, space, policy, given.budgets))
            made = advised(net, space, looks)
            gains.setdefault("learned", []).append(_curve(sample, space, made, given.budgets))
            if given.search:
                genetic = GeneticPolicy(space, given.seed)
                curve = _curve(sample, space, genetic, [given.search])
                searched.append(curve[0])
            print(f"{at + 1} of {len(samples)}: {sample.name}", flush=True)
    _show(gains, searched, given)


def _curve(sample: Sample, space: PassSpace, policy: Policy, budgets: Sequence[int]) -> list[float]:
    """Percent saved after each number of builds."""
    values: list[float] = []

    def watch(plan: Plan, outcome: Outcome, best: Best) -> None:
        values.append(best.value)

    budget = Budget(builds=max(budgets))
    run(space, policy, sample.evaluate, budget, baseline=sample.baseline, watch=watch)
    base = sample.baseline.value
    values = [base, *values]
    return [100 * (1 - values[min(count, len(values) - 1)] / base) for count in budgets]


def _arguments() -> argparse.Namespace:
    options = common.parser(__doc__ or "")
    options.add_argument("--goal", default="size", choices=tuple(UNITS))
    options.add_argument("--net", type=Path, help="a model of planish learn policy; else shipped")
    options.add_argument("--smallest", type=int, default=30, help="instructions")
    options.add_argument("--largest", type=int, default=20_000, help="instructions")
    options.add_argument("--budgets", nargs="+", type=int, default=list(_BUDGETS))
    options.add_argument("--search", type=int, default=0, help="builds of the long search")
    options.add_argument("--seconds", type=float, help="begin no further module then")
    options.add_argument("--json", type=Path, help="write every module's gain to this file")
    return options.parse_args()


def _show(
    gains: dict[str, list[list[float]]], searched: list[float], given: argparse.Namespace
) -> None:
    count = len(next(iter(gains.values()), []))
    rows = [
        (name, *(f"{statistics.fmean(column):.2f} %" for column in zip(*values, strict=True)))
        for name, values in gains.items()
    ]
    title = f"mean gain over -Oz in {given.goal}, {count} held-out modules, by builds"
    common.show(title, ("decoder", *map(str, given.budgets)), rows)
    if searched:
        whole = statistics.fmean(searched)
        means = [statistics.fmean(column) for column in zip(*gains["learned"], strict=True)]
        shares = ", ".join(
            f"{mean / whole:.0%} with {builds}" for mean, builds in zip(means, given.budgets,
                                                                         strict=True)
        )  # fmt: skip
        print(f"genetic at {given.search} builds: {whole:.2f} %; learned reaches {shares}")
    if given.json:
        given.json.write_text(json.dumps({"gains": gains, "searched": searched}, indent=1))


if __name__ == "__main__":
    main()
