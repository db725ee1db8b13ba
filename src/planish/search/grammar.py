"""The grammar of a space: which action may follow which, for decoders over sequences of actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planish.search.decoding import Tokens
from planish.search.protocol import Plan, Space


class ActionGrammar:
    """One token for each action: token 0 is the end, token n the n-th action.

    space    its `legal` decides; a plan that may grow must be legal at every length
    longest  most actions of a plan
    Plans begin with nothing, not with the baseline's actions, which are actions like any other.
    """

    end = 0

    def __init__(self, space: Space, longest: int = 24) -> None:
        self._space = space
        self._longest = longest
        start = space.start
        self.actions = tuple(dict.fromkeys((*start.actions, *space.actions(start))))
        self._numbers = {action: at for at, action in enumerate(self.actions, 1)}

    def __len__(self) -> int:
        return len(self.actions) + 1

    def legal(self, prefix: Tokens) -> NDArray[np.bool_]:
        """Mask over the tokens, shape (number of tokens,)."""
        chosen = self.plan(prefix).actions
        mask = np.zeros(len(self), bool)
        mask[0] = self._space.legal(chosen)
        if len(chosen) < self._longest:
            mask[1:] = [self._space.legal((*chosen, action)) for action in self.actions]
        return mask

    def plan(self, tokens: Tokens) -> Plan:
        """What the tokens stand for."""
        return Plan(tuple(self.actions[token - 1] for token in tokens))

    def tokens(self, plan: Plan) -> Tokens:
        """The inverse of `plan`; raises KeyError for an action that the space has not."""
        return tuple(self._numbers[action] for action in plan.actions)
