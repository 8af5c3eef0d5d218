"""GGUF: the file format of llama.cpp, read by transformers, written as float32 safetensors.

transformers refuses to save a model it read from GGUF (it counts as quantised), so the weights
move into a clean model of the same class. Its tokenizers are right but for one silent fall-back:
a byte-level vocabulary whose splitting rule (`tokenizer.ggml.pre`) it does not know gets GPT-2's
rule. `_set_splits` puts the right rule in, or refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.names import ModelError

__all__ = ["convert"]

# Splitting rules that transformers leaves as GPT-2's. In the first set every digit is a token of
# its own (llama.cpp: "\p{N}" before GPT-2's rule); the second set is GPT-2's rule.
_DIGIT_SPLITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"})
_GPT2_SPLITS = frozenset(
    {None, "default", "gpt-2", "gpt2", "mpt", "olmo", "jais", "phi-2", "granite"}
)


def convert(source: Path, target: Path) -> None:
    """Convert the GGUF file `source`: its language model and its tokenizer.

    Raises:
        ModelError: the file holds a tokenizer whose splitting rule is not known.
    """
    context = _convert_weights(source, target)
    _convert_tokenizer(source, target, context)


def _convert_weights(source: Path, target: Path) -> int | None:
    """Write config.json and the weights; returns the length of the context, where it is known."""
    import torch
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    fields = loaded.config.to_dict()
    for field in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        fields.pop(field, None)
    with torch.device("meta"):
        clean = type(loaded)(type(loaded.config).from_dict(fields))
    clean.load_state_dict(loaded.state_dict(), assign=True)
    clean.tie_weights()
    clean.generation_config = loaded.generation_config
    clean.save_pretrained(target, max_shard_size="1000GB")
    return getattr(clean.config, "max_position_embeddings", None)


def _convert_tokenizer(source: Path, target: Path, context: int | None) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    fields = _metadata(source, ("tokenizer.ggml.model", "tokenizer.ggml.pre"))
    if fields["tokenizer.ggml.model"] == "gpt2":
        _set_splits(tokenizer.backend_tokenizer, fields["tokenizer.ggml.pre"])
    if context is not None:
        tokenizer.model_max_length = context
    tokenizer.save_pretrained(target)


def _set_splits(backend: Any, rule: str | None) -> None:
    """Give a byte-level tokenizer the splitting rule its vocabulary was trained with."""
    from tokenizers import pre_tokenizers

    if rule in _DIGIT_SPLITS:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    elif rule not in _GPT2_SPLITS and isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        raise ModelError(
            f"the tokenizer's splitting rule {rule!r} is not known, so its tokens would be wrong; "
            "pass the model's Hugging Face folder or hub id instead of the GGUF file"
        )


def _metadata(source: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The named metadata fields of a GGUF file, None where it has no such field."""
    from gguf import GGUFReader

    fields = GGUFReader(source).fields
    return {name: fields[name].contents() if name in fields else None for name in names}
