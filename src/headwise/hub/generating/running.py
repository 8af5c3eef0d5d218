"""Run a model that writes, on ids: our own by `headwise.nn.generate`, one of transformers by its own `generate`.

What a token is chosen by is ours for both, so that a seed means the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.hub.load import Model, evaluating
from headwise.hub.reading import hushed
from headwise.names import ConfigError, ModelError
from headwise.nn import Decoder, EncoderDecoder
from headwise.nn.generating.drawing import Drawing
from headwise.nn.generating.writing import Each
from headwise.nn.generating.writing import generate as write_on
from headwise.nn.modes import uncompiled

__all__ = ["Asked", "check_writes", "written_after"]


@dataclass(frozen=True)
class Asked:
    """How a model is to write.

    Attributes:
        room: how many new tokens at most.
        drawing: how each is chosen.
        generators: of each row.
        ends: tokens that end a row.
        each: called after each step, as `headwise.nn.generate` does.
    """

    room: int
    drawing: Drawing
    generators: Sequence[torch.Generator]
    ends: Sequence[int]
    each: Each


def check_writes(model: Model) -> None:
    """Refuse a model that writes no text.

    Raises:
        ModelError: it does not.
    """
    module: Any = uncompiled(model.module)
    own = isinstance(module, EncoderDecoder) or (isinstance(module, Decoder) and not module.cross)
    reads_ids = getattr(module, "main_input_name", "input_ids") == "input_ids"
    can = getattr(module, "can_generate", None)
    if own or (model.foreign and reads_ids and can is not None and can()):
        return
    raise ModelError(f"{model.name} writes no text after another: it is no causal language model")


def written_after(model: Model, ids: Tensor, padding: Tensor | None, asked: Asked) -> Tensor:
    """The ids with the new ones after them; of an encoder-decoder what its decoder was given and wrote.

    Args:
        model: that passes `check_writes`.
        ids: [batch, position], on the model's device.
        padding: True = padding.
        asked: how.
    """
    module: Any = uncompiled(model.module)
    if model.foreign:
        with torch.no_grad(), evaluating(module), hushed():
            return _by_transformers(module, ids, padding, asked)
    given: dict[str, Any] = {"key_padding_mask": padding}
    if isinstance(module, EncoderDecoder):
        given = {"source_ids": ids, "memory_padding_mask": padding}
        ids = ids.new_full((len(ids), 1), _first(model, asked.ends))
    return write_on(
        module,
        ids,
        asked.room,
        **given,
        temperature=asked.drawing.temperature,
        top_k=asked.drawing.top_k,
        top_p=asked.drawing.top_p,
        ends=asked.ends,
        generator=asked.generators if asked.drawing.draws else None,
        each=asked.each,
    )


def _by_transformers(module: Any, ids: Tensor, padding: Tensor | None, asked: Asked) -> Tensor:
    fill = getattr(module.generation_config, "pad_token_id", None)
    more: dict[str, Any] = {}
    if asked.ends:
        more["eos_token_id"] = list(asked.ends)
    if fill is None:
        more["pad_token_id"] = asked.ends[0] if asked.ends else 0
    if asked.drawing.draws:
        more["logits_processor"] = [_Chosen(asked.drawing, asked.generators)]
    made: Tensor = module.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids) if padding is None else (~padding).long(),
        max_new_tokens=asked.room,
        do_sample=False,
        num_beams=1,
        stopping_criteria=[_Heard(asked.each)],
        **more,
    )
    return made


class _Chosen:
    """Leaves the one token that was drawn; transformers then takes the likeliest."""

    def __init__(self, drawing: Drawing, generators: Sequence[torch.Generator]) -> None:
        self.drawing, self.generators = drawing, generators

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        new = self.drawing.next(scores, self.generators)
        return torch.full_like(scores, -torch.inf).scatter(1, new[:, None], 0.0)


class _Heard:
    """Hands each step's tokens on, and ends the rows that are to end."""

    def __init__(self, each: Each) -> None:
        self.each = each

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        ended = self.each(input_ids[:, -1])
        if ended is None:
            return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        return ended.to(input_ids.device)


def _first(model: Model, ends: Sequence[int]) -> int:
    """What a decoder beside an encoder of ours starts from: as in training, an end, unless its config says."""
    said = (model.config or {}).get("decoder_start_token_id")
    if isinstance(said, int):
        return said
    if ends:
        return ends[0]
    raise ConfigError(
        f"{model.name} does not say what its decoder starts from; give its config.json a "
        "decoder_start_token_id, or call headwise.nn.generate with the ids it starts from"
    )
