"""Random tokens that repeat: the texts on which induction heads show themselves."""

from __future__ import annotations

from typing import overload

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.tokenizer import special_tokens
from headwise.names import ConfigError, ModelError

__all__ = ["repeated_tokens"]


@overload
def repeated_tokens(
    length: int = 64, seed: int = 0, *, model: Model, rows: int = 16
) -> Int[Tensor, "row position"]: ...
@overload
def repeated_tokens(
    length: tuple[int, int], seed: int = 0, *, model: Model, rows: int = 16
) -> list[Int[Tensor, " position"]]: ...
def repeated_tokens(
    length: int | tuple[int, int] = 64, seed: int = 0, *, model: Model, rows: int = 16
) -> Int[Tensor, "row position"] | list[Int[Tensor, " position"]]:
    """Rows of random tokens, each repeated once: what induction heads show themselves on (Olsson et al. 2022).

    In rows of one length a head that looks a fixed number of tokens back is always right; rows of lengths from a
    range tell it from one that finds the token.

    Args:
        length: tokens before the repetition, and a row is twice as long; or the least and the most, between which
            each row's length is drawn.
        seed: of the random numbers.
        model: whose vocabulary to draw from, without special tokens and bytes that are no character.
        rows: how many.

    Returns:
        ids that `profile` takes: [rows, 2 * length], or of lengths from a range a list of rows [2 * its length].

    Raises:
        ConfigError: a length or number of rows below 1, or a range that is none.
        ModelError: a model whose vocabulary is not known.
    """
    low, high = _range(length)
    if low < 1 or rows < 1:
        raise ConfigError(f"length and rows must be at least 1, came {length} and {rows}")
    ids = _vocabulary(model)
    generator = torch.Generator().manual_seed(seed)
    if isinstance(length, int):
        return ids[torch.randint(len(ids), (rows, length), generator=generator)].repeat(1, 2)
    lengths = torch.randint(low, high + 1, (rows,), generator=generator).tolist()
    return [ids[torch.randint(len(ids), (n,), generator=generator)].repeat(2) for n in lengths]


def _range(length: object) -> tuple[int, int]:
    """The least and the most length."""
    match length:
        case int():
            return length, length
        case (int() as low, int() as high) if low <= high:
            return low, high
    raise ConfigError(f"length must be a whole number or (least, most), came {length!r}")


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
