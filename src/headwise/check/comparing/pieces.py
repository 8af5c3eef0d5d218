"""A text cut into pieces, padded, and read through a model's cache piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.reading.given import Given
from headwise.check.running.caching import Reading, Way, way_of
from headwise.check.running.calm import in_mode, quietly, seeded
from headwise.check.running.subject import Subject

__all__ = ["cut", "hidden_left", "read_pieces", "real_of", "way_through"]


def cut(given: Given, start: int, stop: int) -> Given:
    """Some positions of a text; what an encoder reads stays whole."""
    return replace(
        given,
        text=given.text[:, start:stop],
        real=None if given.real is None else given.real[:, start:stop],
        documents=None if given.documents is None else given.documents[:, start:stop],
    )


def real_of(given: Given) -> Bool[Tensor, "batch position"]:
    """False = padding."""
    if given.real is not None:
        return given.real
    return torch.ones(given.text.shape[:2], dtype=torch.bool, device=given.text.device)


def hidden_left(given: Given) -> Given:
    """The first quarter of the first row is padding."""
    real = real_of(given).clone()
    real[0, : max(1, given.length // 4)] = False
    return replace(given, real=real)


def way_through(subject: Subject, given: Given) -> Way:
    """How the subject's cache goes, tried on a fresh copy.

    Raises:
        ModelError: it has none.
    """
    copy = subject.fresh()
    given = given.to(copy.device, copy.dtype)
    with torch.no_grad(), seeded(copy.seed), _evaluating(copy):
        found: Way = quietly(lambda: way_of(copy.called, copy.signature, given, copy.others))
    return found


def read_pieces(
    subject: Subject, given: Given, way: Way, sizes: Sequence[int]
) -> Float[Tensor, "batch position channel"]:
    """The outputs of a text read in pieces of these sizes, joined: on this very copy, so give a fresh one.

    Raises:
        ModelError: a step hands over no cache, or returns no output for each position.
    """
    given = given.to(subject.device, subject.dtype)
    outputs: list[Tensor] = []
    with torch.no_grad(), seeded(subject.seed), _evaluating(subject):
        reading = Reading(subject.called, subject.signature, given, way, subject.others)
        for size in sizes:
            piece = cut(given, reading.length, reading.length + size)
            out = quietly(lambda size=size: reading.read(size))  # type: ignore[misc]
            outputs.append(subject.read(out, piece))
    return torch.cat(outputs, dim=1)


def _evaluating(subject: Subject) -> AbstractContextManager[None]:
    return nullcontext() if subject.module is None else in_mode(subject.module, False)
