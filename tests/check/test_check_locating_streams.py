"""Planted faults in encoder-decoders: the decoder's future, and the padding of what the encoder reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from locating_help import (
    LENGTH,
    blend,
    edited,
    future_entry,
    ids_of,
    spread,
)
from torch import Tensor, nn

from headwise.check.places.locating import Entry, entry
from headwise.check.places.tracing import trace

_T5 = {
    "vocab_size": 97,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    "vocab_size": 97,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}
SOURCE = 17


def speaker(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """An encoder-decoder, what it reads and what it writes."""
    torch.manual_seed(0)
    fields = {"T5": _T5, "Bart": _BART}[name]
    config = getattr(transformers, f"{name}Config")(**fields, attn_implementation="eager")
    model = spread(getattr(transformers, f"{name}ForConditionalGeneration")(config))
    return model, ids_of(length=SOURCE, seed=3), ids_of()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("T5", "decoder.block.1.layer.0.SelfAttention"),
        ("T5", "decoder.block.0.layer.1"),
        ("T5", "decoder.block.1.layer.2.DenseReluDense"),
        ("Bart", "model.decoder.layers.1.self_attn"),
        ("Bart", "model.decoder.layers.1.fc2"),
        ("Bart", "model.decoder"),
    ],
)
def test_a_decoder_that_sees_the_future(name, path):
    model, source, _ = speaker(name)

    def run(ids: Tensor) -> object:
        return model(input_ids=source, decoder_input_ids=ids)

    assert future_entry(model, run) is None
    part = model.get_submodule(path)
    forward = part.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        out = forward(*args, **kwargs)
        if isinstance(out, Tensor):
            return blend(out)
        if isinstance(out, tuple):
            return (blend(out[0]), *out[1:])
        out.last_hidden_state = blend(out.last_hidden_state)
        return out

    part.forward = changed  # type: ignore[method-assign]
    assert future_entry(model, run) == Entry(path, type(part).__name__)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("T5", "decoder.block.1.layer.1.EncDecAttention"),
        ("Bart", "model.decoder.layers.1.encoder_attn"),
    ],
)
def test_a_cross_attention_that_forgets_the_padding_of_the_source(name, path):
    model, source, target = speaker(name)
    real = torch.arange(SOURCE)[None] < 12
    everywhere = torch.ones(1, LENGTH, dtype=torch.bool)

    def found() -> Entry | None:
        runs = [
            trace(
                model,
                lambda s=s: model(
                    input_ids=s, attention_mask=real.long(), decoder_input_ids=target
                ),
                LENGTH,
            )
            for s in (source, edited(source, 14))
        ]
        return entry(runs[0], runs[1], everywhere, tolerance=1e-9)

    assert found() is None
    part = model.get_submodule(path)
    part.register_forward_pre_hook(
        lambda _, args, kwargs: (
            args,
            {k: None if "mask" in k else v for k, v in kwargs.items()},
        ),
        with_kwargs=True,
    )
    assert found() == Entry(path, type(part).__name__)
