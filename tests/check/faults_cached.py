"""Faults of one path among several: the cache, chunks through it, eager attention, weights asked for.

Most are a model of transformers with one attention replaced by one written by hand, as people patch them.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    repeat_kv,
)
from transformers.models.t5.modeling_t5 import T5Attention
from zoo_parts import VOCAB, Attention, Block, Reader, config, fault, wide

import headwise as hw
from headwise.core import masks
from headwise.nn.embedding import Embedding

WINDOW = 4

TINY = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tiny(family: str, head: str = "ForCausalLM", **fields: Any) -> Any:
    """A tiny random model of transformers, its weights drawn wide."""
    config = getattr(transformers, f"{family}Config")(**{**TINY, **fields})
    return getattr(transformers, family.removesuffix("Text") + head)(config)


class OwnAttention(LlamaAttention):
    """Llama's attention by hand; `attend` is the part that goes wrong."""

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (project(hidden_states).view(shape).transpose(1, 2) for project in projections)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        held = past_key_values if cache is None else cache
        if held is not None:
            k, v = held.update(k, v, self.layer_idx)
        groups = self.num_key_value_groups
        z = self.attend(q, repeat_kv(k, groups), repeat_kv(v, groups), attention_mask)
        return self.o_proj(z.transpose(1, 2).flatten(2)), None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        first = mask is None and q.shape[2] > 1
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=first)


class FirstKey(OwnAttention):
    """is_causal with one query: the kernel's triangle sits top left, so a step sees key 0 alone."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class TopLeft(OwnAttention):
    """A step sees all; a chunk has its triangle top left."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)


class OneShort(OwnAttention):
    """A rolling cache that keeps one key too few."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if q.shape[2] == 1:
            kept = slice(max(0, k.shape[2] - (WINDOW - 1)), None)
            k, v = k[:, :, kept], v[:, :, kept]
            mask = None if mask is None else mask[..., kept]
        return super().attend(q, k, v, mask)


class StepsSeeAll(OwnAttention):
    """A step looks at all that is cached, whatever its mask hides."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return super().attend(q, k, v, None if q.shape[2] == 1 else mask)


class EagerOpen(OwnAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if self.config._attn_implementation != "eager":
            return super().attend(q, k, v, mask)
        return (q @ k.mT * self.scaling).softmax(-1) @ v


class EagerLonger(OwnAttention):
    """Eager attention in another scale than the fused one: it sees no more, and says something else."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        eager = self.config._attn_implementation == "eager"
        return super().attend(q * 1.1 if eager else q, k, v, mask)


class LateRotary(LlamaRotaryEmbedding):
    """Steps after the first count their position from the length that holds themselves too."""

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        late = (position_ids > 0) & (position_ids.shape[1] == 1)
        return super().forward(x, position_ids + late)


class LateEmbedding(Embedding):
    """The same in a table of learned positions."""

    def forward(self, ids: Tensor, positions: Tensor, *args: Any) -> Tensor:
        late = (positions > 0) & (ids.shape[1] == 1)
        return super().forward(ids, positions + late, *args)


class OpenGPT2(GPT2Attention):
    """GPT-2's attention that forgets what it was given."""

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        kwargs["attention_mask"] = None
        kept, self.is_causal = self.is_causal, False
        out = super().forward(hidden_states, *args, **kwargs)
        self.is_causal = kept
        return out


class OpenCross(T5Attention):
    """T5's cross-attention without the encoder's mask."""

    def forward(self, hidden_states: Tensor, mask: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().forward(hidden_states, None, *args, **kwargs)


class Asked(Reader):
    """Returns the pattern where it is asked for, from a second path that lacks the mask."""

    def forward(self, ids: Tensor, return_weights: bool = False) -> Any:
        for block in self.blocks:
            block.attention.asked = return_weights
        logits = super().forward(ids)
        return (
            (logits, [block.attention.pattern for block in self.blocks])
            if return_weights
            else logits
        )


class Telling(Attention):
    asked, open = False, False

    def weigh(self, scores: Tensor, allowed: Tensor) -> Tensor:
        lost = self.asked and self.open
        self.pattern = super().weigh(scores, torch.ones_like(allowed) if lost else allowed)
        return self.pattern


class TellingOpen(Telling):
    open = True


def patched(attention: type[LlamaAttention], family: str = "Llama", **fields: Any) -> nn.Module:
    """A model of transformers whose second layer has another attention, of the same weights."""
    model = tiny(family, **fields)
    old = model.model.layers[1].self_attn
    new = attention(old.config, 1)
    new.load_state_dict(old.state_dict())
    model.model.layers[1].self_attn = new
    return model


def late_rotary() -> nn.Module:
    model = tiny("Llama")
    model.model.rotary_emb = LateRotary(model.config)
    return model


def late_embedding() -> nn.Module:
    of = config(positions="learned", max_length=256)
    model = wide(hw.nn.Decoder(of))
    late = LateEmbedding(of)
    late.load_state_dict(model.embedding.state_dict())
    model.embedding = late
    return model


def open_gpt2() -> nn.Module:
    model = tiny("GPT2", "LMHeadModel", n_layer=3, n_embd=24, n_head=3)
    old = model.transformer.h[1].attn
    new = OpenGPT2(old.config, layer_idx=1)
    new.load_state_dict(old.state_dict())
    model.transformer.h[1].attn = new
    return model


def open_cross() -> nn.Module:
    model = tiny(
        "T5",
        "ForConditionalGeneration",
        d_model=24,
        d_kv=8,
        d_ff=40,
        num_layers=2,
        num_heads=3,
        decoder_start_token_id=0,
        initializer_factor=2.0,
    )
    old = model.decoder.block[1].layer[1].EncDecAttention
    new = OpenCross(model.decoder.config, False, 1)
    new.load_state_dict(old.state_dict())
    model.decoder.block[1].layer[1].EncDecAttention = new
    return model


RWKV = {"attention_hidden_size": 32, "context_length": 256}
RECURRENT_GEMMA = {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 8}

SECOND = "model.layers.1.self_attn"

FAULTS = [
    fault("a step that sees key 0 alone", lambda: patched(FirstKey), "cached", SECOND),
    fault("a chunk masked top left", lambda: patched(TopLeft), "chunked", SECOND),
    fault(
        "rolling cache one short",
        lambda: patched(OneShort, "Mistral", sliding_window=WINDOW, attention_bias=False),
        "cached",
        SECOND,
    ),
    fault("a step that sees padding", lambda: patched(StepsSeeAll), "cached", SECOND),
    fault("eager attention without mask", lambda: patched(EagerOpen), "future", SECOND),
    fault("eager attention in another scale", lambda: patched(EagerLonger), "weights", SECOND),
    fault(
        "mask dropped for the weights",
        lambda: Asked(Block(Telling()), Block(TellingOpen())),
        "weights",
        "blocks.1.attention",
    ),
    fault("rotary position off by one", late_rotary, "cached", "model.rotary_emb"),
    fault("learned position off by one", late_embedding, "cached", "embedding"),
    fault("GPT-2 with one layer open", open_gpt2, "future", "transformer.h.1.attn"),
    fault(
        "T5 that sees the source's padding",
        open_cross,
        "memory",
        "decoder.block.1.layer.1.EncDecAttention",
    ),
    fault(
        "transformers' Mamba, whose chunks forget the convolution",
        lambda: tiny("Mamba", state_size=5, time_step_rank=3),
        "chunked",
        "backbone.layers.0.mixer",
        parts=True,
    ),
    fault(
        "transformers' Rwkv, whose mask is unused",
        lambda: tiny("Rwkv", **RWKV),
        "padding",
        "rwkv.blocks.0.attention",
        parts=True,
    ),
    fault(
        "transformers' RecurrentGemma, whose convolution sees padding",
        lambda: tiny("RecurrentGemma", **RECURRENT_GEMMA),
        "padding",
        "model.layers.0.temporal_block",
        parts=True,
    ),
    fault(
        "transformers' window wider than declared",
        lambda: tiny("Mistral", sliding_window=5),
        "future",
        "model.layers.0.self_attn",
        mask=masks.causal() & masks.window(4),
        layers=2,
    ),
]
