"""How a command that reads a corpus begins: texts that are there, and a model that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Protocol, runtime_checkable

import torch

from headwise.hub.catalogue import CATALOGUE
from headwise.hub.load import Model, load
from headwise.names import ModelError
from headwise.see.texts.refusing import check_reads, check_target

__all__ = ["Asked", "begun", "out_of_memory", "reading_model"]


@runtime_checkable
class Asked(Protocol):
    """What a command was asked for: which model, where and how precisely it is to run."""

    @property
    def model(self) -> str:
        """A name, an id of the hub or a path."""

    @property
    def device(self) -> str | None:
        """Where it runs, None for the CPU."""

    @property
    def dtype(self) -> str | None:
        """How precisely, None for what its file has."""


def begun(texts: Iterator[str]) -> Iterator[str]:
    """The same texts, of which the first is read: an empty corpus is told before a model is loaded.

    Raises:
        TextError: there is none.
    """
    return chain([next(texts)], texts)


def reading_model(
    asked: Asked, *, call: str, targets: str | None = None, quiet: bool = False
) -> Model:
    """Load a model that reads texts.

    Args:
        asked: the request of a command.
        call: the function of headwise that reads other things than texts (`check_reads`).
        targets: the options that bring what a decoder reads, where one of them is given.
        quiet: as `load` takes it.

    Raises:
        ModelError: it cannot be loaded, or reads no text, which is told before it is fetched.
        TextError: there are targets, and no decoder.
    """
    known = CATALOGUE.get(asked.model)
    if known is not None:
        check_reads(asked.model, known.reads, call)
    model = load(asked.model, asked.device, asked.dtype, quiet=quiet)
    check_target(model, targets, named=targets or "")
    return model


def out_of_memory(error: torch.OutOfMemoryError) -> ModelError:
    """What a device that holds too little says, and what helps."""
    line = str(error).strip().partition("\n")[0]
    return ModelError(f"{line}; a smaller --context or --dtype bfloat16 needs less")
