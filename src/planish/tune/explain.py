"""Which elements of a recipe earn which bytes, after the ones that earn none are taken out."""

from __future__ import annotations

from dataclasses import replace

from planish.llvm.recipe import Recipe
from planish.search.protocol import Evaluate
from planish.tune.pass_space import to_plan
from planish.tune.result import Share
from planish.tune.safety import elements, keep


def minimise(recipe: Recipe, evaluate: Evaluate) -> tuple[Recipe, float]:
    """The recipe without elements whose absence costs nothing, and its value.

    One element at a time, the last first, until no single one can be spared: taking out one may
    make another useless. What is kept is never worse than the whole.
    """
    value = _value(recipe, evaluate)
    before = None
    while recipe != before:
        before = recipe
        for at in reversed(range(len(elements(recipe)))):
            shorter = _without(recipe, at)
            if shorter != Recipe():
                left = _value(shorter, evaluate)
                if left <= value:
                    recipe, value = shorter, left
    return recipe, value


def explain(recipe: Recipe, evaluate: Evaluate) -> tuple[Recipe, tuple[Share, ...]]:
    """The minimised recipe, and for each of its elements what would be lost without it.

    The function suffixes are one element here, since each concerns its own function only.
    Elements work together, so the shares need not add up to the whole gain.
    """
    recipe, value = minimise(recipe, evaluate)
    shares = []
    names = [*recipe.passes, *recipe.options]
    for at, name in enumerate(names):
        shorter = _without(recipe, at)
        if shorter != Recipe():
            shares.append(Share(name, _value(shorter, evaluate) - value))
    if recipe.functions:
        plain = replace(recipe, functions=())
        words = f"suffixes of {len(recipe.functions)} functions"
        shares.append(Share(words, _value(plain, evaluate) - value))
    return recipe, tuple(sorted(shares, key=lambda share: -share.gain))


def _without(recipe: Recipe, at: int) -> Recipe:
    marks = [True] * len(elements(recipe))
    marks[at] = False
    return keep(recipe, marks)


def _value(recipe: Recipe, evaluate: Evaluate) -> float:
    return evaluate([to_plan(recipe)])[0].value
