"""A causal language model with random weights and its tokenizer, made where it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TEXTS = [
    "module(default<Oz>),function(sroa),function(simplifycfg),module(globaldce)'",
    "define i32 @f(i32 noundef %0) { %2 = alloca i32, align 4 ret i32 %2 }",
]


def make(folder: Path, *, spaces: bool = False, room: int = 16384) -> Path:
    """Write model and tokenizer into the folder.

    spaces  mark the beginnings of words, as SentencePiece does; else bytes, as GPT-2 does
    room    most tokens of a question
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_tokenizer(spaces), unk_token="<unk>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=room,
        initializer_range=0.6,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def _tokenizer(spaces: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False))
    alphabet = [chr(code) for code in range(32, 127)]
    if spaces:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<s>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(_TEXTS * 3, trainer)
    return tokenizer
