"""Neurons by brute force: the whole of every layer's activations, written out from the model's own weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from see_help import byte_tokenizer

import headwise as hw
from headwise.nn import Decoder, TransformerConfig


def planted(letter: str = "q", layer: int = 0, neuron: int = 3) -> hw.Model:
    """A causal model over bytes without attention, one of whose neurons fires exactly on one letter.

    Each byte has a channel of its own: the neuron's row of W1 reads the letter's, that of W2 writes to that of `!`.
    """
    config = TransformerConfig(
        vocab_size=257, d_model=258, num_layers=2, num_heads=1, d_ff=8, activation="relu",
        max_length=8000, tie_embeddings=True,
    )  # fmt: skip
    model = hw.load(Decoder(config), tokenizer=byte_tokenizer())
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.zero_()
        for path, part in model.module.named_modules():
            if "norm" in path and hasattr(part, "weight"):
                part.weight.fill_(1.0)
        model.module.embedding.tokens.weight.copy_(torch.eye(257, 258))
        ffn = model.module.blocks[layer].ffn
        ffn.w_in.weight[neuron, id_of(letter)] = 1.0
        ffn.w_in.bias[neuron] = -1.0
        ffn.w_out.weight[id_of("!"), neuron] = 2.0
    return model


def id_of(letter: str) -> int:
    (id,) = byte_tokenizer().encode(letter).ids
    return int(id)


def activations_of(model: hw.Model, inputs: dict[str, Any], ups: dict[str, Any]) -> dict[str, Any]:
    """What each W2 should be given: `ups` says for each path of a W1 (or of the module) how it is computed."""
    seen: dict[str, Any] = {}
    handles = []
    for path, make in ups.items():
        module = model.module.get_submodule(path)

        def hook(module: Any, given: Any, out: Any, path: str = path, make: Any = make) -> None:
            seen[path] = make(module, given[0].detach())[0]

        handles.append(module.register_forward_hook(hook))
    with torch.no_grad():
        model.run(inputs)
    for handle in handles:
        handle.remove()
    return seen


def strongest(values: np.ndarray, top: int) -> np.ndarray:
    """[neuron, top] of [token, neuron], the largest above 0 first, NaN where there are fewer."""
    ordered = -np.sort(-values, axis=0)[:top]
    ordered = np.where(ordered > 0, ordered, np.nan)
    padded = np.full((top, values.shape[1]), np.nan)
    padded[: len(ordered)] = ordered
    return padded.T
