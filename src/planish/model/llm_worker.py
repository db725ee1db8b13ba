"""A causal language model of `transformers`, in a worker process: it may need more than there is.

The worker spells texts with the model's tokenizer, and gives logits of the next token behind a
prompt and a prefix. What the model has computed for the tokens shared with the last question is
kept, so that samples with a common beginning pay for it once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

HANDLER = "planish.model.llm_worker:Model"
# Texts are spelled behind one of these, since tokenizers treat the beginning of a text apart.
_ANCHORS = (",", "'", "\n", ":", ")")


@dataclass(frozen=True)
class Spell:
    """Ask for the tokens of texts, as they stand in the middle of a line."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Measure:
    """Ask how many tokens a prompt (a blob) has, and how many the model takes (None: any)."""

    prompt: str


@dataclass(frozen=True)
class Next:
    """Ask for logits behind the prompt (a blob) and the tokens, of the wanted tokens only."""

    prompt: str
    tokens: tuple[int, ...]
    wanted: tuple[int, ...]


def preload(argument: Any) -> None:
    """Nothing: threads of a tensor library do not survive a fork."""


class Model:
    """The worker of one model.

    source  a folder or a name on the Hugging Face Hub
    """

    def __init__(self, source: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

        self._torch = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(source)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
        self._model = model.to(device).eval()
        self._device = device
        self._prompts: dict[str, list[int]] = {}
        self._room: int | None = getattr(model.config, "max_position_embeddings", None)
        # Newer versions of transformers renamed the argument.
        names = inspect.signature(self._model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        make: Callable[..., Any] = DynamicCache
        self._new_cache = functools.partial(make, config=self._model.config)
        self._cache: Any = self._new_cache()
        self._cached: list[int] = []

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any:
        for key, data in blobs.items():
            self._prompts = {key: self._encode(data.decode(errors="replace"), special=True)}
        if isinstance(request, Spell):
            return [self._spell(text) for text in request.texts]
        if isinstance(request, Measure):
            return len(self._prompts[request.prompt]), self._room
        return self._logits(request)

    def _logits(self, request: Next) -> NDArray[np.float64]:
        torch = self._torch
        prompt = self._prompts[request.prompt]
        tokens = [*prompt, *request.tokens]
        kept = self._keep(tokens)
        with torch.inference_mode():
            inputs = torch.tensor([tokens[kept:]], device=self._device)
            given = {"input_ids": inputs, self._cache_name: self._cache, "use_cache": True}
            result = self._model(**given)
        self._cached = tokens
        row = result.logits[0, -1].double().cpu().numpy()
        logits: NDArray[np.float64] = row[list(request.wanted)]
        return logits

    def _keep(self, tokens: Sequence[int]) -> int:
        """Cut the cache to what it shares with the tokens, all but the last; how many that are."""
        shared = 0
        for old, new in zip(self._cached, tokens[:-1], strict=False):
            if old != new:
                break
            shared += 1
        if shared < len(self._cached) and shared:
            try:
                self._cache.crop(shared)
            except (AttributeError, ValueError, NotImplementedError):
                shared = 0  # a cache of fixed size (sliding windows, state spaces): begin afresh
        if not shared:
            self._cache = self._new_cache()
        return shared

    def _spell(self, text: str) -> tuple[int, ...]:
        for anchor in _ANCHORS:
            before, whole = self._encode(anchor), self._encode(anchor + text)
            if len(whole) > len(before) and whole[: len(before)] == before:
                return tuple(whole[len(before) :])
        raise ValueError(f"the tokenizer has no spelling of its own for '{text}'")

    def _encode(self, text: str, special: bool = False) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=special))
