"""One Transformer block: self-attention, cross-attention where asked, feed-forward."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.masks import Mask
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.cache import LayerCache
from headwise.nn.config import TransformerConfig
from headwise.nn.feedforward import FeedForward
from headwise.nn.norms import make_norm
from headwise.nn.positions import Rotary

__all__ = ["Block", "Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What every block of one forward pass shares: masks, positions, the memory looked at."""

    mask: Mask | None = None
    rotary: Rotary | None = None
    bias: Float[Tensor, "#batch #head #query key"] | None = None
    memory: Float[Tensor, "batch memory d_model"] | None = None
    memory_mask: Mask | None = None


class Block(nn.Module):
    """x + attention(norm(x)), then x + ffn(norm(x)); with norm_position "post", norm(x + ...).

    Args:
        config: sizes, norms, activation, dropout.
        cross: put a cross-attention over `around.memory` between the two.
    """

    def __init__(self, config: TransformerConfig, *, cross: bool = False) -> None:
        super().__init__()
        self.pre_norm = config.norm_position == "pre"
        self.attention = _make_attention(config)
        self.attention_norm = make_norm(config)
        self.cross_attention = _make_attention(config) if cross else None
        self.cross_norm = make_norm(config) if cross else None
        self.ffn = FeedForward(config.d_model, config.d_ff, config.activation, config.ffn_bias)
        self.ffn_norm = make_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        around: Surroundings = Surroundings(),
        cache: LayerCache | None = None,
        cross_cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """The stream after this block.

        Args:
            x: the stream before it.
            around: masks, positions and memory, the same for every block.
            cache: this block's earlier keys and values.
            cross_cache: this block's projection of the memory.
        """
        pre = self.pre_norm
        y = self.attention(
            self.attention_norm(x) if pre else x,
            around.mask,
            cache=cache,
            rotary=around.rotary,
            bias=around.bias,
        )
        x = x + self.dropout(y)
        x = x if pre else self.attention_norm(x)
        if self.cross_attention is not None and self.cross_norm is not None:
            y = self.cross_attention(
                self.cross_norm(x) if pre else x,
                around.memory_mask,
                memory=around.memory,
                cache=cross_cache,
            )
            x = x + self.dropout(y)
            x = x if pre else self.cross_norm(x)
        x = x + self.dropout(self.ffn(self.ffn_norm(x) if pre else x))
        return x if pre else self.ffn_norm(x)


def _make_attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        config.num_kv_heads,
        config.head_dim,
        config.attention_bias,
        out_bias=config.attention_out_bias,
        qk_norm=config.norm_eps if config.qk_norm else None,
        dropout=config.attention_dropout,
        scale=config.attention_scale,
    )
