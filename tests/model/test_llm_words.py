"""The token-level grammar against brute force, with tokenizers that merge as they like."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planish.model.llm_prompt import spelled
from planish.model.llm_words import PassGrammar, spellings
from planish.search.decoding import Tree, greedy
from planish.search.priority import priority_samples
from planish.search.protocol import Plan
from planish.tune.pass_space import PassSpace

PASSES = ["function(simplifycfg)", "function(simplifycfg<x;y>)", "function(sroa)", "globaldce"]
SPACE = PassSpace(Plan(("default<Oz>",)), [*PASSES, "@no-minsize"], ["-disable-lsr"])
WRITTEN = ["module(default<Oz>)", *PASSES[:3], "module(globaldce)"]


class Pieces:
    """Spells with the longest pieces that it knows, then letter by letter."""

    def __init__(self, pieces: list[str]) -> None:
        letters = sorted({letter for text in WRITTEN for letter in text + ",'"})
        self.pieces = sorted(dict.fromkeys([*pieces, *letters]), key=len, reverse=True)

    def encode(self, text: str) -> tuple[int, ...]:
        tokens = []
        while text:
            at = next(at for at, piece in enumerate(self.pieces) if text.startswith(piece))
            tokens.append(at)
            text = text[len(self.pieces[at]) :]
        return tuple(tokens)

    def decode(self, tokens: tuple[int, ...]) -> str:
        return "".join(self.pieces[token] for token in tokens)


class Model:
    end = PassGrammar.end

    def __init__(self, grammar: PassGrammar, seed: int, size: int) -> None:
        self.legal, self.seed, self.size = grammar.legal, seed, size

    def next_logits(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        return np.random.default_rng([self.seed, *prefix]).normal(size=self.size)


PIECES = st.lists(
    st.sampled_from(["function(", "mod", "ule(", "),", ")'", "simpl", "ifycfg", "cfg)", "<"]),
    unique=True,
)


def grammar_of(pieces: Pieces, longest: int) -> PassGrammar:
    actions = (*SPACE.start.actions, *SPACE.actions(SPACE.start))
    words = {text: pieces.encode(text) for text in spellings(actions)}
    return PassGrammar(words, SPACE, longest)


@settings(max_examples=25, deadline=None)
@given(PIECES, st.integers(0, 100))
def test_all_lists_and_only_they_are_decoded(known: list[str], seed: int) -> None:
    pieces = Pieces(known)
    grammar = grammar_of(pieces, 2)
    model = Model(grammar, seed, len(pieces.pieces))
    samples = list(priority_samples(model))
    texts = [pieces.decode(sample.tokens) for sample in samples]
    lists = {f"{one}'" for one in WRITTEN} | {f"{a},{b}'" for a in WRITTEN for b in WRITTEN}
    assert len(texts) == len(lists) and set(texts) == lists
    for sample, text in zip(samples, texts, strict=True):
        plan = grammar.plan(sample.tokens)
        assert SPACE.legal(plan.actions)
        assert ",".join(spelled(action) or "" for action in plan.actions) + "'" == text
    assert samples[0] == greedy(Tree(model))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 100), st.integers(1, 30))
def test_lists_end(seed: int, longest: int) -> None:
    pieces = Pieces([])
    grammar = grammar_of(pieces, longest)
    for sample in islice(priority_samples(Model(grammar, seed, len(pieces.pieces))), 5):
        assert 1 <= len(grammar.plan(sample.tokens).actions) <= longest


def test_what_opt_does_not_take_is_left_out() -> None:
    actions = {action for action, _ in spellings(SPACE.actions(SPACE.start)).values()}
    assert actions == set(PASSES)
    with pytest.raises(KeyError):
        PassGrammar({}, SPACE)
