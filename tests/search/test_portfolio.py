"""Policies side by side: turns, who leads, and what happens to one that has nothing left."""

from __future__ import annotations

from collections.abc import Sequence

from planish.base.records import Measurement, Outcome
from planish.search.portfolio import Portfolio
from planish.search.protocol import Plan


class Counted:
    def __init__(self, name: str, most: int) -> None:
        self.name, self.left = name, most
        self.heard: list[Plan] = []

    def suggest(self, count: int) -> Sequence[Plan]:
        taken = min(count, self.left)
        self.left -= taken
        return [Plan((f"{self.name}{self.left + at}",)) for at in range(taken)]

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self.heard.append(plan)


def outcome(value: float) -> Outcome:
    return Outcome("", Measurement(value, "s", {}))


def names(plans: Sequence[Plan]) -> str:
    return "".join(plan.actions[0][0] for plan in plans)


def test_turns_go_round_and_what_runs_dry_drops_out() -> None:
    a, b = Counted("a", 100), Counted("b", 6)
    portfolio = Portfolio([a, b], turn=4)
    assert names(portfolio.suggest(8)) == "aaaabbbb"
    assert names(portfolio.suggest(12)) == "aaaabbaaaaaa"
    assert names(portfolio.suggest(3)) == "aaa"


def test_the_leader_has_twice_the_turns_and_all_hear_of_all() -> None:
    a, b = Counted("a", 100), Counted("b", 100)
    portfolio = Portfolio([a, b], turn=2)
    plans = portfolio.suggest(4)
    for plan, value in zip(plans, (5.0, 4.0, 3.0, 6.0), strict=True):
        portfolio.observe(plan, outcome(value))
    assert names(plans) == "aabb" and a.heard == b.heard == list(plans)
    assert names(portfolio.suggest(6)) == "aabbbb"


def test_plans_of_two_policies_are_built_once() -> None:
    portfolio = Portfolio([Counted("a", 4), Counted("a", 4)], turn=4)
    assert len(set(portfolio.suggest(8))) == 4 and not portfolio.suggest(8)


def test_nothing_left_is_nothing() -> None:
    assert Portfolio([Counted("a", 0)]).suggest(5) == []
