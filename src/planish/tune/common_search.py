"""A search for recipes that serve many programs at once.

A winner on one program is seldom the best first try on another. Here what is minimised is the
mean over programs of the best size that each has so far, over its baseline's: the first recipe is
the best single one, and each further one adds most to those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from planish.base.hashing import digest
from planish.base.records import Budget, Measurement, Outcome
from planish.search.genetic import GeneticPolicy
from planish.search.loop import run
from planish.search.protocol import Best, Plan
from planish.tune.pass_space import PassSpace, describe
from planish.tune.winners import Sample, Settings, broadcast, cover, minimise

Say = Callable[[str], None]

# Programs that a recipe is built on before it is given up for being this much behind the best.
_CHUNK = 8
_HOPELESS = 0.002
_SEEDS = 24
_EVERY = 50
_MOST = 60  # programs; more cost more than they tell


@dataclass
class _Race:
    """Evaluates recipes on programs, a few programs at a time, and drops those that fall behind.

    held    best size so far over the baseline's, of each sample
    leader  the same with the best recipe so far added
    """

    samples: Sequence[Sample]
    held: list[float]
    leader: list[float]

    def __call__(self, plans: Sequence[Plan]) -> Sequence[Outcome]:
        runners = [_Runner(plan) for plan in plans]
        for at in range(len(self.samples)):
            running = [runner for runner in runners if not runner.hopeless]
            for runner, pair in zip(running, self._shares(at, running), strict=True):
                runner.see(*pair, self.leader[at])
        for runner in runners:
            if len(runner.shares) == len(self.samples) and sum(runner.shares) < sum(self.leader):
                self.leader = runner.shares
        mean = sum(self.leader) / len(self.leader)
        return [
            Outcome(
                describe(runner.plan),
                Measurement(mean + _behind(runner.shares, self.leader), "share"),
                identity=digest(*runner.identities),
            )
            for runner in runners
        ]

    def shares(self, plan: Plan) -> list[float]:
        """With the recipe added, of each sample."""
        return [self._shares(at, [_Runner(plan)])[0][0] for at in range(len(self.samples))]

    def _shares(self, at: int, runners: Sequence[_Runner]) -> list[tuple[float, str]]:
        """What a sample would have with each; what fails gains nothing."""
        sample = self.samples[at]
        outcomes = sample.evaluate([runner.plan for runner in runners])
        ratios = [o.value / sample.baseline.value if o.ok else 1.0 for o in outcomes]
        pairs = zip(ratios, outcomes, strict=True)
        return [(min(self.held[at], ratio), outcome.identity) for ratio, outcome in pairs]


@dataclass
class _Runner:
    """A recipe, and what the first samples would have with it."""

    plan: Plan
    shares: list[float] = field(default_factory=list)
    identities: list[str] = field(default_factory=list)
    behind: float = 0.0
    hopeless: bool = False

    def see(self, share: float, identity: str, leader: float) -> None:
        self.shares.append(share)
        self.identities.append(identity)
        self.behind += share - leader
        if len(self.shares) % _CHUNK == 0:
            self.hopeless = self.behind > _HOPELESS * len(self.shares)


def _behind(shares: Sequence[float], leader: Sequence[float]) -> float:
    """The mean distance, as far as the shares go."""
    return sum(share - lead for share, lead in zip(shares, leader, strict=False)) / len(shares)


class _Watch:
    """Says now and then how far the search for one recipe has come."""

    def __init__(self, what: str, tries: int, say: Say) -> None:
        self._what, self._tries, self._say = what, tries, say
        self._tried = 0

    def __call__(self, plan: Plan, outcome: Outcome, best: Best) -> None:
        self._tried += 1
        if self._tried % _EVERY == 0:
            self._say(
                f"{self._what}: {1 - best.value:.2%} after {self._tried} of {self._tries} tries"
            )


def search_common(
    samples: Sequence[Sample],
    space: PassSpace,
    known: Sequence[Plan],
    settings: Settings,
    say: Say,
) -> Iterator[Plan]:
    """Recipes for all samples, each of which adds most to the earlier ones; until none adds.

    known  recipes to begin with
    """
    if not (samples and settings.common):
        return
    samples = samples[:_MOST]
    seeds = [plan for plan, _ in cover(broadcast(samples, known, say), known, _SEEDS)]
    held = [1.0] * len(samples)
    for number in range(settings.common):
        race = _Race(samples, held, list(held))
        start = Outcome(describe(space.start), Measurement(sum(held) / len(held), "share"))
        policy = GeneticPolicy(space, settings.seed + number, seeds)
        best = run(
            space, policy, race, Budget(builds=settings.tried // (number + 1)), baseline=start
        )
        if best.value >= start.value:
            return
        plan = minimise(race, space, best)
        held = race.shares(plan)
        gain = 1 - sum(held) / len(held)
        words = " ".join(plan.actions)
        say(f"for all, recipe {number + 1}: {gain:.2%} on {len(samples)} programs by {words}")
        yield plan
