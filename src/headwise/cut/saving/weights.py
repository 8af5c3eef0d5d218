"""Weights as safetensors, in one file or several with their index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

__all__ = ["write_json", "write_weights"]


def write_weights(folder: Path, weights: Mapping[str, Tensor], max_shard_size: int | str) -> None:
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
        part = {name: _by_itself(weights[name]) for name in names}
        save_file(part, folder / file, metadata={"format": "pt"})
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        write_json(folder / "model.safetensors.index.json", index)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A table of fields as JSON, as transformers writes it."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _by_itself(tensor: Tensor) -> Tensor:
    """The tensor alone in its memory."""
    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if whole else tensor.clone(memory_format=torch.contiguous_format)
