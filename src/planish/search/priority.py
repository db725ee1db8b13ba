"""Priority Sampling: unique samples of a model, without chance, most confident first.

Source: "Priority Sampling of Large Language Models for Compilers" (2402.18734).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from planish.search.decoding import Decoder, Sample, Tokens, Tree


def priority_samples(decoder: Decoder | Tree, alternatives: int | None = None) -> Iterator[Sample]:
    """Sequences of the model, each once, until the grammar has no more.

    alternatives  branches kept at each position, the most probable ones; None for all

    The first is the greedy decode. Wherever a decode passes, the tokens that it did not take are
    branches, kept by the probability of the prefix with the token; each next sample takes the
    most probable branch and decodes it greedily to the end. A branch is never more probable than
    the one it grew from, so that branches are taken in the order of the model's probability, and
    no prefix is asked of the model twice.
    """
    tree = decoder if isinstance(decoder, Tree) else Tree(decoder)
    order = itertools.count()  # equals: the branch that was found first
    queue: list[tuple[float, int, Tokens, int]] = []
    prefix: Tokens = ()
    logprob, ended = 0.0, False
    while True:
        while not ended:
            tokens, logprobs = tree.choices(prefix)
            if not len(tokens):
                break
            kept = slice(1, None if alternatives is None else alternatives + 1)
            for token, step in zip(tokens[kept].tolist(), logprobs[kept].tolist(), strict=True):
                heapq.heappush(queue, (-(logprob + step), next(order), prefix, token))
            logprob += float(logprobs[0])
            ended = bool(tokens[0] == tree.end)
            if not ended:
                prefix = (*prefix, int(tokens[0]))
        yield Sample(prefix, logprob)
        if not queue:
            return
        negative, _, prefix, token = heapq.heappop(queue)
        logprob, ended = -negative, token == tree.end
        if not ended:
            prefix = (*prefix, token)
