"""The policy with a model of outcomes: what it builds, what it learns, when it stops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from planish.base.records import Budget, Failure, Measurement, Outcome
from planish.search.advised import AdvisedPolicy
from planish.search.loop import run
from planish.search.protocol import Plan

_LETTERS = "abcdef"


class Sets:
    """Words of different letters."""

    start = Plan(("s",))

    def actions(self, plan: Plan) -> Sequence[str]:
        return _LETTERS

    def legal(self, actions: Sequence[str]) -> bool:
        return len(set(actions)) == len(actions)


class Additive:
    """Expects a plan to gain what its letters were told to gain; an outcome replaces that."""

    def __init__(self, gains: dict[str, float]) -> None:
        self.gains, self.plans, self.seen = gains, list[Plan](), dict[int, float | None]()

    def add(self, plans: Sequence[Plan]) -> Sequence[int]:
        self.plans += plans
        return range(len(self.plans) - len(plans), len(self.plans))

    def see(self, number: int, value: float | None) -> None:
        self.seen[number] = value

    def expected(self, number: int) -> float:
        return -sum(self.gains.get(action, 0.0) for action in self.plans[number].actions)

    def choose(self, numbers: Sequence[int], count: int, least: float) -> Sequence[int]:
        best = min([0.0, *(value for value in self.seen.values() if value is not None)])
        order = sorted(numbers, key=self.expected)
        return [n for n in order if best - self.expected(n) > least][:count]


def _outcome(plan: Plan, lost: dict[str, int]) -> Outcome:
    """100 bytes less what each letter takes away; `f` crashes."""
    if "f" in plan.actions:
        return Outcome(str(plan), failure=Failure.CRASH, reason="SIGSEGV")
    value = 100.0 - sum(lost.get(action, 0) for action in plan.actions)
    return Outcome(str(plan), Measurement(value, "bytes", parts={"main": value}))


def _run(policy: AdvisedPolicy, lost: dict[str, int], builds: int) -> tuple[list[Plan], Plan]:
    built: list[Plan] = []

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        built.extend(plans)
        return [_outcome(plan, lost) for plan in plans]

    space = Sets()
    best = run(space, policy, evaluate, Budget(builds=builds), baseline=_outcome(space.start, lost))
    return built, best.plan


# All words of up to three letters, some of them illegal.
_PLANS = [Plan(word) for size in (1, 2, 3) for word in itertools.product(_LETTERS, repeat=size)]


def _policy(gains: dict[str, float], *, feedback: bool = True, least: float = 0.0) -> AdvisedPolicy:
    return AdvisedPolicy(Sets(), Additive(gains), _PLANS, least, feedback=feedback)


def test_it_builds_what_promises_most_and_is_corrected() -> None:
    built, best = _run(_policy({"a": 0.1, "b": 0.06, "c": 0.05}), {"a": 10, "b": 5, "c": 1}, 40)
    assert set(built[0].actions) == set(best.actions) == {"a", "b", "c"}
    assert len(set(built)) == len(built)


def test_without_feedback_nothing_is_told() -> None:
    """The order is the model's own, whatever comes out."""
    gains = {"a": 0.1, "b": 0.05}
    orders = [
        _run(_policy(gains, feedback=False, least=-1.0), lost, 60)[0]
        for lost in ({"a": 10, "b": 5}, {"c": 9}, {})
    ]
    assert orders[0] == orders[1] == orders[2]


def test_what_changed_nothing_is_not_built_again() -> None:
    policy = _policy({"a": 0.1, "b": 0.001, "c": 0.002, "d": 0.0005, "e": 0.0001}, least=-1.0)
    built, _ = _run(policy, {"a": 10, "c": 1}, 200)
    assert policy.inert >= {"b", "d", "e"} and not policy.inert & {"a", "c"}
    # Known to do nothing, a letter is not tried in yet another company.
    with_b = [plan for plan in built if "b" in plan.actions]
    without = [plan for plan in _PLANS if "b" in plan.actions and Sets().legal(plan.actions)]
    assert len(with_b) < len(without) / 2


def test_it_stops_when_no_build_promises_enough() -> None:
    built, _ = _run(_policy({"a": 0.1}, least=0.2), {"a": 10}, 40)
    assert built == []


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from(_LETTERS), st.floats(-0.1, 0.1)),
    st.dictionaries(st.sampled_from(_LETTERS), st.integers(-9, 9)),
    st.integers(1, 30),
)
def test_every_plan_is_legal_and_built_once(
    gains: dict[str, float], lost: dict[str, int], builds: int
) -> None:
    runs = [_run(_policy(gains), lost, builds) for _ in range(2)]
    assert runs[0] == runs[1]
    built, best = runs[0]
    assert len(built) == len(set(built)) <= builds and Sets.start not in built
    assert all(Sets().legal(plan.actions) for plan in built)
    assert _outcome(best, lost).value <= 100.0
