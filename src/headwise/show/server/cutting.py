"""What turning heads down does within one text: one pass of the model, beside what it gives as it is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwise.cut.ablating.comparing import Measured, output_of, predicts, without
from headwise.cut.ablating.gates import Gates
from headwise.cut.ablating.predicting import (
    Guess,
    Prediction,
    divergences,
    logits_of,
    moved_by,
    predicted,
    text_side,
)
from headwise.cut.losses import next_token
from headwise.hub.load import Model, evaluating
from headwise.names import ConfigError, HeadError, HeadId, TextError
from headwise.see.texts.batches import Batch
from headwise.show.page.colouring import number
from headwise.show.server.shelf import Kept
from headwise.show.server.work import Job, ticking

__all__ = ["cut", "factors_in"]

_SHOWN = 24
"""So many tokens are told, those whose prediction changes most."""

_TOP = 6
_MOST = 6_000_000_000
"""Bytes of logits, before and after, that fit."""


def factors_in(given: object, gates: Gates) -> dict[HeadId, float]:
    """How much of which heads is left, as a page asks for it.

    Raises:
        ConfigError: no object of numbers from 0 to 1.
        HeadError: a head that the model does not have.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(f"heads must be an object of factors, came {type(given).__name__}")
    known, found = set(gates.heads), {}
    for name, factor in given.items():
        id = HeadId.parse(name)
        if id not in known:
            raise HeadError(f"there is no head {id} in this model")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor <= 1:
            raise ConfigError(f"the factor of {id} must be from 0 to 1, came {factor!r}")
        found[id] = float(factor)
    return found


def cut(
    model: Model,
    gates: Gates,
    kept: Kept,
    factors: Mapping[HeadId, float],
    at: int | None,
    job: Job,
) -> dict[str, Any]:
    """What the model gives with heads turned down, beside what it gives as it is.

    Args:
        model: that the scene was made with.
        gates: of all its heads.
        kept: the scene.
        factors: how much is left of which heads.
        at: a token that is told in any case; None = the last.
        job: hears of progress.

    Raises:
        TextError: a text too long for it.
    """
    batch = kept.reads(model)
    _check_size(model, batch)
    with torch.no_grad(), evaluating(model.module):
        before, after = _outputs(model, gates, kept, batch, factors, job)
        if not predicts(model):
            return _moved(before, after, batch)
        return _predicted(model, before, after, batch, at, job)


def _outputs(
    model: Model, gates: Gates, kept: Kept, batch: Batch, factors: Mapping[HeadId, float], job: Job
) -> tuple[Any, Any]:
    before = kept.output
    with ticking(model, job, 1 if before is not None else 2):
        if before is None:
            before = model.outputs(batch.inputs)
            kept.keep(before, output_of(before).nbytes)
        with without(gates, factors):
            return before, model.outputs(batch.inputs)


def _check_size(model: Model, batch: Batch) -> None:
    size = getattr(model.tokenizer, "get_vocab_size", None)
    vocabulary = 0 if size is None else int(size())
    length = len(text_side(batch).tokens)
    if predicts(model) and 2 * 4 * length * vocabulary > _MOST:
        raise TextError(
            f"the text is {length:,} tokens; heads are turned down live in up to "
            f"{_MOST // (8 * vocabulary):,} tokens of this model"
        )


def _predicted(
    model: Model, before: Any, after: Any, batch: Batch, at: int | None, job: Job
) -> dict[str, Any]:
    one, other = logits_of(before), logits_of(after)
    apart = divergences(one, other).tolist()
    job.check()
    last = len(apart) - 1
    chosen = heapq.nlargest(_SHOWN, range(len(apart)), key=lambda i: apart[i])
    wanted = last if at is None or not 0 <= at <= last else at
    found = predicted(model, batch, one, other, sorted({*chosen, wanted, last}), _TOP)
    return {
        "loss": _loss(before, after, batch),
        "moved": None,
        "divergences": [_number(x) for x in apart],
        "tokens": [_of_prediction(one) for one in found],
    }


def _loss(before: Any, after: Any, batch: Batch) -> dict[str, Any] | None:
    """Means over the text's tokens; the standard error is over tokens, each before and after."""
    first, second = next_token(before, batch.inputs), next_token(after, batch.inputs)
    rows = [_row(values[first.counted]) for values in (first.values, second.values)]
    if not len(rows[0]):
        return None
    change = Measured(rows[0], rows[1][None], np.ones(len(rows[0]))).change()
    return {name: _number(value) for name, value in asdict(change).items()}


def _moved(before: Any, after: Any, batch: Batch) -> dict[str, Any]:
    found = moved_by(before, after, batch)
    moved = [_number(one.moved) for one in found]
    tokens = [{"position": t.position, "label": t.token, "moved": _number(t.moved)} for t in found]
    return {"loss": None, "moved": _mean([x for x in moved if x is not None]), "tokens": tokens}


def _mean(values: Sequence[float]) -> dict[str, Any]:
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return {"mean": _number(float(np.mean(values))), "error": _number(error), "count": len(values)}


def _of_prediction(one: Prediction) -> dict[str, Any]:
    return {
        "position": one.position,
        "label": one.token,
        "divergence": _number(one.divergence),
        "before": [_of_guess(guess) for guess in one.before],
        "after": [_of_guess(guess) for guess in one.after],
        "actual": None if one.actual is None else _of_guess(one.actual),
    }


def _of_guess(guess: Guess) -> list[Any]:
    return [guess.token, _number(guess.before), _number(guess.after)]


def _row(values: Tensor) -> np.ndarray:
    row: np.ndarray = values.double().cpu().numpy()
    return row


def _number(x: float) -> float | None:
    return number(x, 6)
