"""The space of pass recipes: passes of a module pipeline and options of the code generator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planish.llvm.recipe import Recipe
from planish.search.protocol import Plan, Space

_LONGEST = 24
_SIZE_LEVELS = ("default<Oz>", "default<Os>")


class PassSpace:
    """Actions are module-level pipeline elements and, with a leading dash, generator options.

    start     the baseline's plan, for instance `default<Oz>`
    passes    pipeline elements that may stand anywhere in the pipeline
    options   words such as `-disable-lsr` or `-regalloc=basic`; one value of each name at most
    """

    def __init__(self, start: Plan, passes: Sequence[str], options: Sequence[str]) -> None:
        self._start = start
        self._actions = (*passes, *options)
        self._known = frozenset((*self._actions, *start.actions))

    @property
    def start(self) -> Plan:
        return self._start

    def actions(self, plan: Plan) -> Sequence[str]:
        return self._actions

    def legal(self, actions: Sequence[str]) -> bool:
        names = [_name(action) for action in actions if action.startswith("-")]
        if len(set(names)) < len(names) or len(actions) - len(names) > _LONGEST:
            return False
        return self._known.issuperset(actions)


def to_recipe(plan: Plan) -> Recipe:
    """The recipe that the plan stands for; options are sorted, since their order means nothing."""
    passes = tuple(action for action in plan.actions if not action.startswith("-"))
    options = tuple(sorted(action for action in plan.actions if action.startswith("-")))
    return Recipe(passes, options, plan.parts)


def to_plan(recipe: Recipe) -> Plan:
    """The inverse of `to_recipe`."""
    return Plan((*recipe.passes, *recipe.options), recipe.functions)


def describe(plan: Plan) -> str:
    """The recipe's text, with the probe where it is one: what records know the plan by."""
    text = str(to_recipe(plan))
    return f"{text}\nprobe: {plan.everywhere}" if plan.everywhere else text


def localise(plan: Plan, space: Space) -> Plan:
    """The plan with the baseline's pipeline in the place of levels that this LLVM has not.

    LLVM 23 has no `default<Oz>`; plans that were learned with it mean the baseline's pipeline.
    """
    actions: list[str] = []
    for action in plan.actions:
        missing = action in _SIZE_LEVELS and not space.legal((action,))
        actions += space.start.actions if missing else (action,)
    return plan.acting(actions)


def usable(plans: Iterable[Plan], space: Space) -> list[Plan]:
    """Plans that were learned elsewhere, for this LLVM; those it lacks or that are denied go."""
    return [plan for plan in (localise(p, space) for p in plans) if space.legal(plan.actions)]


def _name(option: str) -> str:
    return option.partition("=")[0]
