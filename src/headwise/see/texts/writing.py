"""What the decoder of an encoder-decoder reads where no target is given: what the model itself writes, greedily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headwise.hub.load import Model
from headwise.names import ModelError

__all__ = ["real_of", "written_by"]

_MOST_WRITTEN = 64
"""How many tokens an encoder-decoder may write when no target is given."""


def written_by(model: Model, inputs: Mapping[str, Any]) -> Tensor:
    """The ids that the model writes for these inputs, with what its decoder starts from, [batch, position].

    Raises:
        ModelError: a model that cannot write, or that does not know how to begin.
    """
    generate = getattr(model.module, "generate", None)
    if generate is None:
        raise ModelError(
            f"{model.name} is an encoder-decoder: give target=, the text its decoder reads"
        )
    most = min(_MOST_WRITTEN, (model.max_length or _MOST_WRITTEN + 1) - 1)
    try:
        with torch.no_grad(), _hushed():
            written = generate(
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
    ids: Tensor = written.sequences
    return ids


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
