"""Encoder, Decoder and EncoderDecoder, each from one TransformerConfig.

All of them count positions over real tokens, so a batch with padding on either side, a pack of
documents and a cached step give what one sequence gives alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.names import ConfigError
from headwise.nn.cache import KVCache
from headwise.nn.config import TransformerConfig
from headwise.nn.features import Features
from headwise.nn.head import MaskedHead
from headwise.nn.stack import Stack

__all__ = ["Decoder", "Encoder", "EncoderDecoder"]


class Encoder(Stack):
    """Every token may look at every other (within config.window on both sides, where set).

    With config.features it reads frames of sound instead of token ids.

    `logits` says which token stands, or was hidden, at every position: by `head` with
    config.masked_head, else by the token embedding alone.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, causal=False, cross=False)
        self.head = MaskedHead(config) if config.masked_head else None
        self.unembed: nn.Linear | None = None
        if config.masked_head and not config.tie_embeddings:
            self.unembed = _fresh_unembed(config)
        self.features = Features(config) if config.features else None

    def forward(
        self,
        ids: Int[Tensor, "batch position"] | Float[Tensor, "batch feature frame"],
        key_padding_mask: Bool[Tensor, "batch position"] | None = None,
        token_types: Int[Tensor, "batch position"] | None = None,
        documents: Int[Tensor, "batch position"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """Hidden states.

        Args:
            ids: token ids; or features, two frames of which make a position.
            key_padding_mask: True = padding, on either side; what comes out there means nothing.
            token_types: BERT's segments; None = segment 0.
            documents: document number of each token, where a row packs several sequences.
        """
        return self.run(
            ids if self.features is None else self.features(ids),
            key_padding_mask=key_padding_mask,
            token_types=token_types,
            documents=documents,
        )

    def logits(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """The head applied to hidden states; the output matrix alone where there is no head."""
        unembed = self.embedding.unembed if self.unembed is None else self.unembed
        if self.head is None:
            logits: Tensor = unembed(hidden)
            return logits
        out: Tensor = unembed(self.head(hidden)) + self.head.bias
        return out


class Decoder(Stack):
    """A causal language model; `cross` adds an attention over a memory to every block.

    With tie_embeddings the output matrix is the token embedding itself, so there is one tensor to
    save, and nothing to tie again after loading.
    """

    def __init__(self, config: TransformerConfig, *, cross: bool = False) -> None:
        if config.features:
            raise ConfigError(
                f"features={config.features} is for an encoder, and a decoder reads token ids; "
                "use EncoderDecoder, or features=0"
            )
        if config.masked_head:
            raise ConfigError(
                "masked_head=True is for an Encoder, and a decoder guesses no hidden words; leave it out"
            )
        super().__init__(config, causal=True, cross=cross)
        self.unembed: nn.Linear | None = None
        self.output_bias: nn.Parameter | None = None
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        if not config.tie_embeddings:
            self.unembed = _fresh_unembed(config)

    def forward(
        self,
        ids: Int[Tensor, "batch position"],
        key_padding_mask: Bool[Tensor, "batch position"] | None = None,
        cache: KVCache | None = None,
        documents: Int[Tensor, "batch position"] | None = None,
        memory: Float[Tensor, "batch key d_model"] | None = None,
        memory_padding_mask: Bool[Tensor, "batch key"] | None = None,
    ) -> Float[Tensor, "batch position vocab_size"]:
        """Logits of the next token at every position; arguments as in `hidden`."""
        return self.logits(
            self.hidden(ids, key_padding_mask, cache, documents, memory, memory_padding_mask)
        )

    def hidden(
        self,
        ids: Int[Tensor, "batch position"],
        key_padding_mask: Bool[Tensor, "batch position"] | None = None,
        cache: KVCache | None = None,
        documents: Int[Tensor, "batch position"] | None = None,
        memory: Float[Tensor, "batch key d_model"] | None = None,
        memory_padding_mask: Bool[Tensor, "batch key"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """Hidden states after the final norm.

        Args:
            ids: token ids; with a cache, the new ones alone.
            key_padding_mask: True = padding, of these tokens, on either side.
            cache: keys and values of the tokens before (`new_cache`); these tokens are added to it.
            documents: document number of each token, where a row packs several sequences.
            memory: hidden states for cross-attention.
            memory_padding_mask: True = padding in the memory.
        """
        return self.run(
            ids,
            key_padding_mask=key_padding_mask,
            documents=documents,
            cache=cache,
            memory=memory,
            memory_padding_mask=memory_padding_mask,
        )

    def logits(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """The output matrix applied to hidden states."""
        if self.config.scale_logits:
            hidden = hidden * self.config.d_model**-0.5
        unembed = self.embedding.unembed if self.unembed is None else self.unembed
        logits: Tensor = unembed(hidden)
        return logits if self.output_bias is None else logits + self.output_bias

    def new_cache(self, max_length: int | None = None) -> KVCache:
        """An empty cache with room for `max_length` tokens (None = config.max_length)."""
        return KVCache(len(self.blocks), max_length or self.config.max_length)


class EncoderDecoder(nn.Module):
    """An Encoder whose hidden states are the memory of a Decoder with config.num_decoder_layers.

    With config.share_embeddings the decoder's token embedding serves the encoder too; with
    config.features the encoder reads frames of sound.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(replace(config, max_length=config.encoder_max_length))
        self.decoder = Decoder(
            replace(config, num_layers=config.num_decoder_layers, features=0), cross=True
        )
        if config.share_embeddings:
            self.encoder.embedding.share(self.decoder.embedding)

    def forward(
        self,
        source_ids: Int[Tensor, "batch source"] | Float[Tensor, "batch feature frame"],
        target_ids: Int[Tensor, "batch target"],
        source_padding_mask: Bool[Tensor, "batch position"] | None = None,
        target_padding_mask: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocab_size"]:
        """Logits of the next target token at every position.

        For decoding step by step call `encode` once, then `decoder` with its output as memory and
        a cache.

        Args:
            source_ids: token ids the encoder reads, or features, two frames of which make a
                position.
            target_ids: token ids the decoder reads.
            source_padding_mask: True = padding in the source.
            target_padding_mask: True = padding in the target.
        """
        memory = self.encode(source_ids, source_padding_mask)
        logits: Tensor = self.decoder(
            target_ids,
            target_padding_mask,
            memory=memory,
            memory_padding_mask=source_padding_mask,
        )
        return logits

    def encode(
        self,
        source: Int[Tensor, "batch source"] | Float[Tensor, "batch feature frame"],
        source_padding_mask: Bool[Tensor, "batch position"] | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """The memory that `decoder` attends to; arguments as in `forward`."""
        memory: Tensor = self.encoder(source, source_padding_mask)
        return memory


def _fresh_unembed(config: TransformerConfig) -> nn.Linear:
    unembed = nn.Linear(config.d_model, config.vocab_size, bias=False)
    nn.init.normal_(unembed.weight, std=0.02)
    return unembed
