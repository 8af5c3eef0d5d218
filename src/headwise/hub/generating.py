"""Text that a model writes on: the likeliest token each time, with a cache.

Our own decoders step through their cache here; models of transformers go on with their own `generate`, which can
do more. Not covered: drawing tokens, beams, batches of unequal lengths.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.hub.load import Model, evaluating
from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import Decoder

__all__ = ["generate"]


def generate(
    model: Model, text: str | Int[Tensor, "batch position"], max_new_tokens: int = 32
) -> str | Int[Tensor, "batch written"]:
    """What a causal model writes after a text, greedily, until it ends the text or has written enough.

    Works on models that were cut as on others, and within `ablate`.

    Args:
        model: from `load`.
        text: a text; or rows of ids of equal length.
        max_new_tokens: how many tokens at most.

    Returns:
        Of a text what comes after it; of ids the rows with the new ids after them.

    Raises:
        ModelError: the model writes no text, or has no tokenizer to read one with.
        TextError: an empty text, or no room for one more token.
        ConfigError: max_new_tokens below 1.
    """
    if max_new_tokens < 1:
        raise ConfigError(f"max_new_tokens must be at least 1, came {max_new_tokens}")
    ids = text if isinstance(text, Tensor) else _ids(model, text)
    ids = ids.to(model.device)
    if model.max_length is not None and ids.shape[1] >= model.max_length:
        raise TextError(
            f"the text is {ids.shape[1]} tokens, and {model.name} reads {model.max_length}: nothing fits after it"
        )
    with torch.no_grad(), evaluating(model.module):
        made = _written(model, ids, max_new_tokens)
    if isinstance(text, Tensor):
        return made
    tokenizer: Any = model.tokenizer
    told: str = tokenizer.decode(made[0, ids.shape[1] :].tolist(), skip_special_tokens=True)
    return told


def _ids(model: Model, text: str) -> Tensor:
    if model.tokenizer is None:
        raise ModelError(f"{model.name} has no tokenizer; give rows of ids")
    if not text.strip():
        raise TextError("the text is empty; give at least one word")
    return torch.tensor([model.tokenizer.encode(text).ids])


def _written(model: Model, ids: Tensor, most: int) -> Tensor:
    module: Any = model.module
    if isinstance(module, Decoder):
        room = most if model.max_length is None else min(most, model.max_length - ids.shape[1])
        return _greedy(module, ids, room, _ends(model))
    can = getattr(module, "can_generate", None)
    if not model.foreign or model.encoder_decoder or can is None or not can():
        raise ModelError(
            f"{model.name} writes no text after another: it is no causal language model"
        )
    every = torch.ones_like(ids)
    made: Tensor = module.generate(
        input_ids=ids, attention_mask=every, max_new_tokens=most, do_sample=False, num_beams=1
    )
    return made


def _greedy(decoder: Decoder, ids: Tensor, most: int, ends: Tensor) -> Tensor:
    cache = decoder.new_cache(ids.shape[1] + most)
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    ends, new = ends.to(ids.device), ids
    for _ in range(most):
        new = decoder(new, cache=cache)[:, -1:].argmax(-1)
        if len(ends):
            new = torch.where(ended[:, None], ends[0], new)
        ids = torch.cat([ids, new], 1)
        ended |= torch.isin(new[:, 0], ends)
        if bool(ended.all()):
            break
    return ids


def _ends(model: Model) -> Tensor:
    """The ids that end a text."""
    said = (model.config or {}).get("eos_token_id")
    ids = said if isinstance(said, list) else [] if said is None else [said]
    return torch.tensor(ids, dtype=torch.long)
