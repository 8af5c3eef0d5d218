"""How a command that reads a corpus begins: texts that are there, and a model that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch

from headwise.hub.catalogue import CATALOGUE
from headwise.hub.load import Model, load
from headwise.names import ModelError
from headwise.see.texts.refusing import check_reads, check_target

__all__ = ["begun", "out_of_memory", "reading_model"]


def begun(texts: Iterator[str]) -> Iterator[str]:
    """The same texts, of which the first is read: an empty corpus is told before a model is loaded.

    Raises:
        TextError: there is none.
    """
    return chain([next(texts)], texts)


def reading_model(
    name: str,
    device: str | None,
    dtype: str | None,
    *,
    call: str,
    targets: str | None = None,
    quiet: bool = False,
) -> Model:
    """Load a model that reads texts.

    Args:
        name, device, dtype, quiet: as `load` takes them.
        call: the function of headwise that reads other things than texts (`check_reads`).
        targets: the options that bring what a decoder reads, where one of them is given.

    Raises:
        ModelError: it cannot be loaded, or reads no text, which is told before it is fetched.
        TextError: there are targets, and no decoder.
    """
    known = CATALOGUE.get(name)
    if known is not None:
        check_reads(name, known.reads, call)
    model = load(name, device, dtype, quiet=quiet)
    check_target(model, targets, named=targets or "")
    return model


def out_of_memory(error: torch.OutOfMemoryError) -> ModelError:
    """What a device that holds too little says, and what helps."""
    line = str(error).strip().partition("\n")[0]
    return ModelError(f"{line}; a smaller --context or --dtype bfloat16 needs less")
