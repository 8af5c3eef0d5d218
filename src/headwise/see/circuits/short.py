"""A short input of which nothing matters but that the model runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.see.texts.batches import batches_of, from_inputs
from headwise.see.texts.refusing import check_reads

__all__ = ["short_input", "vocabulary"]

_TEXTS = (
    "The cat sat on the mat.",
    "One or two heads do it.",
    "So it goes, they say.",
    "Why did you run away?",
    "A small model reads this.",
)
_ROWS, _LENGTH, _TARGET = 8, 6, 5


def short_input(model: Model, inputs: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What the model is called with: the text or batch given, or a few short texts or rows of random ids.

    Raises:
        ModelError: none was given, and the model reads no ids, or of an unknown number; a text, and it reads none.
    """
    if isinstance(inputs, Mapping):
        return from_inputs(model, inputs).inputs
    if inputs is not None or model.tokenizer is not None:
        texts = list(_TEXTS) if inputs is None else [inputs]
        targets = list(reversed(texts)) if model.encoder_decoder else None
        main = getattr(model.module, "main_input_name", "input_ids")
        if inputs is not None or main == "input_ids":
            return next(batches_of(model, texts, targets, "circuits")).inputs
    return from_inputs(model, _random_ids(model)).inputs


def _random_ids(model: Model) -> dict[str, Any]:
    main = getattr(model.module, "main_input_name", "input_ids")
    check_reads(model.name, main, "circuits")
    size = vocabulary(model.module)
    if size is None:
        raise ModelError(
            f"{model.name} reads no ids of a known number, so nothing can be made up for it; pass a batch from "
            "Python: hw.circuits(model, {name: tensor})"
        )
    draw = torch.Generator().manual_seed(0)
    ids: dict[str, Any] = {"input_ids": torch.randint(size, (_ROWS, _LENGTH), generator=draw)}
    if model.encoder_decoder:
        ids["decoder_input_ids"] = torch.randint(size, (_ROWS, _TARGET), generator=draw)
    return ids


def vocabulary(module: nn.Module) -> int | None:
    """How many ids a module reads; None where it does not say, nor has a table of them."""
    size = getattr(getattr(module, "config", None), "vocab_size", None)
    if isinstance(size, int):
        return size
    return max(
        (m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)), default=None
    )
