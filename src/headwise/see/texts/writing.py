"""What the decoder of an encoder-decoder reads where no target is given: what the model itself writes, greedily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headwise.hub.generating.generating import generate
from headwise.hub.load import Model
from headwise.names import ConfigError, ModelError
from headwise.nn import EncoderDecoder

__all__ = ["real_of", "written_by"]

_MOST_WRITTEN = 64
"""How many tokens an encoder-decoder may write when no target is given."""


def written_by(model: Model, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
    """The ids that the model writes for these inputs, with what its decoder starts from, [batch, position].

    Beside them which are real, None where its padding tells.

    Raises:
        ModelError: a model that cannot write, or that does not know how to begin.
    """
    if isinstance(model.module, EncoderDecoder):
        return _by_ours(model, inputs)
    theirs = getattr(model.module, "generate", None)
    if theirs is None:
        raise ModelError(
            f"{model.name} is an encoder-decoder: give a target (--target, target=), the text its decoder reads"
        )
    most = min(_MOST_WRITTEN, (model.max_length or _MOST_WRITTEN + 1) - 1)
    try:
        with torch.no_grad(), _hushed():
            written = theirs(
                **model.placed(inputs),
                max_new_tokens=most,
                do_sample=False,
                num_beams=1,
                return_dict_in_generate=True,  # with what the decoder starts from
            )
    except ValueError as error:
        why = str(error).strip().partition("\n")[0].rstrip(".")
        raise ModelError(
            f"{model.name} cannot write what its decoder reads ({why}); give target= with texts, or "
            "decoder_input_ids in the batch"
        ) from error
    return written.sequences, None


def _by_ours(model: Model, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """What a model of our blocks writes, each row as if it were alone, and which positions are real."""
    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
    most = min(_MOST_WRITTEN, (model.max_length or _MOST_WRITTEN + 1) - 1)
    try:
        written = [
            generate(model, row[real][None], most) for row, real in zip(ids, keep, strict=True)
        ]
    except ConfigError as error:
        raise ModelError(f"{error}; or give a target (--target, target=)") from error
    rows = [row[0].cpu() for row in written if isinstance(row, Tensor)]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return padded, torch.arange(padded.shape[1]) < lengths[:, None]


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what transformers says of settings that are not the caller's."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def real_of(model: Model, ids: Tensor) -> Tensor:
    """Which positions of generated rows are real: all but the padding after a row's end."""
    pad = getattr(getattr(model.module, "config", None), "pad_token_id", None)
    if pad is None:
        return torch.ones_like(ids, dtype=torch.bool)
    real: Tensor = (ids != pad).flip(1).cumsum(1).flip(1) > 0
    return real
