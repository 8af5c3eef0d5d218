"""Tiny random models of transformers, by name, and what their own eager attention gives.

The families are tables (tiny_decoders, tiny_encoders, tiny_media, tiny_refused); here they are built.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers
from tiny_decoders import CAUSAL
from tiny_encoders import ENCODERS, SEQ2SEQ
from tiny_fields import VOCAB, Family
from tiny_media import MEDIA
from tiny_refused import REFUSED

from headwise.hub.anatomy import anatomy_of

SPEAKS = {*SEQ2SEQ, "whisper", "speech-to-text", "moonshine"}
"""Encoder-decoders, whose output names all three streams."""

TABLE: dict[str, Family] = {**CAUSAL, **ENCODERS, **SEQ2SEQ, **MEDIA}


def build(name: str, attention: str | None = None, **fields: Any) -> Any:
    """The model of this name, the same weights for every attention implementation, in eval mode.

    Weights are spread wide, so that heads look somewhere and do not all average.
    """
    family = {**TABLE, **REFUSED}[name]
    config = getattr(transformers, family.config)(**{**family.fields, **fields})
    return seeded(getattr(transformers, family.model), config, attention)


def seeded(cls: Any, config: Any, attention: str | None = None) -> Any:
    """A model of this config, its weights drawn from one seed."""
    torch.manual_seed(0)
    model = cls._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1 or "sinks" in parameter_name:
                parameter.normal_(0, 0.35)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return model


def inputs_of(name: str, seed: int = 2) -> dict[str, torch.Tensor]:
    """One unpadded input of what this model takes."""
    family = TABLE[name]
    if family.inputs is None:
        ids = {"input_ids": ids_of(9)[0][None]}
        return ids | ({"decoder_input_ids": ids_of(5, seed=3)[0][None]} if name in SEQ2SEQ else {})
    generator = torch.Generator().manual_seed(seed)
    return {
        key: torch.randn(value, generator=generator)
        if isinstance(value, tuple)
        else torch.tensor(value)
        for key, value in family.inputs.items()
    }


def eager_weights(model: Any, inputs: dict[str, Any]) -> dict[str, list[torch.Tensor]]:
    """transformers' own weights by stream, under eager attention: [batch, head, query, key] per layer."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(**inputs, output_attentions=True)
    if "encoder_attentions" in out:
        found = {
            "encoder": out.encoder_attentions,
            "decoder": out.decoder_attentions,
            "cross": out.cross_attentions,
        }
    else:
        found = {"": out.attentions}
    return {stream: list(layers) for stream, layers in found.items()}


def eager_towers(model: Any, inputs: dict[str, Any]) -> dict[str, list[torch.Tensor]]:
    """The same for models of several towers, whose output holds one's: what their eager functions return."""
    model.set_attn_implementation("eager")
    streams = {
        layer.module: layer.id.stream
        for layer in anatomy_of(model).layers
        if type(layer.module).__module__.startswith("transformers.")
    }
    found: dict[str, list[torch.Tensor]] = {}

    def keeping(plain: Any) -> Any:
        def call(module: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
            z, weights = plain(module, *arguments, **named)
            found.setdefault(streams[module], []).append(weights)
            return z, weights

        return call

    with ExitStack() as stack, torch.no_grad():
        for file in {sys.modules[type(module).__module__] for module in streams}:
            plain = file.eager_attention_forward
            stack.enter_context(patch.object(file, "eager_attention_forward", keeping(plain)))
        model(**inputs)
    return found


def eager_of(name: str, inputs: dict[str, Any], model: Any = None) -> dict[str, list[torch.Tensor]]:
    """The eager weights of the model of this name, in the way its class tells them."""
    several = len(anatomy_of(model := model or build(name)).streams) > 1
    return (eager_towers if several and name not in SPEAKS else eager_weights)(model, inputs)


def assert_record_is(
    record: Any, eager: dict[str, list[torch.Tensor]], row: int, *, atol: float = 1e-5
) -> None:
    """Every head of the record equals the eager weights of one row, and no head is missing."""
    seen = 0
    for stream, layers in eager.items():
        ids = [id for id in record.layers if id.stream == stream]
        if len(layers) != len(ids):  # other layers attend without a pattern (hybrids)
            layers = [layers[id.layer] for id in ids]
        for id, weights in zip(ids, layers, strict=True):
            for head in range(weights.shape[1]):
                mine = record.weights(id.head(head))
                np.testing.assert_allclose(mine, weights[row, head].numpy(), atol=atol, rtol=0)
                seen += 1
    assert seen == sum(head.stream in eager for head in record.heads()) > 0


def ids_of(*lengths: int, seed: int = 1) -> list[torch.Tensor]:
    """Random ids, one row per length; none of the special ones."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCAB, (n,), generator=generator) for n in lengths]


def padded(rows: list[torch.Tensor], side: str, pad: int = 0) -> dict[str, torch.Tensor]:
    """A batch of the rows with padding on this side."""
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(longest - len(row), None)
        ids[i, where], mask[i, where] = row, 1
    return {"input_ids": ids, "attention_mask": mask}
