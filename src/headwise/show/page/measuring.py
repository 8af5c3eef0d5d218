"""What of a record is measured again for a page: the tokens it was made of, as its model reads them."""

from __future__ import annotations

from typing import Any

import torch

from headwise.names import ModelError
from headwise.see.record import Record, Side

__all__ = ["inputs_of"]


def inputs_of(record: Record) -> dict[str, Any]:
    """The ids that a record was made of, as a transformers batch of one row.

    Raises:
        ModelError: a record of something else than token ids.
    """
    by_stream = {id.stream: layer.queries for id, layer in record.layers.items()}
    both = "cross" in by_stream and "encoder" in by_stream
    source = by_stream["encoder"] if both else record.sides[0]
    inputs = {"input_ids": _ids(source)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if both:
        inputs["decoder_input_ids"] = _ids(by_stream["decoder"])
    return inputs


def _ids(side: Side) -> torch.Tensor:
    ids = [token.id for token in side.tokens]
    if min(ids, default=-1) < 0:
        raise ModelError(
            "this record is of something else than token ids, so nothing can be measured with it again"
        )
    return torch.tensor([ids])
