"""What a model's folder is made of: config.json, weights as safetensors, the tokenizer."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from headwise.files import replacing
from headwise.names import ConfigError

__all__ = [
    "disk_errors",
    "special_ids",
    "write_json",
    "write_shards",
    "write_tokenizer",
    "write_weights",
]

_SPECIAL = {
    "bos": ("<s>", "[CLS]", "<|endoftext|>"),
    "eos": ("</s>", "[SEP]", "<|endoftext|>"),
    "pad": ("<pad>", "[PAD]"),
    "unk": ("<unk>", "[UNK]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "mask": ("<mask>", "[MASK]"),
}
"""How special tokens are called, where a tokenizer does not say which they are."""


def write_shards(folder: Path, weights: Mapping[str, Tensor], max_shard_size: int | str) -> None:
    """model.safetensors, or several files with model.safetensors.index.json.

    Args:
        folder: where they go.
        weights: by name; views of one tensor are written each by itself, one file after the other copied.
        max_shard_size: of a file, in bytes or as huggingface_hub writes it ("5GB").
    """
    from huggingface_hub import split_torch_state_dict_into_shards

    sizes = {n: torch.empty(w.shape, dtype=w.dtype, device="meta") for n, w in weights.items()}
    split = split_torch_state_dict_into_shards(sizes, max_shard_size=max_shard_size)
    for file, names in split.filename_to_tensors.items():
        write_weights(folder / file, {name: weights[name] for name in names})
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        write_json(folder / "model.safetensors.index.json", index)


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """One file of weights; views of one tensor are written each by itself.

    Raises:
        OSError: it cannot be written.
    """
    alone = {name: _by_itself(tensor) for name, tensor in weights.items()}
    with disk_errors():
        save_file(alone, path, metadata={"format": "pt"})


@contextmanager
def disk_errors() -> Iterator[None]:
    """As an OSError what safetensors has an error of its own for: a full disk and the like."""
    try:
        yield
    except SafetensorError as error:
        line = str(error).strip().partition("\n")[0]
        full = "No space left" in line
        raise OSError(
            errno.ENOSPC if full else errno.EIO, "No space left on device" if full else line
        ) from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A table of fields as JSON, as transformers writes it."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tokenizer(tokenizer: Any, folder: Path) -> None:
    """The files of a tokenizer of the tokenizers library (tokenizer.json) or of transformers.

    Raises:
        ConfigError: neither.
        OutputError: it cannot be written.
    """
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
    elif hasattr(tokenizer, "to_str"):
        with replacing(folder / "tokenizer.json", "the tokenizer") as place:
            place.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    else:
        raise ConfigError(
            f"tokenizer={type(tokenizer).__name__} cannot be saved; give one of tokenizers or of transformers"
        )


def special_ids(tokenizer: Any) -> dict[str, Any]:
    """The fields of a config.json that say a tokenizer's special tokens: eos_token_id, ...

    One of transformers says which they are; in one of the tokenizers library they go by their names.
    """
    found = {}
    for name, words in _SPECIAL.items():
        id = getattr(tokenizer, f"{name}_token_id", None)
        if id is None and hasattr(tokenizer, "token_to_id"):
            ids = [tokenizer.token_to_id(word) for word in words]
            id = next((id for id in ids if id is not None), None)
        if id is not None:
            found[f"{name}_token_id"] = id
    return found


def _by_itself(tensor: Tensor) -> Tensor:
    """The tensor alone in its memory."""
    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if whole else tensor.clone(memory_format=torch.contiguous_format)
