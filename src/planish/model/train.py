"""Training of the policy model (`policy_net.py`): one loss for the decoder, one for the sizes.

The decoder learns the recipes that the caller wants of it, or those that served each program best,
each weighted by its gain; the sizes
are fitted by the likelihood of each program's whole row of measurements, hidden factors integrated
out, so that the model learns how recipes go together and not only how good each is. `torch` is
behind an extra and imported here only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError
from planish.llvm.features import OPCODES, Description
from planish.llvm.recipe import Recipe
from planish.model.policy_net import END, FURTHEST, LEAST_NOISE, PolicyNet, pair_columns
from planish.search.decoding import Tokens

Say = Callable[[str], None]
# Recipes that the decoder sees in one step.
_DRAWN = 320


@dataclass(frozen=True)
class Shape:
    """Widths, and how long and how hard it is trained.

    clip      log ratios are cut here: a few programs with wild sizes must not teach the others
    warmth    of the weights over a program's best recipes, in log ratio
    best      recipes of a program that the decoder learns
    """

    embedding: int = 12
    factors: int = 10
    bag: int = 24
    state: int = 64
    steps: int = 500
    rate: float = 0.01
    clip: float = 0.2
    warmth: float = 0.01
    best: int = 12
    decay: float = 0.3
    dropout: float = 0.3
    seed: int = 0


def torch_or_say() -> Any:
    """`torch`; raises UsageError where it is not installed."""
    try:
        import torch
    except ImportError:
        raise UsageError("training needs torch", hint="pip install 'planish[learn]'") from None
    return torch


def train(
    looks: Sequence[Description],
    ratios: NDArray[np.float64],
    recipes: Sequence[str],
    actions: Sequence[str],
    shape: Shape,
    say: Say = lambda words: None,
    *,
    broadcast: int | None = None,
    wanted: NDArray[np.float64] | None = None,
) -> PolicyNet:
    """Train on a table; every choice of chance comes from the seed.

    ratios   size over the baseline's, (programs, recipes), not a number where a build failed
    recipes  their text; `actions` the vocabulary in the grammar's order, all of theirs among it
    broadcast  how many of the first were built on every program: they get weights of their own
    wanted     what the decoder is to say: shares of each program's recipes, (programs, recipes);
               None for those that served it best
    """
    known = len(recipes) if broadcast is None else broadcast
    torch = torch_or_say()
    torch.manual_seed(shape.seed)
    torch.set_num_threads(1)  # sums in one order: the same weights on every run
    blank = PolicyNet({}, tuple(actions), tuple(recipes), {})
    found = [blank.tokens(Recipe.parse(text)) for text in recipes]
    if None in found:
        text = recipes[found.index(None)]
        raise UsageError(f"the recipe '{text}' has an action that is not in the vocabulary")
    sequences = [tokens for tokens in found if tokens is not None]
    data = _tensors(torch, looks, ratios, sequences, shape, wanted)
    weights = _weights(torch, data, len(actions) + 1, known, shape)
    names = [name for name in weights if not name.startswith("feature_")]
    optimiser = torch.optim.Adam([weights[name] for name in names], lr=shape.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, shape.rate, total_steps=shape.steps, pct_start=0.2
    )
    for step in range(shape.steps):
        optimiser.zero_grad()
        seen = _see(torch, weights, data)
        seen = torch.nn.functional.dropout(seen, shape.dropout)
        sizes = _size_loss(torch, weights, data, seen)
        words = _decoder_loss(torch, weights, data, seen)
        (sizes + words + _penalty(weights, shape, len(looks))).backward()
        torch.nn.utils.clip_grad_norm_([weights[name] for name in names], 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 99:
            say(
                f"step {step + 1}: sizes {float(sizes.detach()):.3f}, "
                f"recipes {float(words.detach()):.3f}"
            )
    arrays = {name: tensor.detach().numpy().astype(np.float32) for name, tensor in weights.items()}
    return PolicyNet(arrays, tuple(actions), tuple(recipes[:known]), {"clip": shape.clip})


@dataclass(frozen=True)
class _Data:
    features: Any
    pairs: Any  # (programs, pairs) shares
    first: Any
    then: Any
    logs: Any  # (programs, recipes), clipped
    there: Any  # 1 where a build did not fail
    bags: Any  # (recipes, actions) counts
    inputs: Any  # (recipes, longest) tokens, the end first
    targets: Any  # (recipes, longest) tokens, the end last, -1 behind it
    shares: Any  # (programs, recipes) of the decoder's loss


def _tensors(
    torch: Any,
    looks: Sequence[Description],
    ratios: NDArray[np.float64],
    sequences: Sequence[Tokens],
    shape: Shape,
    wanted: NDArray[np.float64] | None,
) -> _Data:
    there = np.isfinite(ratios)
    tensor = torch.as_tensor
    logs = np.clip(np.log(np.where(there, ratios, 1.0)), -shape.clip, shape.clip)
    every = sorted({pair for each in looks for pair in each.pairs})
    column = {pair: at for at, pair in enumerate(every)}
    shares = np.zeros((len(looks), max(len(every), 1)), np.float32)
    for row, each in zip(shares, looks, strict=True):
        first, then, counts = pair_columns(each)
        places = [column[pair] for pair in zip(first.tolist(), then.tolist(), strict=True)]
        row[places] = counts / max(float(counts.sum()), 1.0)
    longest = max(map(len, sequences)) + 1
    inputs = np.zeros((len(sequences), longest), np.int64)
    targets = np.full((len(sequences), longest), -1, np.int64)
    for at, tokens in enumerate(sequences):
        inputs[at, 1 : len(tokens) + 1] = tokens
        targets[at, : len(tokens) + 1] = (*tokens, END)
    width = max((max(tokens, default=0) for tokens in sequences), default=0) + 1
    bags = np.zeros((len(sequences), width), np.float32)
    for row, tokens in zip(bags, sequences, strict=True):
        np.add.at(row, list(tokens), 1.0)
    if wanted is None:
        wanted = _shares(np.where(there, logs, shape.clip), shape)
    return _Data(
        tensor(np.array([each.features for each in looks], np.float32)),
        tensor(shares),
        tensor(np.array([pair[0] for pair in every] or [0])),
        tensor(np.array([pair[1] for pair in every] or [0])),
        tensor(logs.astype(np.float32)),
        tensor(there.astype(np.float32)),
        tensor(bags),
        tensor(inputs),
        tensor(targets),
        tensor(wanted.astype(np.float32)),
    )


def _shares(logs: NDArray[np.float64], shape: Shape) -> NDArray[np.float64]:
    """How much each recipe counts for each program: the best ones, by their distance to the best.

    Programs with little to gain count less: what serves them is mostly chance.
    """
    best = logs.min(1, keepdims=True)
    weights = np.exp((best - logs) / shape.warmth)
    order = np.argsort(np.argsort(logs, 1, kind="stable"), 1)
    weights = np.where((order < shape.best) & (logs < 0), weights, 0.0)
    weights /= np.maximum(weights.sum(1, keepdims=True), 1e-9)
    gain = np.maximum(-best, 0.0)
    result: NDArray[np.float64] = weights * (gain / (gain + 0.02))
    return result


def _weights(torch: Any, data: _Data, actions: int, recipes: int, shape: Shape) -> dict[str, Any]:
    d, e, k = data.features.shape[1], shape.embedding, shape.factors
    w, h = shape.bag, shape.state
    opcodes = len(OPCODES) + 1

    def normal(*size: int, scale: float) -> Any:
        return (torch.randn(*size) * scale).requires_grad_()

    def zeros(*size: int) -> Any:
        return torch.zeros(*size).requires_grad_()

    mean = data.features.mean(0)
    scale = torch.clamp(data.features.std(0, unbiased=False), min=1e-3)
    return {
        "feature_mean": mean, "feature_scale": scale,
        "opcode_first": normal(opcodes, e, scale=0.5),
        "opcode_then": normal(opcodes, e, scale=0.5),
        "prior": zeros(k, d + e), "prior_spread": torch.ones(k).requires_grad_(),
        "bag": normal(actions, w, scale=0.3), "bag_in": normal(w, w, scale=w**-0.5),
        "bag_out": normal(w, w, scale=0.1 * w**-0.5),
        "mean": zeros(w), "mean_bias": zeros(1),
        "loading": normal(k, w, scale=0.01), "noise": zeros(w), "noise_bias": zeros(1),
        "known_mean": zeros(recipes), "known_loading": normal(recipes, k, scale=0.01),
        "known_noise": zeros(recipes),
        "start": normal(h, d + e, scale=0.1 * (d + e) ** -0.5), "start_bias": zeros(h),
        "token": normal(actions, h, scale=0.3),
        "gates_in": normal(3 * h, h, scale=h**-0.5), "gates_in_bias": zeros(3 * h),
        "gates_state": normal(3 * h, h, scale=h**-0.5), "gates_state_bias": zeros(3 * h),
        "next": normal(actions, h, scale=h**-0.5), "next_bias": zeros(actions),
    }  # fmt: skip


def _see(torch: Any, weights: dict[str, Any], data: _Data) -> Any:
    scaled = (data.features - weights["feature_mean"]) / weights["feature_scale"]
    joined = torch.tanh(weights["opcode_first"][data.first] + weights["opcode_then"][data.then])
    return torch.cat([torch.clamp(scaled, -FURTHEST, FURTHEST), data.pairs @ joined], 1)


def _size_loss(torch: Any, weights: dict[str, Any], data: _Data, seen: Any) -> Any:
    """Negative log likelihood of a measurement, in units of a whole row's mean."""
    sums = data.bags @ weights["bag"][: data.bags.shape[1]]
    bags = sums + torch.tanh(sums @ weights["bag_in"].T) @ weights["bag_out"].T
    others = len(bags) - len(weights["known_mean"])
    pad = torch.nn.functional.pad
    mean = bags @ weights["mean"] + weights["mean_bias"] + pad(weights["known_mean"], (0, others))
    loading = bags @ weights["loading"].T
    loading = loading + pad(weights["known_loading"], (0, 0, 0, others))
    noise = (
        bags @ weights["noise"] + weights["noise_bias"] + pad(weights["known_noise"], (0, others))
    )
    spread = torch.nn.functional.softplus(noise) * 0.1 + LEAST_NOISE
    rest = (data.logs - mean - (seen @ weights["prior"].T) @ loading.T) * data.there
    precision = data.there / spread**2
    scaled = loading * weights["prior_spread"]
    size = scaled.shape[1]
    squares = (scaled[:, :, None] * scaled[:, None, :]).reshape(-1, size * size)
    inner = (precision @ squares).reshape(-1, size, size) + torch.eye(size)
    pulled = (rest * precision) @ scaled
    factor = torch.linalg.cholesky(inner)
    solved = torch.cholesky_solve(pulled[:, :, None], factor)[:, :, 0]
    quadratic = (rest**2 * precision).sum(1) - (pulled * solved).sum(1)
    volume = 2 * torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1)
    volume = volume + (2 * data.there * torch.log(spread)).sum(1)
    return 0.5 * (quadratic + volume).sum() / data.there.sum()


def _decoder_loss(torch: Any, weights: dict[str, Any], data: _Data, seen: Any) -> Any:
    """Weighted cross entropy of the next action; each program's shares sum to one at most."""
    at, recipe = torch.nonzero(data.shares, as_tuple=True)
    drawn = torch.randperm(len(at))[:_DRAWN]
    scale = len(at) / max(len(drawn), 1)
    at, recipe = at[drawn], recipe[drawn]
    state = torch.tanh(seen @ weights["start"].T + weights["start_bias"])[at]
    share = data.shares[at, recipe]
    inputs, targets = data.inputs[recipe], data.targets[recipe]
    total = 0.0
    for place in range(inputs.shape[1]):
        if place:
            state = _step(torch, weights, state, inputs[:, place])
        logits = state @ weights["next"].T + weights["next_bias"]
        loss = torch.nn.functional.cross_entropy(
            logits, targets[:, place], ignore_index=-1, reduction="none"
        )
        total = total + (loss * share).sum()
    return total * scale / torch.clamp(data.shares.sum(), min=1.0)


def _step(torch: Any, weights: dict[str, Any], state: Any, tokens: Any) -> Any:
    given = weights["token"][tokens] @ weights["gates_in"].T + weights["gates_in_bias"]
    held = state @ weights["gates_state"].T + weights["gates_state_bias"]
    (reset, update, new), (r, u, n) = given.chunk(3, 1), held.chunk(3, 1)
    reset, update = torch.sigmoid(reset + r), torch.sigmoid(update + u)
    return (1 - update) * torch.tanh(new + reset * n) + update * state


def _penalty(weights: dict[str, Any], shape: Shape, programs: int) -> Any:
    """Small weights, as a normal prior over them; per program, as the losses are."""
    strong = ("prior", "known_mean", "known_loading", "loading", "start")
    total = sum((weights[name] ** 2).sum() for name in strong)
    weak = sum((weights[n] ** 2).sum() for n in ("bag", "opcode_first", "opcode_then", "next"))
    return shape.decay * (total + 0.02 * weak) / programs
