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
from headwise.nn.families import FAMILIES

__all__ = [
    "disk_errors",
    "special_ids",
    "tokenizer_config",
    "write_json",
    "write_shards",
    "write_tokenizer",
    "write_weights",
]

_PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""The class of transformers 4 and 5 that reads a tokenizer.json as it stands; 5 knows both names."""

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


def write_tokenizer(
    tokenizer: Any, folder: Path, model_type: str = "", max_length: int | None = None
) -> None:
    """The files of a tokenizer: tokenizer.json, and what makes transformers read it as it stands.

    Args:
        tokenizer: of the tokenizers library, or of transformers, which says itself what it is.
        folder: where they go.
        model_type: of the model beside it: by it alone transformers would take that family's own splitting.
        max_length: how many tokens the model reads; None = any number.

    Raises:
        ConfigError: neither.
        OutputError: it cannot be written.
    """
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
        said, path = FAMILIES.get(model_type), folder / "tokenizer_config.json"
        if said is not None and type(tokenizer).__name__ in _PLAIN:
            write_json(path, {**json.loads(path.read_text(encoding="utf-8")), **said.tokenizer})
    elif hasattr(tokenizer, "to_str"):
        with replacing(folder / "tokenizer.json", "the tokenizer") as place:
            place.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
        with replacing(folder / "tokenizer_config.json", "the tokenizer") as place:
            write_json(place, tokenizer_config(tokenizer, model_type, max_length))
    else:
        raise ConfigError(
            f"tokenizer={type(tokenizer).__name__} cannot be saved; give one of tokenizers or of transformers"
        )


def tokenizer_config(tokenizer: Any, model_type: str, max_length: int | None) -> dict[str, Any]:
    """What tokenizer_config.json says, so that AutoTokenizer reads a tokenizer.json as the tokenizers library does.

    Args:
        tokenizer: of the tokenizers library.
        model_type, max_length: as `write_tokenizer` takes them.
    """
    family = FAMILIES.get(model_type)
    said: dict[str, Any] = {"tokenizer_class": _PLAIN[0], "clean_up_tokenization_spaces": False}
    for name, id in special_ids(tokenizer).items():
        said[name.removesuffix("_id")] = tokenizer.id_to_token(id)
    if max_length is not None:
        said["model_max_length"] = max_length
    return said if family is None else {**said, **family.tokenizer}


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
