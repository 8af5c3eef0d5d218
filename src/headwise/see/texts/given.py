"""Whatever a corpus is made of, as batches: texts, batches by name, rows of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.hub.calling import takes
from headwise.hub.load import Model
from headwise.names import TextError
from headwise.see.texts.batches import MOST_TOKENS, Batch, from_inputs
from headwise.see.texts.packing import packed
from headwise.see.texts.refusing import check_target

__all__ = ["Texts", "batches_in", "packed_ids"]

Batches = Mapping[str, Any]
Texts = (
    str
    | Tensor
    | Batches
    | Iterable[str]
    | Iterable[Tensor]
    | Iterable[Sequence[int]]
    | Iterable[Batches]
)
"""What a corpus is made of: a text or many, a batch or many, or rows of ids."""


def packed_ids(model: Model, rows: Tensor | Iterable[Tensor]) -> Iterator[Batch]:
    """Rows of ids, as they are, as batches in their order.

    Args:
        model: which reads them.
        rows: [batch, position], or one tensor [position] for each row, of any lengths.

    Raises:
        TextError: no row, one that is no row of whole numbers, or one longer than the model reads.
    """
    group: list[Tensor] = []
    some = False
    for i, row in enumerate(rows):
        _check_row(model, row, i)
        longest = max(len(r) for r in [*group, row])
        if group and longest * (len(group) + 1) > MOST_TOKENS:
            yield _of_ids(model, group)
            group = []
        group.append(row)
        some = True
    if not some:
        raise TextError("there is no row of ids; give at least one")
    yield _of_ids(model, group)


def batches_in(
    model: Model, texts: Any, target: Any, context: int | None, call: str = "profile"
) -> Iterator[Batch]:
    """Batches of whatever `profile` takes, which says what that is and what it refuses.

    Args:
        model, texts, target, context: as `profile` takes them.
        call: the function that was given them, which the errors name.
    """
    check_target(model, target)
    if isinstance(texts, str):
        texts, target = [texts], [target] if isinstance(target, str) else target
        if not texts[0].strip():
            raise TextError("the text is empty; give at least one word")
    if isinstance(texts, Mapping):
        yield from_inputs(model, texts)
        return
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise TextError(f"{call} takes texts, a batch or rows of ids, came {type(texts).__name__}")
    if isinstance(texts, Tensor):
        if texts.dim() != 2:
            raise TextError(
                f"ids must be [batch, position], came {list(texts.shape)}{_hint(model, texts)}"
            )
        yield from packed_ids(model, texts)
        return
    items = iter(texts)
    try:
        head = next(items)
    except StopIteration:
        raise TextError("there is no text: the corpus is empty") from None
    whole = chain([head], items)
    if isinstance(head, int | np.integer):
        raise TextError("rows of ids must be a list of rows, as [[5, 6, 7], [9, 8]]; came one row")
    if isinstance(head, Mapping):
        yield from _batches_given(model, whole)
    elif isinstance(head, Tensor | list | tuple | np.ndarray):
        yield from packed_ids(model, map(_row, whole))
    else:
        yield from packed(model, whole, targets=target, context=context, call=call)


def _batches_given(model: Model, batches: Iterable[Any]) -> Iterator[Batch]:
    """Each batch as it is."""
    for i, batch in enumerate(batches):
        if not isinstance(batch, Mapping):
            raise TextError(
                f"batch {i} must be a mapping like the first, came {type(batch).__name__}"
            )
        yield from_inputs(model, batch)


def _row(row: Any) -> Any:
    """A row of ids as a tensor; what is none is left for the check of rows."""
    if not isinstance(row, list | tuple | np.ndarray):
        return row
    try:
        return torch.as_tensor(row)
    except (TypeError, ValueError, RuntimeError):
        return row


def _hint(model: Model, x: Tensor) -> str:
    """How vectors are passed."""
    if not x.is_floating_point():
        return ""
    name = (takes(model.module) or ["inputs"])[0]
    name = getattr(model.module, "main_input_name", name)
    return f"; vectors are passed by name: {{{name!r}: tensor}}, or a list of such"


def _check_row(model: Model, row: object, i: int) -> None:
    if not isinstance(row, Tensor):
        raise TextError(
            f"row {i} of ids must be whole numbers like the first, came {type(row).__name__}"
        )
    if row.dim() != 1 or row.is_floating_point() or not len(row):
        raise TextError(
            f"row {i} must be whole numbers [position], came {list(row.shape)} of {row.dtype}"
            f"{_hint(model, row)}"
        )


def _of_ids(model: Model, rows: list[Tensor]) -> Batch:
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows], device=ids.device)
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    return from_inputs(model, {"input_ids": ids, "attention_mask": mask.long()})
