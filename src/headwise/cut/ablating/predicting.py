"""What an ablation does within one text: at which tokens the prediction of the next one changes, and to what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.comparing import Sets, moved
from headwise.cut.losses import next_token
from headwise.see.neurons.lens import token_name
from headwise.see.record import Side
from headwise.see.texts.batches import Batch

__all__ = ["Guess", "MovedToken", "Prediction", "moved_tokens", "predictions"]


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
    before, after = (_logits(output).float().log_softmax(-1) for output in outputs)
    next_token(outputs[0], batch.inputs)  # refuses logits that do not fit the ids
    side = _side(batch)
    apart = (before.exp() * (before - after)).sum(-1)
    found = []
    for i, token in enumerate(side.tokens):
        actual = side.tokens[i + 1].id if i + 1 < len(side.tokens) else None
        guess = None if actual is None else _guess(sets, actual, before[i], after[i])
        likely = [
            tuple(
                _guess(sets, id, before[i], after[i]) for id in rows[i].topk(top).indices.tolist()
            )
            for rows in (before, after)
        ]
        divergence = max(0.0, float(apart[i]))
        upto = side.text[: token.end].strip() or token.label
        found.append(Prediction(i, token.label, upto, divergence, likely[0], likely[1], guess))
    return tuple(found)


def moved_tokens(sets: Sets, batch: Batch) -> tuple[MovedToken, ...]:
    """For each token of a text how far the model's output moves there without the first set."""
    before, after = sets.output(batch, 0)
    values, _ = moved(before, after, batch)
    tokens = _side(batch).tokens
    if values.shape[1] != len(tokens):  # one vector for the whole text
        return (MovedToken(0, "the text", float(values[0, 0])),)
    return tuple(MovedToken(i, t.label, float(values[0, i])) for i, t in enumerate(tokens))


def _logits(output: Any) -> Float[Tensor, "position vocabulary"]:
    found: Tensor = getattr(output, "logits", output)[0]
    return found


def _side(batch: Batch) -> Side:
    side = batch.sources[0] if batch.targets is None else batch.targets[0]
    assert side is not None
    return side


def _guess(sets: Sets, id: int, before: Tensor, after: Tensor) -> Guess:
    name = token_name(sets.model.tokenizer, id)
    with torch.no_grad():
        return Guess(name, float(before[id].exp()), float(after[id].exp()))
