"""BERT's head for hidden words: a layer and its norm, then the token embedding and a bias for each token."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.nn.config import TransformerConfig
from headwise.nn.feedforward import activation_of
from headwise.nn.norms import make_norm

__all__ = ["MaskedHead"]


class MaskedHead(nn.Module):
    """norm(act(dense(x))), and the bias of what an output matrix makes of it (Devlin et al. 2018).

    Args:
        config: sizes, norm, and the activation, of gated ones that of the gate.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = activation_of(config.activation)
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.norm = make_norm(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position d_model"]:
        """What the output matrix is applied to; `bias` is added to the logits afterwards.

        Args:
            hidden: what the encoder gives.
        """
        out: Tensor = self.norm(self.activation(self.dense(hidden)))
        return out
