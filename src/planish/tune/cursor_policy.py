"""Loop nests from a trained network that walks a cursor, by Priority Sampling.

The network scores LoopTune's actions and the end; the grammar is that of the cursor, which comes
to no state twice and ends where the nest is worth a build. Each sample is a nest; what has the
loops of an earlier one is passed over.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.model.mlp import Mlp, load
from planish.search.decoding import Tokens
from planish.search.priority import priority_samples
from planish.search.protocol import Plan
from planish.tune.cursor_limits import CursorLimits
from planish.tune.cursor_space import ACTIONS, LONGEST, CursorSpace, State, act, begin
from planish.tune.cursor_view import FEATURES, CursorView
from planish.tune.stage_shape import Target

_FRUITLESS = 32

SHIPPED = Path(__file__).parent / "data" / "loops-cursor.safetensors"


@functools.lru_cache(maxsize=4)
def load_network(path: Path = SHIPPED) -> Mlp:
    """The shipped network, or another; raises UsageError for one of other features or actions."""
    network = load(path)
    if network.weights[0].shape[1] != len(FEATURES) or len(network.biases[-1]) != len(ACTIONS) + 1:
        raise UsageError(
            f"the network {path} was trained on other features or actions",
            hint="train it anew: planish learn loops",
        )
    return network


class _Reached(NamedTuple):
    """Where a prefix leads, and every state on the way."""

    state: State
    passed: frozenset[State]


class CursorDecoder:
    """The network with its grammar; token n is the n-th of ACTIONS, and the last one the end."""

    end = len(ACTIONS)

    def __init__(self, network: Mlp, space: CursorSpace, target: Target) -> None:
        self._network = network
        self.limits = CursorLimits(space.program, target)
        self._view = CursorView(space.program, target)
        self._stages = {stage.name: stage for stage in space.program.stages}
        first = begin(space.program)
        self._reached: dict[Tokens, _Reached] = {(): _Reached(first, frozenset({first}))}

    def next_logits(self, prefix: Tokens) -> NDArray[np.float32]:
        """Scores of the actions and of the end, shape (len(ACTIONS) + 1,)."""
        return self._network(self._view(self.state(prefix)))

    def legal(self, prefix: Tokens) -> NDArray[np.bool_]:
        """Mask over the tokens."""
        mask = np.zeros(len(ACTIONS) + 1, bool)
        mask[self.end] = self.limits(self.state(prefix))
        if len(prefix) < LONGEST:
            mask[: self.end] = [self._next(prefix, token) for token in range(len(ACTIONS))]
        return mask

    def state(self, prefix: Tokens) -> State:
        """The nest and the cursor after the actions; the prefix has to be legal."""
        if prefix not in self._reached:
            self._next(prefix[:-1], prefix[-1])
        return self._reached[prefix].state

    def _next(self, prefix: Tokens, token: int) -> bool:
        self.state(prefix)
        before = self._reached[prefix]
        after = act(before.state, ACTIONS[token], self._stages)
        if after is None or after in before.passed or not self.limits.may_lead(after):
            return False
        self._reached[*prefix, token] = _Reached(after, before.passed | {after})
        return True


def network_plans(network: Mlp, space: CursorSpace, target: Target) -> Iterator[Plan]:
    """The network's nests, the most confident first, each once; those that can be scheduled.

    They end where so many samples in a row brought none: the network knows no more of this program.
    """
    decoder = CursorDecoder(network, space, target)
    seen = set()
    fruitless = 0
    for sample in priority_samples(decoder):
        state = decoder.state(sample.tokens)
        plan = Plan(tuple(ACTIONS[token] for token in sample.tokens))
        known = state.stages in seen or not plan.actions
        seen.add(state.stages)
        if not known and decoder.limits(state) and space.legal(plan.actions):
            fruitless = 0
            yield plan
        elif (fruitless := fruitless + 1) == _FRUITLESS:
            return
