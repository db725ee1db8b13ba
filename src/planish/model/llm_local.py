"""Pass lists from a causal language model: Priority Sampling under the grammar of pipelines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.closing import Closing
from planish.base.errors import PlanishError, UsageError
from planish.base.hashing import digest
from planish.model.llm_prompt import OPENING, compiler_prompt, normalised
from planish.model.llm_words import PassGrammar, spellings
from planish.model.llm_worker import HANDLER, Measure, Next, Spell
from planish.proc.pool import Call, Pool
from planish.search.decoding import Tokens
from planish.search.priority import priority_samples
from planish.search.protocol import Plan, Space

# Loading (and fetching) a model is part of the first call.
_SECONDS = 7200.0
# No limit of ours: what a model maps has little to do with what it needs.
_MEMORY = 1 << 46
# Tokens that a list of passes may take.
_LIST = 256
# Alternatives kept at a position; lists that take the ninth best are not worth a build.
_ALTERNATIVES = 8


class LocalModel(Closing):
    """A model in a worker process.

    source  a folder or a name on the Hugging Face Hub
    Raises PlanishError where `transformers` is missing.
    """

    def __init__(self, source: str) -> None:
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise PlanishError(
                    f"a local language model needs {package}, which is not installed",
                    hint="pip install 'planish[llm]', or name a server with --llm-url",
                )
        self._source = source
        self._pool = Pool(HANDLER, jobs=1, seconds=_SECONDS, memory=_MEMORY)

    def close(self) -> None:
        """End the worker."""
        self._pool.close()

    def spell(self, texts: tuple[str, ...]) -> list[Tokens]:
        """The tokens of texts."""
        found: list[Tokens] = self._ask(Spell(texts))
        return found

    def measure(self, prompt: str) -> tuple[int, int | None]:
        """How many tokens the prompt has, and how many the model takes (None: any number)."""
        key = self._keep(prompt)
        found: tuple[int, int | None] = self._ask(Measure(key), (key,))
        return found

    def logits(self, prompt: str, tokens: Tokens, wanted: Tokens) -> NDArray[np.float64]:
        """Logits of the wanted tokens behind prompt and tokens, shape (len(wanted),)."""
        key = self._keep(prompt)
        found: NDArray[np.float64] = self._ask(Next(key, tokens, wanted), (key,))
        return found

    def _keep(self, prompt: str) -> str:
        key = digest(prompt.encode())
        self._pool.keep(key, prompt.encode())
        return key

    def _ask(self, request: Any, blobs: tuple[str, ...] = ()) -> Any:
        [reply] = self._pool.run([Call(self._source, request, blobs)])
        if reply.failure is not None:
            reason = reply.reason.splitlines()[0] if reply.reason else reply.failure.value
            raise PlanishError(
                f"the language model {self._source} cannot be used: {reason[:300]}",
                hint="--llm-model names a folder or a model on the Hugging Face Hub",
            )
        return reply.value


class PassDecoder:
    """The model on one module's prompt, with the grammar of pass lists."""

    end = PassGrammar.end

    def __init__(self, model: LocalModel, prompt: str, grammar: PassGrammar, size: int) -> None:
        self._model = model
        self._prompt = prompt
        self._grammar = grammar
        self._size = size

    def legal(self, prefix: Tokens) -> list[int]:
        return self._grammar.legal(prefix)

    def next_logits(self, prefix: Tokens) -> NDArray[np.float64]:
        wanted = tuple(self._grammar.legal(prefix))
        logits = np.full(self._size, -np.inf)
        logits[list(wanted)] = self._model.logits(self._prompt, prefix, wanted)
        return logits


def pass_lists(model: LocalModel, text: str, goal: str, space: Space) -> Iterator[Plan]:
    """Plans for a module, given as textual IR, most confident first.

    Raises UsageError for a module that the model cannot take in.
    """
    prompt = _prompt(model, text, goal)
    actions = tuple(dict.fromkeys((*space.start.actions, *space.actions(space.start))))
    texts = tuple(spellings(actions))
    words = dict(zip(texts, model.spell(texts), strict=True))
    grammar = PassGrammar(words, space)
    size = max(max(tokens) for tokens in words.values()) + 1
    decoder = PassDecoder(model, prompt, grammar, size)
    for sample in priority_samples(decoder, _ALTERNATIVES):
        yield grammar.plan(sample.tokens)


def _prompt(model: LocalModel, text: str, goal: str) -> str:
    """The prompt with the module as it is or, where that does not fit, without metadata."""
    for module in (text, normalised(text)):
        prompt = compiler_prompt(module, goal) + OPENING
        count, room = model.measure(prompt)
        if room is None or count + _LIST <= room:
            return prompt
    raise UsageError(
        f"the module is {count} tokens long, and the language model takes {room}",
        hint="ask a larger model with --llm-url, or split the source",
    )
