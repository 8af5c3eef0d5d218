"""What Encoder and Decoder share: embedding, blocks, final norm, and who may attend in one pass."""

from __future__ import annotations

import math
from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.names import ConfigError, ShapeError
from headwise.nn.block import Block, Surroundings
from headwise.nn.cache import KVCache
from headwise.nn.checkpointing import Checkpointed, through
from headwise.nn.config import TransformerConfig
from headwise.nn.embedding import Embedding
from headwise.nn.norms import make_norm
from headwise.nn.positions import Places, alibi, place, relative, rotary

__all__ = ["Stack", "initialise"]


class Stack(Checkpointed):
    """A stack of blocks from one configuration; each layer starts from its own random numbers.

    Args:
        config: what it is made of.
        causal: a token may look only at itself and at earlier ones.
        cross: every block also attends to a memory.
    """

    def __init__(self, config: TransformerConfig, *, causal: bool, cross: bool) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.cross = cross
        self.embedding = Embedding(config)
        self.relative = _relative_table(config)
        self.blocks = nn.ModuleList(Block(config, cross=cross) for _ in range(config.num_layers))
        self.final_norm = make_norm(config) if config.final_norm else nn.Identity()
        initialise(self, config.num_layers)

    def run(
        self,
        ids: Int[Tensor, "batch position"] | Float[Tensor, "batch position d_model"],
        *,
        key_padding_mask: Bool[Tensor, "batch position"] | None = None,
        documents: Int[Tensor, "batch position"] | None = None,
        token_types: Int[Tensor, "batch position"] | None = None,
        cache: KVCache | None = None,
        memory: Float[Tensor, "batch key d_model"] | None = None,
        memory_padding_mask: Bool[Tensor, "batch key"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """Hidden states after the last block (and the final norm, where there is one)."""
        self._check(ids, key_padding_mask, documents, cache)
        _check_memory(memory, self.cross)
        batch, query_len = ids.shape[:2]
        padding = key_padding_mask
        key_len = query_len
        if cache is not None:
            padding = cache.extend(batch, query_len, key_padding_mask)
            key_len = cache.length
        places = place(query_len, key_len, padding, documents, ids.device)
        x: Tensor = self.embedding(ids, places.queries, token_types)
        around = Surroundings(
            mask=self._mask(places, padding, documents, cache is not None),
            rotary=self._rotary(places, x.dtype),
            bias=self._bias(places, x.dtype),
            memory=memory,
            memory_mask=_padding(memory_padding_mask),
        )
        for i, block in enumerate(self.blocks):
            if cache is None:
                x = through(block, x, around) if self.checkpointing else block(x, around)
            else:
                x = block(x, around, cache.layers[i], cache.cross_layers[i])
        out: Tensor = self.final_norm(x)
        return out

    def _mask(
        self, places: Places, padding: Tensor | None, documents: Tensor | None, cached: bool
    ) -> Mask | None:
        """Who may attend, None where everyone may."""
        parts = [masks.causal()] if self.causal else []
        window = self.config.window
        if window is not None and cached and padding is not None:
            # padding may stand between real tokens here, and a window counts real tokens
            distance = places.queries[:, None, :, None] - places.keys[:, None, None, :]
            parts.append(masks.tensor(distance < window))
        elif window is not None:
            parts.append(masks.window(window, ahead=0 if self.causal else window - 1))
        if padding is not None:
            parts.append(masks.padding(key_padding_mask=padding))
        if documents is not None:
            parts.append(masks.documents(documents))
        return reduce(and_, parts) if parts else None

    def _rotary(self, places: Places, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
        if self.config.positions != "rope":
            return None
        config = self.config
        return rotary(
            places.queries, config.head_dim, config.rope_theta, dtype, config.rope_scaling
        )

    def _bias(self, places: Places, dtype: torch.dtype) -> Tensor | None:
        config = self.config
        if self.relative is not None:
            buckets = relative(
                places, config.relative_buckets, config.relative_max_distance, self.causal
            )
            of_heads: Tensor = self.relative(buckets)
            return of_heads.permute(0, 3, 1, 2).to(dtype, memory_format=torch.contiguous_format)
        if config.positions != "alibi":
            return None
        return alibi(places, config.num_heads, dtype)

    def _check(
        self,
        ids: Tensor,
        key_padding_mask: Tensor | None,
        documents: Tensor | None,
        cache: KVCache | None,
    ) -> None:
        if not self.config.features and (ids.dim() != 2 or ids.dtype.is_floating_point):
            raise ShapeError(
                f"ids must be whole numbers [batch, position], came {list(ids.shape)} of "
                f"{str(ids.dtype).removeprefix('torch.')}; add a batch axis with ids[None]"
            )
        for name, value in (("key_padding_mask", key_padding_mask), ("documents", documents)):
            if value is not None and value.shape != ids.shape[:2]:
                raise ShapeError(
                    f"{name} must be like ids, {list(ids.shape[:2])}, came {list(value.shape)}"
                    + ("; with a cache, pass that of the new tokens alone" if cache else "")
                )
        if documents is not None and cache is not None:
            raise ShapeError("documents= packs whole sequences; leave it out with a cache")
        if cache is not None and self.checkpointing and torch.is_grad_enabled():
            raise ConfigError(
                "a cache came to a model with activation checkpointing, whose blocks run twice; "
                "decode under torch.no_grad(), or nn.checkpoint_activations(model, on=False)"
            )
        length = ids.shape[1] + (0 if cache is None else cache.length)
        learned = self.config.positions == "learned" and documents is None
        if learned and length > self.config.max_length:
            raise ShapeError(
                f"{length} tokens came, the model has learned max_length="
                f"{self.config.max_length} positions; shorten the text or split it"
            )


def initialise(stack: nn.Module, num_layers: int) -> None:
    """GPT-2's start: normal(0, 0.02), biases 0; into the stream, / sqrt(2 num_layers)."""
    for name, module in stack.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            into_stream = name.endswith(("w_o", "w_out"))
            std = 0.02 / math.sqrt(2 * num_layers) if into_stream else 0.02
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def _relative_table(config: TransformerConfig) -> nn.Embedding | None:
    """The bias of each bucket of distances, for each head; made at the first layer, read by all."""
    if config.positions != "relative":
        return None
    return nn.Embedding(config.relative_buckets, config.num_heads)


def _padding(key_padding_mask: Tensor | None) -> Mask | None:
    if key_padding_mask is None:
        return None
    return masks.padding(key_padding_mask=key_padding_mask)


def _check_memory(memory: Tensor | None, cross: bool) -> None:
    if cross and memory is None:
        raise ShapeError("this decoder attends to a memory; pass memory=, the encoder's output")
    if memory is not None and not cross:
        raise ShapeError(
            "memory came, but no block attends to one; make the decoder with cross=True"
        )
