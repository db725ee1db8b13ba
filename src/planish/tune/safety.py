"""Which elements of a recipe break the user's test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish.llvm.recipe import Recipe

# More culprits than this, and the recipe is not worth saving.
_MOST_CULPRITS = 4


def elements(recipe: Recipe) -> list[str]:
    """The recipe's elements: passes, options and `function NAME: SUFFIX` lines, in order."""
    lines = [f"function {name}: {suffix}" for name, suffix in recipe.functions]
    return [*recipe.passes, *recipe.options, *lines]


def keep(recipe: Recipe, chosen: Sequence[bool]) -> Recipe:
    """The recipe with the chosen elements only; `chosen` is in the order of `elements`."""
    marks = iter(chosen)
    passes = tuple(item for item in recipe.passes if next(marks))
    options = tuple(item for item in recipe.options if next(marks))
    return Recipe(passes, options, tuple(item for item in recipe.functions if next(marks)))


def without(recipe: Recipe, found: Sequence[str]) -> Recipe:
    """The recipe without these elements."""
    return keep(recipe, [element not in found for element in elements(recipe)])


def culprits(recipe: Recipe, passes: Callable[[Recipe], bool]) -> tuple[list[str], int]:
    """Elements without which the test passes, and the number of builds it took to find them.

    Empty when the recipe fails even with no element, or has too many culprits.
    """
    names = elements(recipe)
    found, tried = blame(len(names), lambda marks: passes(keep(recipe, marks)), _MOST_CULPRITS)
    return [names[at] for at in found or []], tried


def blame(
    count: int, passes: Callable[[Sequence[bool]], bool], most: int
) -> tuple[list[int] | None, int]:
    """Which of `count` things a test fails for, by bisection, and the number of tests.

    passes  whether the test passes with the marked things only
    The shortest failing prefix ends in a culprit; it is taken out and the search goes on with the
    rest. None when it fails even with nothing, or with more than `most` culprits.
    """
    chosen = [True] * count
    found: list[int] = []
    tried = 0

    def works(first: int) -> bool:
        nonlocal tried
        tried += 1
        return passes([mark and at < first for at, mark in enumerate(chosen)])

    if not works(0):
        return None, tried
    while not works(count):
        if len(found) == most:
            return None, tried
        good, bad = 0, count
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if works(middle) else (good, middle)
        chosen[bad - 1] = False
        found.append(bad - 1)
    return found, tried
