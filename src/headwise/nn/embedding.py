"""What a stack reads first: tokens, positions, segments, norm, dropout."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.names import ShapeError
from headwise.nn.config import TransformerConfig
from headwise.nn.norms import make_norm
from headwise.nn.positions import sinusoidal

__all__ = ["Embedding"]


class Embedding(nn.Module):
    """Token ids to the stream [batch, position, d_model].

    Sinusoidal positions are added to embeddings times sqrt(d_model) (Vaswani et al. 2017, 3.4),
    and so are others where config.scale_embeddings says so; learned positions and BERT's segments
    are added as they are. Where config.features is set there are no tokens: what comes is the
    stream itself, and gets its positions.
    """

    tokens: nn.Embedding
    shared: Embedding | None = None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.sinusoids = config.sinusoids if config.positions == "sinusoidal" else None
        self.scale = math.sqrt(d_model) if config.scale_embeddings else None
        self.offset = config.position_offset
        rows = config.max_length + config.position_offset
        if not config.features:
            self.tokens = nn.Embedding(config.vocab_size, d_model)
        self.positions = nn.Embedding(rows, d_model) if config.positions == "learned" else None
        self.segments = nn.Embedding(config.token_types, d_model) if config.token_types else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        ids: Int[Tensor, "batch position"] | Float[Tensor, "batch position d_model"],
        positions: Int[Tensor, "#batch position"],
        token_types: Int[Tensor, "batch position"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """The stream before the first block.

        Args:
            ids: token ids; or the stream itself, where it was made of something else.
            positions: number of each token in its sequence.
            token_types: BERT's segment of each token; None = segment 0.

        Raises:
            ShapeError: token types given to a model without segments.
        """
        x: Tensor = ids if ids.dtype.is_floating_point else self.tokens(ids)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if token_types is None else token_types)
        elif token_types is not None:
            raise ShapeError("token_types came, but this model has no segments (token_types=0)")
        if self.scale is not None:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(positions + self.offset if self.offset else positions)
        if self.sinusoids is not None:
            x = x + sinusoidal(positions, x.shape[-1], self.sinusoids).to(x.dtype)
        if self.norm is not None:
            x = self.norm(x)
        out: Tensor = self.dropout(x)
        return out

    def share(self, other: Embedding) -> None:
        """Read tokens by the table that another embedding has, from now on.

        The table stays the other's alone: it is saved once, and moved, copied and loaded there
        together with the model that holds both.
        """
        del self.tokens
        object.__setattr__(self, "shared", other)  # not registered here

    def __getattr__(self, name: str) -> Any:
        """What is not held here: the table of the other embedding, as it is now."""
        if name == "tokens" and self.shared is not None and name not in self._modules:
            return self.shared.tokens
        return super().__getattr__(name)

    def unembed(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """The token embedding as output matrix, applied to hidden states."""
        return F.linear(hidden, self.tokens.weight)
