"""Random changes to plans, shared by the policies that make them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from planish.search.protocol import Plan, Space

_TRIES = 20


def mutate(space: Space, plan: Plan, rng: random.Random) -> Plan:
    """One legal random change: insert, delete, replace or move an action."""
    actions = plan.actions
    for _ in range(_TRIES):
        kind = rng.choice(("insert", "insert", "delete", "replace", "move"))
        changed = _change(kind, list(actions), space.actions(plan), rng)
        if tuple(changed) != actions and space.legal(changed):
            return plan.acting(changed)
    return plan


def cross(space: Space, left: Plan, right: Plan, rng: random.Random) -> Plan:
    """A prefix of one followed by a suffix of the other; `left` where that is not legal."""
    for _ in range(_TRIES):
        head = left.actions[: rng.randint(0, len(left.actions))]
        tail = right.actions[rng.randint(0, len(right.actions)) :]
        if (head or tail) and space.legal((*head, *tail)):
            return left.acting((*head, *tail))
    return left


def scatter(space: Space, plan: Plan, steps: int, rng: random.Random) -> Plan:
    """`steps` random actions inserted at random places."""
    for _ in range(steps):
        actions = list(plan.actions)
        action = rng.choice(space.actions(plan))
        actions.insert(rng.randint(0, len(actions)), action)
        if space.legal(actions):
            plan = plan.acting(actions)
    return plan


def fresh(make: Callable[[], Plan], seen: set[Plan], count: int, tries: int) -> list[Plan]:
    """At most `count` plans that were not seen, now noted as seen; `tries` attempts for each."""
    plans: list[Plan] = []
    for _ in range(count * tries):
        if len(plans) == count:
            break
        plan = make()
        if plan not in seen:
            seen.add(plan)
            plans.append(plan)
    return plans


def extended(space: Space, plan: Plan, action: str) -> Plan | None:
    """The plan with one more action: at its end where that is legal, else where it first is.

    In a space of choices, where an action excludes others, it takes the place of one of them.
    """
    actions = plan.actions
    for at in reversed(range(len(actions) + 1)):
        longer = (*actions[:at], action, *actions[at:])
        if space.legal(longer):
            return plan.acting(longer)
    if action in actions:
        return None
    for at in range(len(actions)):
        changed = (*actions[:at], action, *actions[at + 1 :])
        if space.legal(changed):
            return plan.acting(changed)
    return None


def extensions(space: Space, plan: Plan) -> Iterator[Plan]:
    """The plan extended by each of the space's actions."""
    for action in space.actions(plan):
        longer = extended(space, plan, action)
        if longer is not None:
            yield longer


def deletions(space: Space, plan: Plan) -> Iterator[Plan]:
    """The plan without one of its actions, the last one first."""
    for at in reversed(range(len(plan.actions))):
        rest = (*plan.actions[:at], *plan.actions[at + 1 :])
        if space.legal(rest):
            yield plan.acting(rest)


def _change(kind: str, actions: list[str], choices: Sequence[str], rng: random.Random) -> list[str]:
    if kind == "insert" or not actions:
        actions.insert(rng.randint(0, len(actions)), rng.choice(choices))
        return actions
    at = rng.randrange(len(actions))
    if kind == "delete":
        del actions[at]
    elif kind == "replace":
        actions[at] = rng.choice(choices)
    else:
        action = actions.pop(at)
        actions.insert(rng.randint(0, len(actions)), action)
    return actions
