"""Multi-head attention as a module: one packed projection, `attend`, one output projection.

Not covered: separate key and value sizes, biases on keys alone. Positions (RoPE tables, ALiBi
biases) come from the caller, so the module itself knows no positions.
"""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.attention import attend
from headwise.core.masks import Mask
from headwise.core.taps import tap_of
from headwise.names import ConfigError, ShapeError
from headwise.nn.cache import LayerCache
from headwise.nn.config import check_groups
from headwise.nn.positions import Rotary, rotate

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Self- or cross-attention with multi-head, grouped-query or multi-query heads.

    `w_qkv` packs the projections: num_heads * head_dim rows of queries, then num_kv_heads *
    head_dim rows of keys, then as many of values. Query head h reads KV head
    h // (num_heads / num_kv_heads), or the one that `groups` gives it. A layer may have no head
    at all: it then adds the bias of its output alone.

    Args:
        d_model: width of the stream it reads and writes.
        num_heads: query heads.
        num_kv_heads: key/value heads; None = num_heads (multi-head), 1 = multi-query.
        head_dim: size of a head, free of d_model; None = d_model // num_heads.
        bias: biases on the packed projection, and on the output unless `out_bias` says otherwise.
        out_bias: bias on the output projection; None = as `bias`.
        qk_norm: epsilon of an RMSNorm over head_dim of each query and key, before they are turned;
            None = no norm.
        dropout: rate on the pattern, in training only.
        scale: factor on q k^T; None = 1 / sqrt(head_dim).

    Attributes:
        groups: how many query heads read each KV head, where heads were cut and it is not as many
            for all; None = as many.
        heads: ids that its heads had before some were cut, by which a `bias` of all heads is
            read; None = they are all there.

    Raises:
        ConfigError: heads that do not divide evenly.
    """

    groups: tuple[int, ...] | None
    heads: tuple[int, ...] | None

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        *,
        out_bias: bool | None = None,
        qk_norm: float | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_groups(num_heads, num_kv_heads)
        if head_dim is None and d_model % num_heads:
            raise ConfigError(
                f"d_model={d_model} is not a multiple of num_heads={num_heads}; "
                "give head_dim (any size works)"
            )
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = d_model // num_heads if head_dim is None else head_dim
        self.dropout = dropout
        self.scale = scale
        self.groups = None
        self.heads = None
        rows = (num_heads + 2 * num_kv_heads) * self.head_dim
        self.w_qkv = nn.Linear(d_model, rows, bias=bias)
        self.w_o = nn.Linear(
            num_heads * self.head_dim, d_model, bias=bias if out_bias is None else out_bias
        )
        normed = qk_norm is not None
        self.q_norm = nn.RMSNorm(self.head_dim, eps=qk_norm) if normed else None
        self.k_norm = nn.RMSNorm(self.head_dim, eps=qk_norm) if normed else None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        mask: Mask | None = None,
        memory: Float[Tensor, "batch key d_model"] | None = None,
        cache: LayerCache | None = None,
        *,
        rotary: Rotary | None = None,
        bias: Float[Tensor, "#batch #head #query key"] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from x to itself, or to `memory` where given.

        Args:
            x: the tokens that look.
            mask: who may attend; None = everyone to everyone.
            memory: the tokens looked at in cross-attention.
            cache: earlier keys and values of this layer; with `memory`, its projection, made once.
            rotary: cos and sin of the new tokens (`positions.rotary`), for self-attention.
            bias: added to the scores, for instance ALiBi.

        Raises:
            ShapeError: x or memory not [batch, position, d_model].
        """
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise _wrong_stream("x", x, self.d_model)
        if not self.num_heads:
            nothing: Tensor = self.w_o(x.new_zeros(*x.shape[:2], 0))
            return nothing
        if memory is None:
            q, k, v = self._project(x, rotary)
            if cache is not None:
                k, v = cache.append(k, v)
        else:
            q = _normed(self.q_norm, self._project_rows(x, 0, self.num_heads))
            k, v = self._of_memory(memory, cache)
        if self.groups is not None:
            each = [kv_head for kv_head, heads in enumerate(self.groups) for _ in range(heads)]
            k, v = k[:, each], v[:, each]
        tap = tap_of(self)
        z = attend(
            q,
            k,
            v,
            mask,
            scale=self.scale,
            bias=self._own_bias(bias),
            gate=None if tap is None else self._own_gate(tap.gate),
            dropout=self.dropout if self.training else 0.0,
            observers=() if tap is None else tap.observers,
            meter=None if tap is None else tap.meter,
            edit=None if tap is None else tap.edit,
        )
        out: Tensor = self.w_o(z.transpose(1, 2).flatten(2))
        return out

    def _project(self, x: Tensor, rotary: Rotary | None) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of the same tokens in one product, each [batch, head, position, head_dim]."""
        heads, kv_heads = self.num_heads, self.num_kv_heads
        packed: Tensor = self.w_qkv(x)
        packed = packed.view(*x.shape[:2], heads + 2 * kv_heads, self.head_dim)
        # split first, then transpose: the other way round the backward copies all gradients once more
        parts = packed.split_with_sizes((heads, kv_heads, kv_heads), dim=2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        q, k = _normed(self.q_norm, q), _normed(self.k_norm, k)
        if rotary is not None:
            q, k = rotate(q, rotary), rotate(k, rotary)
        return q, k, v

    def _project_rows(self, x: Tensor, first: int, count: int) -> Tensor:
        """Heads first .. first + count of the packed projection alone."""
        rows = slice(first * self.head_dim, (first + count) * self.head_dim)
        bias = self.w_qkv.bias
        out = F.linear(x, self.w_qkv.weight[rows], None if bias is None else bias[rows])
        return out.view(*x.shape[:2], count, self.head_dim).transpose(1, 2)

    def _own_bias(self, bias: Tensor | None) -> Tensor | None:
        """Of a bias of all heads there were, that of the heads there are."""
        if bias is None or self.heads is None or bias.shape[1] in (1, self.num_heads):
            return bias
        return bias[:, list(self.heads)]

    def _own_gate(self, gate: Tensor | None) -> Tensor | None:
        """Of a gate of all heads of the layer, that of the heads there are here."""
        return gate

    def _of_memory(self, memory: Tensor, cache: LayerCache | None) -> tuple[Tensor, Tensor]:
        """k and v of the memory, taken from the cache where it holds them."""
        held = None if cache is None else cache.held()
        if held is not None:
            return held
        if memory.dim() != 3 or memory.shape[-1] != self.d_model:
            raise _wrong_stream("memory", memory, self.d_model)
        packed = self._project_rows(memory, self.num_heads, 2 * self.num_kv_heads)
        k, v = packed.chunk(2, dim=1)
        k = _normed(self.k_norm, k)
        if cache is not None:
            cache.keep(k, v)
        return k, v

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        heads = f"num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"
        return f"{heads}, head_dim={self.head_dim}"


def _normed(norm: nn.Module | None, heads: Tensor) -> Tensor:
    out: Tensor = heads if norm is None else norm(heads)
    return out


def _wrong_stream(name: str, x: Tensor, d_model: int) -> ShapeError:
    return ShapeError(
        f"{name} must be [batch, position, d_model={d_model}], came {list(x.shape)}; "
        "add a batch axis with x[None], or check d_model"
    )
