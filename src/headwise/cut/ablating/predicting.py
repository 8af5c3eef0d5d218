"""What an ablation does within one text: at which tokens the prediction of the next one changes, and to what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.comparing import Sets, moved
from headwise.cut.losses import next_token
from headwise.hub.load import Model
from headwise.see.neurons.lens import token_name
from headwise.see.record import Side
from headwise.see.texts.batches import Batch

__all__ = [
    "Guess",
    "MovedToken",
    "Prediction",
    "divergences",
    "logits_of",
    "moved_by",
    "moved_tokens",
    "predicted",
    "predictions",
    "text_side",
]

_ROWS = 256
"""So many rows of logits are worked on at a time."""


@dataclass(frozen=True)
class Guess:
    """A token that may come next, and its probability before and after."""

    token: str
    before: float
    after: float


@dataclass(frozen=True)
class Prediction:
    """What is predicted after one token of a text.

    Attributes:
        position: of the token in its text.
        token: its label.
        upto: the text up to its end.
        divergence: KL(before || after) of the next token, in nats.
        before, after: the likeliest tokens before and after, likeliest first.
        actual: the token that the text goes on with; None at its end.
    """

    position: int
    token: str
    upto: str
    divergence: float
    before: tuple[Guess, ...]
    after: tuple[Guess, ...]
    actual: Guess | None


@dataclass(frozen=True)
class MovedToken:
    """A token, and how far its output vector moves: |after - before| / |before|."""

    position: int
    token: str
    moved: float


def predictions(sets: Sets, batch: Batch, top: int = 3) -> tuple[Prediction, ...]:
    """For each token of a text what is predicted to follow it, as the heads are and without the first set.

    Args:
        sets: of a model that predicts the next token.
        batch: of one text.
        top: how many of the likeliest tokens.

    Raises:
        ModelError: the model predicts no next token.
    """
    outputs = sets.output(batch, 0)
    next_token(outputs[0], batch.inputs)  # refuses logits that do not fit the ids
    before, after = map(logits_of, outputs)
    return predicted(sets.model, batch, before, after, range(len(text_side(batch).tokens)), top)


def predicted(
    model: Model,
    batch: Batch,
    before: Float[Tensor, "position vocabulary"],
    after: Float[Tensor, "position vocabulary"],
    positions: Iterable[int],
    top: int = 3,
) -> tuple[Prediction, ...]:
    """What is predicted to follow some tokens of a text, by the logits before and after.

    Args:
        model: whose tokenizer names the tokens.
        batch: of one text.
        before, after: logits of all positions.
        positions: of the tokens.
        top: how many of the likeliest tokens.
    """
    side = text_side(batch)
    found = []
    for i in positions:
        rows = [logits[i].float().log_softmax(-1) for logits in (before, after)]
        actual = side.tokens[i + 1].id if i + 1 < len(side.tokens) else None
        guess = None if actual is None else _guess(model, actual, *rows)
        likely = [
            tuple(_guess(model, id, *rows) for id in row.topk(top).indices.tolist()) for row in rows
        ]
        token = side.tokens[i]
        upto = side.text[: token.end].strip() or token.label
        apart = max(0.0, float((rows[0].exp() * (rows[0] - rows[1])).sum()))
        found.append(Prediction(i, token.label, upto, apart, likely[0], likely[1], guess))
    return tuple(found)


def divergences(
    before: Float[Tensor, "position vocabulary"], after: Float[Tensor, "position vocabulary"]
) -> Float[Tensor, " position"]:
    """KL(before || after) of what is predicted at each position, in nats."""
    found = []
    for one, other in zip(before.split(_ROWS), after.split(_ROWS), strict=True):
        p, q = one.float().log_softmax(-1), other.float().log_softmax(-1)
        found.append((p.exp() * (p - q)).sum(-1).clamp_min(0))
    return torch.cat(found)


def moved_tokens(sets: Sets, batch: Batch) -> tuple[MovedToken, ...]:
    """For each token of a text how far the model's output moves there without the first set."""
    return moved_by(*sets.output(batch, 0), batch)


def moved_by(before: Any, after: Any, batch: Batch) -> tuple[MovedToken, ...]:
    """For each token of a text how far its output moves from one output of the model to another."""
    values, _ = moved(before, after, batch)
    tokens = text_side(batch).tokens
    if values.shape[1] != len(tokens):  # one vector for the whole text
        return (MovedToken(0, "the text", float(values[0, 0])),)
    return tuple(MovedToken(i, t.label, float(values[0, i])) for i, t in enumerate(tokens))


def logits_of(output: Any) -> Float[Tensor, "position vocabulary"]:
    """The logits of the one text of a batch."""
    found: Tensor = getattr(output, "logits", output)[0]
    return found


def text_side(batch: Batch) -> Side:
    """The text that the model goes on with: the target where there is one."""
    side = batch.sources[0] if batch.targets is None else batch.targets[0]
    assert side is not None
    return side


def _guess(model: Model, id: int, before: Tensor, after: Tensor) -> Guess:
    name = token_name(model.tokenizer, id)
    with torch.no_grad():
        return Guess(name, float(before[id].exp()), float(after[id].exp()))
