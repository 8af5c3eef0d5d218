from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from see_help import byte_tokenizer, sharp, side_of

import headwise as hw
from headwise.core.masks import Mask
from headwise.core.scores import Scores
from headwise.names import LayerId
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headwise.see.record import LayerRecord


@pytest.fixture
def bytes_model() -> hw.Model:
    """A small causal model of ours over bytes, with grouped heads and a limit of 400."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=257,
        d_model=24,
        num_layers=2,
        num_heads=6,
        num_kv_heads=2,
        d_ff=32,
        max_length=400,
    )
    return sharp(hw.load(Decoder(config), tokenizer=byte_tokenizer()))


@pytest.fixture
def encoder_model() -> hw.Model:
    """A small encoder of ours over bytes."""
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=257, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    return sharp(hw.load(Encoder(config), tokenizer=byte_tokenizer()))


@pytest.fixture
def translator() -> hw.Model:
    """A small encoder-decoder of ours over bytes."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=257, d_model=24, num_layers=2, num_heads=4, d_ff=32, max_length=60
    )
    return sharp(hw.load(EncoderDecoder(config), tokenizer=byte_tokenizer()))


@pytest.fixture
def layer_of() -> Callable[..., LayerRecord]:
    """A layer whose heads have the patterns given: queries one-hot, keys their logarithms."""

    def make(
        patterns: list[list[list[float]]] | torch.Tensor,
        tokens: list[str],
        *,
        keys: list[str] | None = None,
        mask: Mask | None = None,
        id: LayerId = LayerId("", 0),  # noqa: B008
    ) -> LayerRecord:
        wanted = torch.as_tensor(patterns, dtype=torch.float32)
        heads, rows, _ = wanted.shape
        q = torch.eye(rows).expand(1, heads, rows, rows)
        k = wanted.clamp_min(1e-9).log().transpose(1, 2)[None]
        scores = Scores(q, k, mask, 1.0)
        queries = side_of(tokens)
        return LayerRecord(id, scores, queries, queries if keys is None else side_of(keys), 0.0)

    return make
