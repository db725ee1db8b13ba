"""A small model of recipes, as it runs: a decoder, and what it expects of a recipe. NumPy only.

Three parts share what the model sees of a program (its features, and the mean of a learned
embedding of its opcode pairs):

- the decoder, a gated recurrent network (1406.1078) over the actions of recipes, says how likely
  each action is to come next in a recipe that serves the program;
- the program's hidden factors are expected to lie where a linear map of what is seen says, so far
  and so sure;
- each recipe has a mean, a loading on those factors and a noise, from the actions it is made of
  and, for recipes that were measured in training, from what was left over there.

The last two give the size after a recipe as one normal vector for all recipes: what is expected
of each before anything is built, and after each outcome (`process.Process`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.llvm.features import Description
from planish.llvm.recipe import Recipe
from planish.model.process import Expected
from planish.search.decoding import Tokens

Floats = NDArray[np.float32]
END = 0
# A program unlike all that were learned from must not throw the prediction off.
FURTHEST = 3.0
# Of the standard deviation of a recipe's log ratio.
LEAST_NOISE = 5e-3

# Name to meaning; d features, e the embedding's width, k factors, w the bag's width, h the
# network's, v actions with the end, m recipes measured in training.
ARRAYS = {
    "feature_mean": "(d,) of the features in training",
    "feature_scale": "(d,)",
    "opcode_first": "(opcodes, e) the embedding of an opcode as the first of a pair",
    "opcode_then": "(opcodes, e) and as the one that follows",
    "prior": "(k, d + e) where the factors are expected",
    "prior_spread": "(k,) and how sure that is, standard deviations",
    "bag": "(v, w) of each action",
    "bag_in": "(w, w)",
    "bag_out": "(w, w)",
    "mean": "(w,)",
    "mean_bias": "(1,)",
    "loading": "(k, w)",
    "noise": "(w,)",
    "noise_bias": "(1,)",
    "known_mean": "(m,) what a known recipe's mean differs by",
    "known_loading": "(m, k)",
    "known_noise": "(m,)",
    "start": "(h, d + e) the network's first state",
    "start_bias": "(h,)",
    "token": "(v, h) each action as the network's input",
    "gates_in": "(3 h, h) reset, update, new",
    "gates_in_bias": "(3 h,)",
    "gates_state": "(3 h, h)",
    "gates_state_bias": "(3 h,)",
    "next": "(v, h)",
    "next_bias": "(v,)",
}


@dataclass(frozen=True)
class PolicyNet:
    """The weights with their vocabulary.

    actions  token n is the n-th, 0 is the end; options come last, sorted
    recipes  text of those measured in training, the most useful first
    card     data, split, metrics, seed, versions
    """

    arrays: dict[str, Floats]
    actions: tuple[str, ...]
    recipes: tuple[str, ...]
    card: dict[str, Any]
    _numbers: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._numbers.update({action: at for at, action in enumerate(self.actions, 1)})

    def see(self, looks: Description) -> Floats:
        """What the model sees of a program, (d + e,)."""
        a = self.arrays
        scaled = (np.asarray(looks.features, np.float32) - a["feature_mean"]) / a["feature_scale"]
        first, then, counts = pair_columns(looks)
        joined = np.tanh(a["opcode_first"][first] + a["opcode_then"][then])
        pooled = counts @ joined / max(float(counts.sum()), 1.0)
        seen: Floats = np.concatenate([np.clip(scaled, -FURTHEST, FURTHEST), pooled])
        return seen.astype(np.float32)

    def tokens(self, recipe: Recipe) -> Tokens | None:
        """The recipe's actions by number; None where one is not in the vocabulary."""
        found = [self._numbers.get(a) for a in (*recipe.passes, *sorted(recipe.options))]
        return None if None in found else tuple(n for n in found if n is not None)

    def expect(self, looks: Description, recipes: Sequence[str]) -> Expected:
        """What is expected of the recipes for this program, as `process.Process` takes it.

        Recipes with an action that is not in the vocabulary are taken for what no action does.
        """
        a, seen = self.arrays, self.see(looks)
        numbers = [self.tokens(Recipe.parse(text)) or () for text in recipes]
        known = {text: at for at, text in enumerate(self.recipes)}
        rows = [known.get(text, -1) for text in recipes]
        bags = self.bags(numbers)
        extra = np.array([at >= 0 for at in rows], np.float32)
        mean = bags @ a["mean"] + a["mean_bias"] + extra * a["known_mean"][rows]
        loading = bags @ a["loading"].T + extra[:, None] * a["known_loading"][rows]
        noise = bags @ a["noise"] + a["noise_bias"] + extra * a["known_noise"][rows]
        spread = np.maximum(np.logaddexp(0.0, noise), 0.0) * 0.1 + LEAST_NOISE
        mean = mean + loading @ (a["prior"] @ seen)
        return Expected(
            mean.astype(np.float64),
            (loading * a["prior_spread"]).astype(np.float64),
            (spread**2).astype(np.float64),
        )

    def bags(self, sequences: Sequence[Tokens]) -> Floats:
        """What the actions of each recipe stand for together, (n, w)."""
        a = self.arrays
        sums = np.array([a["bag"][list(tokens)].sum(0) for tokens in sequences], np.float32)
        sums = sums.reshape(len(sequences), a["bag"].shape[1])
        result: Floats = sums + np.tanh(sums @ a["bag_in"].T) @ a["bag_out"].T
        return result


class NetDecoder:
    """The model's next-action distribution for one program; its grammar is the caller's."""

    def __init__(self, net: PolicyNet, looks: Description) -> None:
        a = net.arrays
        self._arrays = a
        self._states: dict[Tokens, Floats] = {
            (): np.tanh(a["start"] @ net.see(looks) + a["start_bias"])
        }

    def next_logits(self, prefix: Tokens) -> Floats:
        """Shape (v,)."""
        a = self._arrays
        result: Floats = a["next"] @ self._after(prefix) + a["next_bias"]
        return result

    def _after(self, prefix: Tokens) -> Floats:
        found = self._states.get(prefix)
        if found is None:
            found = self._states[prefix] = self._step(self._after(prefix[:-1]), prefix[-1])
        return found

    def _step(self, state: Floats, token: int) -> Floats:
        a = self._arrays
        given = a["gates_in"] @ a["token"][token] + a["gates_in_bias"]
        held = a["gates_state"] @ state + a["gates_state_bias"]
        size = len(state)
        reset = _logistic(given[:size] + held[:size])
        update = _logistic(given[size : 2 * size] + held[size : 2 * size])
        new = np.tanh(given[2 * size :] + reset * held[2 * size :])
        result: Floats = (1 - update) * new + update * state
        return result


def pair_columns(looks: Description) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Opcode pairs as columns: first, then, how often."""
    pairs = sorted(looks.pairs.items())
    first = np.array([pair[0] for pair, _ in pairs], np.int64)
    then = np.array([pair[1] for pair, _ in pairs], np.int64)
    return first, then, np.array([count for _, count in pairs], np.float32)


def save(net: PolicyNet, path: Path) -> None:
    """Write it as safetensors; vocabulary, recipes and card are its metadata."""
    from safetensors.numpy import save_file

    words = {
        "kind": _KIND,
        "actions": json.dumps(net.actions),
        "recipes": json.dumps(net.recipes),
        "card": json.dumps(net.card, sort_keys=True),
    }
    arrays = {name: np.ascontiguousarray(net.arrays[name], np.float32) for name in ARRAYS}
    save_file(arrays, str(path), metadata=words)


def load(path: Path) -> PolicyNet:
    """Read it; raises UsageError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as file:
            words = file.metadata() or {}
            if words.get("kind") != _KIND:
                raise ValueError("it holds another kind of model")
            arrays = {name: file.get_tensor(name) for name in ARRAYS}
        actions, recipes = (tuple(json.loads(words[name])) for name in ("actions", "recipes"))
        return PolicyNet(arrays, actions, recipes, json.loads(words["card"]))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"cannot read the model {path}: {error}") from error


_KIND = "planish policy 1"


def _logistic(value: Floats) -> Floats:
    result: Floats = 0.5 * (1 + np.tanh(0.5 * value))
    return result
