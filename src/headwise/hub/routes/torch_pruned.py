"""torch's own attention after heads were cut: torch's function wants heads that fill the stream, `attend` not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headwise.core.taps import Tap, tap_of
from headwise.hub.kept import Kept, kept_of
from headwise.hub.routes.torch_attention import by_attend
from headwise.hub.routes.torch_call import Reader
from headwise.names import ModelError

__all__ = ["PrunedAttention", "become_pruned"]


class PrunedAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention with some of its heads: `embed_dim` is the stream's width still."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As nn.MultiheadAttention's; an attn_mask by heads may be of all it had or of the kept."""
        turned = self.batch_first and query.dim() == 3
        streams = [x.transpose(0, 1) if turned else x for x in (query, key, value)]
        kept = kept_of(self)
        assert kept is not None
        if not kept.heads:
            out, weights = self._nothing(streams[0], streams[1], need_weights, average_attn_weights)
        else:
            masks = {"attn_mask": _of_kept(attn_mask, kept), "key_padding_mask": key_padding_mask}
            wanted = {"need_weights": need_weights, "average_attn_weights": average_attn_weights}
            call = self._call(*streams) | masks | wanted | {"is_causal": is_causal}
            out, weights = by_attend(call, tap_of(self) or Tap(), Reader(), self.out_proj)
        return out.transpose(0, 1) if turned else out, weights

    def _call(self, query: Tensor, key: Tensor, value: Tensor) -> dict[str, Any]:
        """The arguments of torch's function that are the module's own."""
        return {
            "query": query,
            "key": key,
            "value": value,
            "num_heads": self.num_heads,
            "use_separate_proj_weight": self.in_proj_weight is None,
            "in_proj_weight": self.in_proj_weight,
            "in_proj_bias": self.in_proj_bias,
            "q_proj_weight": self.q_proj_weight,
            "k_proj_weight": self.k_proj_weight,
            "v_proj_weight": self.v_proj_weight,
            "bias_k": self.bias_k,
            "bias_v": self.bias_v,
            "add_zero_attn": self.add_zero_attn,
            "static_k": None,
            "static_v": None,
            "dropout_p": self.dropout,
            "training": self.training,
        }

    def _nothing(
        self, query: Tensor, key: Tensor, need_weights: bool, average: bool
    ) -> tuple[Tensor, Tensor | None]:
        """What a layer without heads adds: its bias."""
        out = self.out_proj(query.new_zeros(*query.shape[:-1], 0))
        if not need_weights:
            return out, None
        batch = query.shape[1:-1]
        heads = () if average else (0,)
        return out, query.new_zeros(*batch, *heads, query.shape[0], key.shape[0])


def become_pruned(module: nn.Module) -> None:
    """Let a module of torch's attention run with the heads it has.

    Raises:
        ModelError: a class built upon torch's, whose forward is its own.
    """
    if isinstance(module, PrunedAttention):
        return
    if type(module) is not nn.MultiheadAttention:
        raise ModelError(
            f"{type(module).__name__} cannot be cut: it builds upon torch.nn.MultiheadAttention in a way of its own"
        )
    module._qkv_same_embed_dim = False  # which keeps torch from its fused path
    module.__class__ = PrunedAttention


def _of_kept(mask: Tensor | None, kept: Kept) -> Tensor | None:
    """Of a mask [batch * head, query, key] of all heads those that are kept."""
    if mask is None or mask.dim() != 3 or len(kept.heads) == kept.num_heads:
        return mask
    if len(mask) % kept.num_heads:
        return mask
    by_head = mask.unflatten(0, (-1, kept.num_heads))
    picked: Tensor = by_head.index_select(1, torch.tensor(kept.heads, device=mask.device))
    return picked.flatten(0, 1)
