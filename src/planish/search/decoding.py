"""Sequences from a next-token distribution and a grammar: the protocol, and the usual decoders.

A model says how likely each token is after a prefix; a grammar says which may stand there. What
the tokens mean (passes of a pipeline, steps of a loop schedule, pieces of text) is the caller's.
Priority Sampling, which every decoder here is compared with, has the file `priority.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import PlanishError

Tokens: TypeAlias = tuple[int, ...]


class Decoder(Protocol):
    """A model with its grammar."""

    @property
    def end(self) -> int:
        """The token that ends a sequence; it stands in no prefix."""

    def next_logits(self, prefix: Tokens) -> NDArray[Any]:
        """Log-probabilities of the next token, up to a constant; shape (vocabulary,)."""

    def legal(self, prefix: Tokens) -> Sequence[int] | NDArray[Any]:
        """Tokens that may follow, `end` among them: their numbers, or a mask over the vocabulary.

        None at all is an end as well. Every sequence has to end: a grammar bounds the length.
        """


class Sample(NamedTuple):
    """A whole sequence, without `end`, and its log-probability within the grammar."""

    tokens: Tokens
    logprob: float


class Choices(NamedTuple):
    """What may follow a prefix, most probable first; equals are in the order of the vocabulary.

    tokens    numbers, shape (n,); n is 0 where the sequence ends without `end`
    logprobs  their log-probabilities, shape (n,), which sum to 1 over the legal tokens
    """

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float64]


class Tree:
    """The prefixes met so far, each asked of the model and of the grammar once.

    The model is not asked where the grammar leaves no choice. Share one among decoders
    that run on the same model, and none asks it twice.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.end = decoder.end
        self._decoder = decoder
        self._known: dict[Tokens, Choices] = {}

    def choices(self, prefix: Tokens) -> Choices:
        """What may follow; raises PlanishError where the model gives no number."""
        found = self._known.get(prefix)
        if found is None:
            found = self._known[prefix] = self._ask(prefix)
        return found

    def follow(self, prefix: Tokens, logprob: float) -> Sample:
        """The most probable token again and again, to the end."""
        while True:
            tokens, logprobs = self.choices(prefix)
            if not len(tokens):
                return Sample(prefix, logprob)
            logprob += float(logprobs[0])
            if tokens[0] == self.end:
                return Sample(prefix, logprob)
            prefix = (*prefix, int(tokens[0]))

    def _ask(self, prefix: Tokens) -> Choices:
        legal = np.asarray(self._decoder.legal(prefix))
        tokens = np.flatnonzero(legal) if legal.dtype == bool else np.unique(legal)
        tokens = tokens.astype(np.int64)
        if len(tokens) < 2:  # there is nothing to choose, and a model may be slow
            return Choices(tokens, np.zeros(len(tokens)))
        logits = np.asarray(self._decoder.next_logits(prefix), np.float64)[tokens]
        if np.isnan(logits).any():
            raise PlanishError(
                f"the model gives no number for a token after {list(prefix)}",
                hint="are its weights whole?",
            )
        # Stable, so that equals stay in the order of the vocabulary.
        order = np.argsort(-logits, kind="stable")
        return Choices(tokens[order], log_softmax(logits[order]))


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probabilities from logits, shape (n,); uniform where all are minus infinity."""
    peak = logits.max()
    if np.isneginf(peak):
        return np.full(len(logits), -np.log(len(logits)))
    shifted = logits - peak
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return result


def greedy(tree: Tree) -> Sample:
    """The most probable token at every position."""
    return tree.follow((), 0.0)


def sampled(
    tree: Tree, *, temperature: float = 1.0, nucleus: float = 1.0, seed: int = 0
) -> Iterator[Sample]:
    """Random sequences without end, repetitions among them.

    temperature  above 0; divides the logits: below 1 keeps to the probable, above 1 strays
    nucleus      above 0: at each position only the fewest tokens whose probabilities reach this
                 sum ("The Curious Case of Neural Text Degeneration", 1904.09751); 1 for all
    The log-probabilities are the model's own, whatever the temperature.
    """
    if temperature <= 0 or not 0 < nucleus <= 1:
        raise ValueError("temperature is above 0, nucleus above 0 and at most 1")
    rng = random.Random(seed)
    while True:
        prefix: Tokens = ()
        logprob = 0.0
        while len((choices := tree.choices(prefix)).tokens):
            at = _draw(choices.logprobs, temperature, nucleus, rng)
            logprob += float(choices.logprobs[at])
            if choices.tokens[at] == tree.end:
                break
            prefix = (*prefix, int(choices.tokens[at]))
        yield Sample(prefix, logprob)


def beam(tree: Tree, width: int) -> list[Sample]:
    """Beam search: at most `width` unique sequences, most probable first.

    Each round extends the `width` most probable prefixes by one token; what ends leaves the beam
    and takes a place in the result. It goes on until no prefix is more probable than the result.
    """
    if width < 1:
        raise ValueError("a beam is at least 1 wide")
    live = [Sample((), 0.0)]
    done: list[Sample] = []
    while live:
        extended: list[Sample] = []
        for prefix, logprob in live:
            tokens, logprobs = tree.choices(prefix)
            if not len(tokens):
                done.append(Sample(prefix, logprob))
            # No more than `width` of one prefix can be among the best `width` of all.
            for token, step in zip(tokens[:width].tolist(), logprobs[:width].tolist(), strict=True):
                if token == tree.end:
                    done.append(Sample(prefix, logprob + step))
                else:
                    extended.append(Sample((*prefix, token), logprob + step))
        done = _best(done, width)
        live = _best(extended, width)
        if len(done) == width:
            live = [sample for sample in live if sample.logprob > done[-1].logprob]
    return done


def _best(samples: list[Sample], count: int) -> list[Sample]:
    return sorted(samples, key=lambda sample: (-sample.logprob, sample.tokens))[:count]


def _draw(
    logprobs: NDArray[np.float64], temperature: float, nucleus: float, rng: random.Random
) -> int:
    """Which of the choices, most probable first, a draw falls on."""
    sums = np.cumsum(np.exp(log_softmax(logprobs / temperature)))
    kept = min(int(np.searchsorted(sums, nucleus * sums[-1])) + 1, len(sums))
    return min(int(np.searchsorted(sums[:kept], rng.random() * sums[kept - 1], "right")), kept - 1)
