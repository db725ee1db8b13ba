"""Training: two kinds of programs that the features tell apart, learned by both halves."""

from __future__ import annotations

import numpy as np
import pytest

from planish.base.errors import UsageError
from planish.llvm.features import FEATURES, Description
from planish.model.policy_net import NetDecoder, PolicyNet
from planish.model.train import Shape, train
from planish.search.decoding import Tree, greedy

ACTIONS = ("default<O1>", "default<Oz>", "@no-minsize", "-disable-lsr", "-regalloc=basic")
# What serves one kind harms the other; the last two serve nobody.
RECIPES = (
    "passes: default<Oz>\noptions: -disable-lsr",
    "passes: default<O1>,@no-minsize",
    "passes: default<Oz>\noptions: -regalloc=basic",
    "passes: default<O1>",
)
_EFFECTS = np.array([0.1, -0.1, 0.01, 0.01])
_SHAPE = Shape(embedding=2, factors=2, bag=6, state=12, steps=120, best=2, dropout=0.1)


def _world(programs: int) -> tuple[list[Description], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    kind = np.where(np.arange(programs) % 2, 1.0, -1.0)
    looks = []
    for each in kind:
        values = rng.normal(scale=0.3, size=len(FEATURES))
        values[0] = each
        looks.append(Description(tuple(values.tolist()), {(1, 2): 5, (2, 3): int(4 + each)}))
    noise = rng.normal(scale=0.003, size=(programs, 4))
    logs = np.column_stack([-kind * 0.1, kind * 0.1, 0.01 + 0 * kind, 0.01 + 0 * kind])
    return looks, np.exp(logs + noise), kind


class _Free:
    """Any action anywhere, at most three."""

    end = 0

    def __init__(self, net: PolicyNet, looks: Description) -> None:
        self.next_logits = NetDecoder(net, looks).next_logits

    def legal(self, prefix: tuple[int, ...]) -> np.ndarray:
        mask = np.full(len(ACTIONS) + 1, len(prefix) < 3)
        mask[0] = True
        return mask


@pytest.fixture(scope="module")
def trained() -> PolicyNet:
    pytest.importorskip("torch")
    looks, ratios, _ = _world(40)
    ratios[3, 2] = np.nan  # a build that failed
    return train(looks, ratios, RECIPES, ACTIONS, _SHAPE)


def test_each_kind_is_expected_to_gain_by_its_recipe(trained: PolicyNet) -> None:
    looks, ratios, kind = _world(40)
    for each, row, which in zip(looks[:6], np.log(ratios), kind, strict=False):
        expected = trained.expect(each, RECIPES)
        assert int(np.argmin(expected.mean)) == (0 if which > 0 else 1)
        assert np.abs(expected.mean - row).max() < 0.06


def test_the_greedy_decode_is_the_kinds_own_recipe(trained: PolicyNet) -> None:
    looks, _, kind = _world(40)
    for each, which in zip(looks[:6], kind, strict=False):
        tokens = greedy(Tree(_Free(trained, each))).tokens
        assert tokens == ((2, 4) if which > 0 else (1, 3))


def test_the_seed_decides_everything(trained: PolicyNet) -> None:
    looks, ratios, _ = _world(40)
    ratios[3, 2] = np.nan
    again = train(looks, ratios, RECIPES, ACTIONS, _SHAPE)
    assert all(np.array_equal(again.arrays[n], a) for n, a in trained.arrays.items())


def test_an_action_outside_the_vocabulary_is_said() -> None:
    pytest.importorskip("torch")
    looks, ratios, _ = _world(4)
    with pytest.raises(UsageError, match="not in the vocabulary"):
        train(looks, ratios, RECIPES, ACTIONS[:2], _SHAPE)
