"""The loss of the next token without all logits at once: the output matrix applied piece by piece.

-log p of a token needs the logarithm of the sum over all tokens of the vocabulary, which is added up over pieces of
it (Milakov & Gimelshein 2018), so that no logits go to memory and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.hub.load import Model
from headwise.nn import Decoder

__all__ = ["Unembedding", "negative_logs", "unembedding_of"]

_TOKENS, _VOCABULARY = 2048, 1024
"""How many tokens and logits of each are worked on at a time on a CPU: what fits its cache."""


@dataclass(frozen=True, eq=False)
class Unembedding:
    """Where a model makes logits of hidden states: the method of an object, and the matrix it applies."""

    owner: Any
    name: str
    weight: Float[Tensor, "vocab_size d_model"]
    bias: Float[Tensor, " vocab_size"] | None

    @contextmanager
    def put_off(self) -> Iterator[list[Tensor]]:
        """Within it the model makes no logits (their last axis is empty); the hidden states come in the list."""
        held: list[Tensor] = []
        own = vars(self.owner).get(self.name)

        def taken(hidden: Tensor) -> Tensor:
            held.append(hidden)
            return hidden[..., :0]

        setattr(self.owner, self.name, taken)
        try:
            yield held
        finally:
            if own is None:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, own)


def unembedding_of(model: Model) -> Unembedding | None:
    """Where this model makes logits; None where that is not known."""
    decoders = [part for part in model.module.modules() if isinstance(part, Decoder)]
    if len(decoders) == 1:
        own = decoders[0]
        matrix = own.embedding.tokens if own.unembed is None else own.unembed
        return Unembedding(own, "logits", matrix.weight, None)
    found = getattr(model.module, "get_output_embeddings", lambda: None)()
    if isinstance(found, nn.Linear):
        return Unembedding(found, "forward", found.weight, found.bias)
    return None


def negative_logs(
    unembedding: Unembedding,
    hidden: Float[Tensor, "token d_model"],
    goal: Int[Tensor, " token"],
) -> Float[Tensor, " token"]:
    """-log p(goal | hidden) of each token, in nats."""
    rows = _TOKENS if hidden.device.type == "cpu" else 8 * _TOKENS
    pieces = [
        _piece(unembedding, h, g) for h, g in zip(hidden.split(rows), goal.split(rows), strict=True)
    ]
    return torch.cat(pieces)


def _piece(unembedding: Unembedding, hidden: Tensor, goal: Tensor) -> Tensor:
    weight, bias = unembedding.weight, unembedding.bias
    width = _VOCABULARY if hidden.device.type == "cpu" else 16 * _VOCABULARY
    most = hidden.new_full((len(hidden),), float("-inf"), dtype=torch.float32)
    total, own = torch.zeros_like(most), torch.zeros_like(most)
    for start in range(0, len(weight), width):
        logits = F.linear(
            hidden,
            weight[start : start + width],
            None if bias is None else bias[start : start + width],
        ).float()
        here = (goal >= start) & (goal < start + logits.shape[1])
        at = (goal - start).clamp(0, logits.shape[1] - 1)
        own = torch.where(here, logits.gather(1, at[:, None])[:, 0], own)
        higher = torch.maximum(most, logits.amax(1))
        total = total * torch.exp(most - higher)
        total += logits.sub_(higher[:, None]).exp_().sum(1)
        most = higher
    return most + total.log() - own
