"""Random tokens that repeat: the texts on which induction heads show themselves."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.tokenizer import special_tokens
from headwise.names import ConfigError, ModelError

__all__ = ["repeated_tokens"]


def repeated_tokens(
    length: int = 64, seed: int = 0, *, model: Model, rows: int = 16
) -> Int[Tensor, "row position"]:
    """Rows of random tokens, each repeated once: what induction heads show themselves on (Olsson et al. 2022).

    Args:
        length: tokens before the repetition; a row is twice as long.
        seed: of the random numbers.
        model: whose vocabulary to draw from, without special tokens and bytes that are no character.
        rows: how many.

    Returns:
        ids that `profile` takes, [rows, 2 * length].

    Raises:
        ConfigError: a length or number of rows below 1.
        ModelError: a model whose vocabulary is not known.
    """
    if length < 1 or rows < 1:
        raise ConfigError(f"length and rows must be at least 1, came {length} and {rows}")
    ids = _vocabulary(model)
    drawn = torch.randint(len(ids), (rows, length), generator=torch.Generator().manual_seed(seed))
    return ids[drawn].repeat(1, 2)


def _vocabulary(model: Model) -> Tensor:
    """The ids of tokens that stand for text: no special ones, no bytes of which several make a character."""
    config = getattr(model.module, "config", None)
    text = getattr(config, "get_text_config", None)
    config = config if text is None else text()
    size = getattr(config, "vocab_size", None)
    if not isinstance(size, int):
        raise ModelError(f"{model.name} has no vocab_size in its config; make rows of ids yourself")
    decode = getattr(model.tokenizer, "decode", None)
    if decode is None:
        return torch.arange(size)
    special = special_tokens(model.tokenizer)
    texts = {i: decode([i], skip_special_tokens=False) for i in range(size) if i not in special}
    return torch.tensor([i for i, text in texts.items() if text and "\ufffd" not in text])
