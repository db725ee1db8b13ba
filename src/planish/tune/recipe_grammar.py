"""The grammar of recipes: passes and attributes in any order, then options, sorted.

Options have no order, so that of all orders only the sorted one is in the language: no recipe has
two spellings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planish.search.decoding import Tokens
from planish.search.protocol import Plan, Space


class RecipeGrammar:
    """Token 0 is the end, token n the n-th action.

    actions  passes and attributes, then options in sorted order; those that the space has not
             are never legal
    longest  most actions of a recipe
    """

    end = 0

    def __init__(self, space: Space, actions: Sequence[str], longest: int = 12) -> None:
        self.actions = tuple(actions)
        self._longest = longest
        self._known = np.array([space.legal((action,)) for action in actions], bool)
        self._names = np.array([_option_name(action) for action in actions])
        self._is_option = self._names != ""

    def legal(self, prefix: Tokens) -> NDArray[np.bool_]:
        """Mask over the tokens, shape (number of actions + 1,)."""
        mask = np.zeros(len(self.actions) + 1, bool)
        mask[0] = True
        if len(prefix) >= self._longest:
            return mask
        mask[1:] = self._known
        if prefix and self._is_option[prefix[-1] - 1]:
            used = [self._names[token - 1] for token in prefix]
            mask[1 : prefix[-1] + 1] = False
            mask[1:] &= self._is_option & ~np.isin(self._names, used)
        return mask

    def plan(self, tokens: Tokens) -> Plan:
        """What the tokens stand for."""
        return Plan(tuple(self.actions[token - 1] for token in tokens))


def ordered(passes: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Actions in the order that the grammar wants."""
    return (*passes, *sorted(options))


def _option_name(action: str) -> str:
    """Values of one option share a name; passes and attributes have none."""
    return action.partition("=")[0] if action.startswith("-") else ""
