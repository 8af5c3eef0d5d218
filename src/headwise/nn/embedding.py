"""What a stack reads first: tokens, positions, segments, norm, dropout."""

from __future__ import annotations

import math

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

    Sinusoidal positions are added to embeddings times sqrt(d_model) (Vaswani et al. 2017, 3.4);
    learned ones and BERT's segments are added as they are.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.sinusoidal = config.positions == "sinusoidal"
        learned = config.positions == "learned"
        self.tokens = nn.Embedding(config.vocab_size, d_model)
        self.positions = nn.Embedding(config.max_length, d_model) if learned else None
        self.segments = nn.Embedding(config.token_types, d_model) if config.token_types else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        ids: Int[Tensor, "batch position"],
        positions: Int[Tensor, "#batch position"],
        token_types: Int[Tensor, "batch position"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """The stream before the first block.

        Args:
            ids: token ids.
            positions: number of each token in its sequence.
            token_types: BERT's segment of each token; None = segment 0.

        Raises:
            ShapeError: token types given to a model without segments.
        """
        x: Tensor = self.tokens(ids)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if token_types is None else token_types)
        elif token_types is not None:
            raise ShapeError("token_types came, but this model has no segments (token_types=0)")
        if self.positions is not None:
            x = x + self.positions(positions)
        if self.sinusoidal:
            x = x * math.sqrt(x.shape[-1]) + sinusoidal(positions, x.shape[-1]).to(x.dtype)
        if self.norm is not None:
            x = self.norm(x)
        out: Tensor = self.dropout(x)
        return out

    def unembed(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """The token embedding as output matrix, applied to hidden states."""
        return F.linear(hidden, self.tokens.weight)
