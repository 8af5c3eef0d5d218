"""The rows of a corpus, and the batches that are drawn of them: the same ones whatever model they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.hub.load import Model
from headwise.see.texts.batches import MOST_TOKENS, Batch, from_inputs
from headwise.see.texts.given import Texts, batches_in

__all__ = ["Row", "batch_of", "drawn", "parted", "rows_of"]

Row = Mapping[str, Any]
"""What a model is called with for one text, tensors without the axis of the batch."""

_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


def rows_of(model: Model, texts: Texts) -> list[Row]:
    """Every text of a corpus by itself, without padding.

    Raises:
        TextError: no text, or one that cannot be read.
    """
    rows: list[Row] = []
    for batch in batches_in(model, texts, None, None, "heal"):
        for i in range(batch.size):
            rows.append(
                _trimmed(
                    {
                        name: x[i] if isinstance(x, Tensor) and len(x) == batch.size else x
                        for name, x in batch.inputs.items()
                    }
                )
            )
    return rows


def drawn(count: int, batch: int, steps: int, seed: int) -> Iterator[list[int]]:
    """Numbers of the rows of each step: all in random order, then all again in another."""
    generator = torch.Generator().manual_seed(seed)
    waiting: list[int] = []
    for _ in range(steps):
        while len(waiting) < batch:
            waiting += torch.randperm(count, generator=generator).tolist()
        yield waiting[:batch]
        waiting = waiting[batch:]


def parted(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows in parts that fit into one pass."""
    start = 0
    for stop in range(1, len(rows) + 1):
        longest = max(map(_length, rows[start : stop + 1]))
        if stop == len(rows) or longest * (stop + 1 - start) > MOST_TOKENS:
            yield rows[start:stop]
            start = stop


def batch_of(model: Model, rows: Sequence[Row]) -> Batch:
    """Some rows as one batch, padded on the right."""
    inputs: dict[str, Any] = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if not isinstance(first, Tensor):
            inputs[name] = first
        elif first.dim():
            inputs[name] = pad_sequence(values, batch_first=True)
        else:
            inputs[name] = torch.stack(values)
    return from_inputs(model, inputs)


def _trimmed(row: Mapping[str, Any]) -> Row:
    """Without padding at the end of what it reads; with the mask that says so."""
    made = dict(row)
    for ids, mask in _MASKS.items():
        if ids not in row:
            continue
        real = row.get(mask, torch.ones_like(row[ids]))
        length = int(real.nonzero().max()) + 1
        width = len(row[ids])
        for name, x in row.items():
            if isinstance(x, Tensor) and x.dim() == 1 and len(x) == width:
                made[name] = x[:length]
        made[mask] = real[:length]
    return made


def _length(row: Row) -> int:
    ids = row.get("input_ids")
    return len(ids) if isinstance(ids, Tensor) else MOST_TOKENS
