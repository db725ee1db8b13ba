"""What every policy owes, on a toy space: legal, unique, deterministic, within the budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planish.base.records import Budget, Failure, Measurement, Outcome
from planish.search.beam import BeamPolicy
from planish.search.coreset import CoresetPolicy
from planish.search.genetic import GeneticPolicy
from planish.search.grammar import ActionGrammar
from planish.search.greedy import GreedyPolicy
from planish.search.lookahead import LookaheadPolicy
from planish.search.loop import run
from planish.search.moves import cross, deletions, extended, mutate, scatter
from planish.search.parts import PartsPolicy
from planish.search.priority import priority_samples
from planish.search.protocol import Best, Plan, Policy
from planish.search.random import RandomPolicy
from planish.search.stages import Stages
from planish.search.streamed import StreamPolicy

LETTERS = "abcdefgh"


class Letters:
    """Words over a few letters in which none stands twice in a row."""

    start = Plan(("a",))

    def actions(self, plan: Plan) -> Sequence[str]:
        return LETTERS

    def legal(self, actions: Sequence[str]) -> bool:
        pairs = itertools.pairwise(actions)
        return len(actions) <= 12 and all(left != right for left, right in pairs)


def score(plan: Plan) -> Outcome:
    """Distance to "abcdefgh" by position; words with "ah" in them crash."""
    word = "".join(plan.actions)
    if "ah" in word:
        return Outcome(word, failure=Failure.CRASH, reason="SIGSEGV")
    value = 20.0 - sum(a == b for a, b in zip(word, LETTERS, strict=False)) + 0.1 * len(word)
    return Outcome(word, Measurement(value, "bytes"), identity=word)


MAKERS: dict[str, Callable[[Letters, int], Policy]] = {
    "random": lambda space, seed: RandomPolicy(space, seed),
    "greedy": lambda space, seed: GreedyPolicy(space, seed),
    "genetic": lambda space, seed: GeneticPolicy(space, seed),
    "beam-breadth": lambda space, seed: BeamPolicy(space, seed),
    "beam-depth": lambda space, seed: BeamPolicy(space, seed, deep=True),
    "lookahead-1": lambda space, seed: LookaheadPolicy(space, seed, depth=1),
    "lookahead-2": lambda space, seed: LookaheadPolicy(space, seed, depth=2),
    "streamed": lambda space, seed: StreamPolicy(
        [Plan(tuple(word)) for word in ("b", "ab", "b", "abc", "abcd")]
    ),
    "stages": lambda space, seed: Stages(
        [
            ("coreset", CoresetPolicy([Plan(("a", "b"))]), 2),
            ("greedy", GreedyPolicy(space, seed), 10),
            ("genetic", GeneticPolicy(space, seed), None),
        ]
    ),
}


def search(name: str, builds: int, seed: int = 0) -> tuple[Best, list[Plan]]:
    space, tried = Letters(), []

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        tried.extend(plans)
        return [score(plan) for plan in plans]

    policy = MAKERS[name](space, seed)
    best = run(space, policy, evaluate, Budget(builds=builds), baseline=score(space.start))
    return best, tried


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=20, deadline=None)
@given(builds=st.integers(1, 60), seed=st.integers(0, 5))
def test_plans_are_legal_unique_repeatable_and_within_the_budget(
    name: str, builds: int, seed: int
) -> None:
    best, tried = search(name, builds, seed)
    assert len(tried) <= builds
    assert all(Letters().legal(plan.actions) for plan in tried)
    assert len(set(tried)) == len(tried)
    assert best.value <= score(Letters.start).value
    assert search(name, builds, seed) == (best, tried)


@pytest.mark.parametrize("name", MAKERS)
def test_a_larger_budget_begins_with_the_same_plans(name: str) -> None:
    assert search(name, 40)[1][:20] == search(name, 20)[1]


@pytest.mark.parametrize("name", ["greedy", "genetic", "stages"])
def test_searches_that_learn_beat_the_baseline_by_far(name: str) -> None:
    best, _ = search(name, 400)
    assert best.value < score(Letters.start).value - 3


def test_the_coreset_is_tried_in_its_order() -> None:
    policy = CoresetPolicy([Plan(("b",)), Plan(("c",))])
    assert policy.suggest(1) == [Plan(("b",))]
    assert policy.suggest(5) == [Plan(("c",))]
    assert not policy.suggest(5)


def test_greedy_stops_when_a_sweep_gains_nothing() -> None:
    space = Letters()
    policy = GreedyPolicy(space, order=["b", "c"])

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        return [Outcome("", Measurement(len(plan.actions), "bytes")) for plan in plans]

    best = run(space, policy, evaluate, Budget(builds=50), baseline=evaluate([space.start])[0])
    assert best.plan == space.start
    assert not policy.suggest(1)


def parts_outcome(sizes: dict[str, float]) -> Outcome:
    return Outcome("", Measurement(sum(sizes.values()), "bytes", parts=sizes))


def test_each_part_keeps_the_choice_that_suits_it() -> None:
    table = {"": {"f": 10, "g": 10}, "x": {"f": 8, "g": 12}, "y": {"f": 11, "g": 7}}

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        outcomes = []
        for plan in plans:
            chosen = dict(plan.parts)
            row = {
                part: table[plan.everywhere or chosen.get(part, "")][part] for part in ("f", "g")
            }
            outcomes.append(parts_outcome(row))
        return outcomes

    space = Letters()
    policy = PartsPolicy(space.start, ["x", "y"])
    best = run(space, policy, evaluate, Budget(builds=9), baseline=evaluate([space.start])[0])
    assert dict(best.plan.parts) == {"f": "x", "g": "y"}
    assert best.value == 15


def test_a_failed_choice_is_never_chosen() -> None:
    space = Letters()
    policy = PartsPolicy(space.start, ["x"])

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        return [Outcome("", failure=Failure.CRASH) for _ in plans]

    best = run(space, policy, evaluate, Budget(builds=9), baseline=parts_outcome({"f": 3}))
    assert best.plan == space.start


def test_a_probe_is_never_kept_and_a_tie_keeps_the_earlier() -> None:
    best = Best(Plan())
    assert best.see(Plan(("a",)), parts_outcome({"f": 3}))
    assert not best.see(Plan(("b",)), parts_outcome({"f": 3}))
    assert not best.see(Plan(("a",), everywhere="x"), parts_outcome({"f": 1}))
    assert best.plan == Plan(("a",))


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 10))
def test_moves_stay_in_the_space(rng: object, steps: int) -> None:
    space = Letters()
    one = scatter(space, space.start, steps, rng)  # type: ignore[arg-type]
    two = mutate(space, one, rng)  # type: ignore[arg-type]
    three = cross(space, one, two, rng)  # type: ignore[arg-type]
    for plan in (one, two, three, *deletions(space, two)):
        assert space.legal(plan.actions)


def test_time_ends_a_search() -> None:
    space = Letters()
    spent = Budget(builds=None, seconds=0.0)
    best = run(space, RandomPolicy(space), lambda plans: [], spent, baseline=score(space.start))
    assert best.plan == space.start


def test_a_stream_is_drawn_as_it_is_asked_for_and_gives_each_plan_once() -> None:
    drawn: list[str] = []

    def letters() -> Iterator[Plan]:
        for letter in itertools.cycle("aabbc"):
            drawn.append(letter)
            yield Plan((letter,))

    policy = StreamPolicy(letters())
    assert [plan.actions for plan in policy.suggest(1)] == [("a",)]
    assert drawn == ["a"]
    policy.observe(Plan(("b",)), score(Plan(("b",))))
    assert [plan.actions for plan in policy.suggest(4)] == [("c",)]
    assert not policy.suggest(4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99))
def test_the_grammar_of_a_space_gives_its_legal_plans(seed: int) -> None:
    space = Letters()
    grammar = ActionGrammar(space, longest=3)

    class Model:
        end, legal = grammar.end, grammar.legal

        def next_logits(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
            return np.random.default_rng([seed, *prefix]).normal(size=len(grammar))

    plans = [grammar.plan(sample.tokens) for sample in priority_samples(Model())]
    words = [word for n in range(4) for word in itertools.product(LETTERS, repeat=n)]
    assert len(plans) == len(set(plans))
    assert {plan.actions for plan in plans} == {word for word in words if space.legal(word)}
    assert all(grammar.plan(grammar.tokens(plan)) == plan for plan in plans)


class Pairs:
    """Sets of the numbers 0 to 5, in order; 4 alone is worse, 4 with 5 is best of all."""

    start = Plan()
    words = tuple("012345")

    def actions(self, plan: Plan) -> Sequence[str]:
        return self.words

    def legal(self, actions: Sequence[str]) -> bool:
        return list(actions) == sorted(set(actions))


def pair_score(plan: Plan) -> Outcome:
    value = 10.0 - 0.5 * ("1" in plan.actions)
    if "4" in plan.actions:
        value += -5.0 if "5" in plan.actions else 0.4
    elif "5" in plan.actions:
        value += 0.3
    return Outcome("".join(plan.actions), Measurement(value, "bytes"), identity=str(plan.actions))


@pytest.mark.parametrize(("depth", "reached"), [(1, 9.5), (2, 4.5)])
def test_looking_two_steps_ahead_finds_what_one_cannot(depth: int, reached: float) -> None:
    space = Pairs()
    policy = LookaheadPolicy(space, 0, depth=depth)
    best = run(
        space, policy, lambda plans: [pair_score(p) for p in plans], Budget(builds=500),
        baseline=pair_score(space.start),
    )  # fmt: skip
    assert best.value == reached


def test_look_ahead_1_takes_the_best_step_of_all() -> None:
    space = Letters()
    policy = LookaheadPolicy(space, 3)
    policy.observe(space.start, score(space.start))
    steps = []
    while len(steps) < 40 and (plans := policy.suggest(4)):
        for plan in plans:
            steps.append(plan)
            policy.observe(plan, score(plan))
    one = [p for p in steps if len(p.actions) <= 2]
    assert {p.actions for p in one} >= {("a", x) for x in "bcdefg"}
    second = next(p for p in steps if len(p.actions) == 3)
    assert "".join(second.actions[:2]) == "ab" or "b" in second.actions


def test_a_beam_in_breadth_keeps_the_best_of_each_length() -> None:
    space = Letters()
    best = run(
        space, BeamPolicy(space, 0, width=2), lambda plans: [score(p) for p in plans],
        Budget(builds=400), baseline=score(space.start),
    )  # fmt: skip
    assert "".join(best.plan.actions).startswith("abcde")


def test_depth_first_reaches_long_plans_sooner_than_breadth_first() -> None:
    space = Letters()

    def score(plan: Plan) -> Outcome:
        return Outcome("", Measurement(20.0 - len(plan.actions), "bytes"))

    def longest(policy: BeamPolicy) -> int:
        policy.observe(space.start, score(space.start))
        seen = 0
        for _ in range(12):
            for plan in policy.suggest(4):
                seen = max(seen, len(plan.actions))
                policy.observe(plan, score(plan))
        return seen

    assert longest(BeamPolicy(space, 0, width=6, deep=True)) > longest(
        BeamPolicy(space, 0, width=6)
    )


def test_an_action_takes_its_place_or_that_of_one_it_excludes() -> None:
    space = Pairs()
    assert extended(space, Plan(("1", "4")), "2") == Plan(("1", "2", "4"))
    assert extended(space, Plan(("1", "4")), "4") is None
    assert extended(space, Plan(("1",)), "4") == Plan(("1", "4"))
