"""Decoders against brute force on random models over random small grammars."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planish.base.errors import PlanishError
from planish.search.decoding import Sample, Tree, beam, greedy, sampled
from planish.search.priority import priority_samples

END = 0


class Toy:
    """A random model (some logits equal, some minus infinity) over a random grammar."""

    end = END

    def __init__(self, seed: int, vocabulary: int, longest: int, masks: bool = False) -> None:
        self.seed, self.vocabulary, self.longest, self.masks = seed, vocabulary, longest, masks
        self.asked: Counter[tuple[int, ...]] = Counter()

    def next_logits(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        self.asked[prefix] += 1
        rng = np.random.default_rng([self.seed, *prefix])
        logits = rng.integers(-4, 4, self.vocabulary) * 0.5
        return np.where(rng.random(self.vocabulary) < 0.1, -np.inf, logits)

    def legal(self, prefix: tuple[int, ...]) -> NDArray[np.bool_] | list[int]:
        rng = np.random.default_rng([self.seed + 1, *prefix])
        mask = rng.random(self.vocabulary) < 0.7
        if len(prefix) >= self.longest:
            mask[1:] = False  # the end at most, or nothing: both end a sequence
        return mask if self.masks else list(reversed(np.flatnonzero(mask).tolist()))

    def allowed(self, prefix: tuple[int, ...]) -> set[int]:
        found = self.legal(prefix)
        return set(np.flatnonzero(found).tolist() if self.masks else found)


def everything(toy: Toy) -> dict[tuple[int, ...], float]:
    """All sequences of the grammar with their log-probabilities, by plain recursion."""
    found: dict[tuple[int, ...], float] = {}

    def walk(prefix: tuple[int, ...], logprob: float) -> None:
        allowed = sorted(toy.allowed(prefix))
        if not allowed:
            found[prefix] = logprob
            return
        weights = [math.exp(toy.next_logits(prefix)[token]) for token in allowed]
        whole = sum(weights)
        for token, weight in zip(allowed, weights, strict=True):
            share = weight / whole if whole else 1 / len(allowed)
            step = logprob + (math.log(share) if share else -math.inf)
            if token == END:
                found[prefix] = step
            else:
                walk((*prefix, token), step)

    walk((), 0.0)
    toy.asked.clear()
    return found


TOYS = st.builds(
    Toy, st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 4), masks=st.booleans()
)


def branch(sample: Sample, earlier: list[Sample]) -> tuple[int, ...]:
    """What is new in a sample: the prefix it shares with an earlier one, and one token more."""
    whole = (*sample.tokens, END)
    shared = max(
        (
            sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(whole, other)))  # noqa: B905
            for other in ((*past.tokens, END) for past in earlier)
        ),
        default=-1,
    )
    return whole[: shared + 1]


def logprob_of(reference: dict[tuple[int, ...], float], prefix: tuple[int, ...]) -> float:
    """The log-probability that a sequence begins so, by summing over all of them."""
    rows = [p for tokens, p in reference.items() if (*tokens, END)[: len(prefix)] == prefix]
    total = sum(map(math.exp, rows))
    return math.log(total) if total else -math.inf


@settings(max_examples=80, deadline=None)
@given(TOYS)
def test_priority_sampling_finds_every_sequence_once(toy: Toy) -> None:
    samples = list(priority_samples(toy))
    reference = everything(toy)
    assert len(samples) == len({sample.tokens for sample in samples})
    assert {sample.tokens for sample in samples} == set(reference)
    for tokens, logprob in samples:
        assert logprob == pytest.approx(reference[tokens], abs=1e-9)
    assert sum(math.exp(sample.logprob) for sample in samples) == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(TOYS, st.integers(1, 6))
def test_priority_sampling_asks_once_for_a_prefix_and_repeats_itself(toy: Toy, count: int) -> None:
    first = list(islice(priority_samples(toy), count))
    prefixes = {sample.tokens[:n] for sample in first for n in range(len(sample.tokens) + 1)}
    assert set(toy.asked) <= prefixes
    assert not toy.asked or max(toy.asked.values()) == 1
    assert list(islice(priority_samples(toy), count)) == first
    assert list(islice(priority_samples(toy), count + 3))[:count] == first


@settings(max_examples=40, deadline=None)
@given(TOYS)
def test_branches_come_in_the_order_of_the_models_probability(toy: Toy) -> None:
    samples = list(priority_samples(toy))[:40]
    reference = everything(toy)
    keys = [logprob_of(reference, branch(s, samples[:at])) for at, s in enumerate(samples)]
    assert keys[0] == pytest.approx(0)
    for left, right in itertools.pairwise(keys):
        assert left >= right - 1e-9


@settings(max_examples=40, deadline=None)
@given(TOYS, st.integers(0, 3))
def test_the_first_is_greedy_and_the_grammar_is_never_left(toy: Toy, alternatives: int) -> None:
    samples = list(priority_samples(toy, alternatives))
    assert samples[0] == greedy(Tree(toy))
    for tokens, _ in samples:
        for at, token in enumerate(tokens):
            assert token in toy.allowed(tokens[:at])
        assert END in toy.allowed(tokens) or not toy.allowed(tokens)
    if alternatives == 0:
        assert len(samples) == 1


@settings(max_examples=40, deadline=None)
@given(TOYS, st.integers(1, 8))
def test_a_beam_holds_legal_sequences_most_probable_first(toy: Toy, width: int) -> None:
    reference = everything(toy)
    samples = beam(Tree(toy), width)
    assert len({sample.tokens for sample in samples}) == len(samples) <= width
    for tokens, logprob in samples:
        assert logprob == pytest.approx(reference[tokens], abs=1e-9)
    assert samples == sorted(samples, key=lambda s: (-s.logprob, s.tokens))
    whole = beam(Tree(toy), 5**5)
    best = sorted(reference.values(), reverse=True)
    assert [sample.logprob for sample in whole] == pytest.approx(best, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(TOYS, st.integers(0, 3), st.floats(0.2, 2), st.floats(0.1, 1))
def test_random_decoders_stay_in_the_grammar_and_obey_the_seed(
    toy: Toy, seed: int, temperature: float, nucleus: float
) -> None:
    reference = everything(toy)

    def draw() -> list[Sample]:
        samples = sampled(Tree(toy), temperature=temperature, nucleus=nucleus, seed=seed)
        return list(islice(samples, 8))

    assert draw() == draw()
    for tokens, logprob in draw():
        assert logprob == pytest.approx(reference[tokens], abs=1e-9)


@given(TOYS)
@settings(max_examples=20, deadline=None)
def test_a_narrow_nucleus_and_a_low_temperature_are_greedy_but_for_ties(toy: Toy) -> None:
    [narrow] = islice(sampled(Tree(toy), nucleus=1e-9), 1)
    assert narrow == greedy(Tree(toy))
    [cold] = islice(sampled(Tree(toy), temperature=1e-6), 1)
    tree = Tree(toy)
    for at, token in enumerate((*cold.tokens, END)[: len(cold.tokens)]):
        tokens, logprobs = tree.choices(cold.tokens[:at])
        assert logprobs[tokens.tolist().index(token)] == pytest.approx(logprobs[0])


def test_draws_follow_the_distribution() -> None:
    class Coin:
        end = END

        def next_logits(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
            return np.log([0.5, 0.3, 0.2])

        def legal(self, prefix: tuple[int, ...]) -> list[int]:
            return [] if prefix else [0, 1, 2]

    def shares(**how: float) -> list[float]:
        drawn = Counter(s.tokens for s in islice(sampled(Tree(Coin()), **how), 4000))  # type: ignore[arg-type]
        return [drawn[tokens] / 4000 for tokens in ((), (1,), (2,))]

    assert shares() == pytest.approx([0.5, 0.3, 0.2], abs=0.04)
    assert shares(nucleus=0.75) == pytest.approx([0.625, 0.375, 0], abs=0.04)
    squared = [0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38]
    assert shares(temperature=0.5) == pytest.approx(squared, abs=0.04)


def test_wrong_numbers_are_refused() -> None:
    class Broken(Toy):
        def next_logits(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
            return np.full(self.vocabulary, np.nan)

        def legal(self, prefix: tuple[int, ...]) -> list[int]:
            return [0, 1]  # one alone would not be asked for

    with pytest.raises(PlanishError, match="no number"):
        greedy(Tree(Broken(1, 3, 3)))
    for how in ({"temperature": 0.0}, {"nucleus": 0.0}, {"nucleus": 1.5}):
        with pytest.raises(ValueError, match="above 0"):
            next(sampled(Tree(Toy(1, 3, 3)), **how))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        beam(Tree(Toy(1, 3, 3)), 0)
