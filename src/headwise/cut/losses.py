"""The loss a verb of cutting looks at: of the next token, or a function of one's own of the model's output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.hub.load import Model, evaluating
from headwise.names import ModelError, ShapeError, TextError
from headwise.nn import Decoder, EncoderDecoder
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.refusing import check_model, check_reads_text
from headwise.see.texts.tokens import tokenize

__all__ = [
    "Loss",
    "LossFunction",
    "TokenLosses",
    "blocks",
    "loss",
    "losses_of",
    "mean_loss",
    "next_token",
]

LossFunction = Callable[[Any, Mapping[str, Any]], Tensor]
"""loss(output, inputs): from what the model gave and was given a loss, [], [batch] or [batch, position].

`inputs` are named as transformers names them (input_ids, attention_mask, decoder_input_ids, ...). A loss [] makes
one row of the whole batch: no standard error, and of a gradient the size of the mean, not the mean of the size.
"""


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The losses of a batch: `values`, of which those that are `counted` count."""

    values: Float[Tensor, "row position"]
    counted: Bool[Tensor, "row position"]

    @property
    def total(self) -> Float[Tensor, ""]:
        """Their sum, with gradients."""
        return self.of_rows.sum()

    @property
    def of_rows(self) -> Float[Tensor, " row"]:
        """The sum of each row, with gradients."""
        return (self.values * self.counted).sum(1)

    @property
    def counts(self) -> Int[Tensor, " row"]:
        """How many count in each row."""
        return self.counted.sum(1)


@dataclass(frozen=True)
class Loss:
    """The mean loss over some texts, in nats per token for the next token.

    Attributes:
        mean: over all that counts.
        standard_error: of it, over texts (rows), of a ratio of sums.
        count: how many losses were averaged (tokens).
        texts: in how many rows.
    """

    mean: float
    standard_error: float
    count: int
    texts: int

    @property
    def perplexity(self) -> float:
        """exp(mean)."""
        return math.exp(min(self.mean, 700.0))


def loss(model: Model, texts: Texts, loss: LossFunction | None = None) -> Loss:
    """The mean loss of a model over texts, in eval mode, without gradients.

    Args:
        model: from `load`.
        texts: whatever `profile` takes; `blocks` makes rows of equal length of a corpus.
        loss: a function of the model's output and inputs; None = of the next token (`next_token`).

    Raises:
        ModelError: a model that predicts no next token, and no loss given.
        TextError: no text, or one that cannot be read.
    """
    check_model(model, "loss")
    sums, counts = [], []
    with torch.no_grad(), evaluating(model.module):
        for batch in batches_in(model, texts, None, None, "loss"):
            found = losses_of(model, batch, loss)
            sums += found.of_rows.double().tolist()
            counts += found.counts.tolist()
    return mean_loss(sums, counts)


def losses_of(model: Model, batch: Batch, loss: LossFunction | None = None) -> TokenLosses:
    """Run the model on a batch, as it is, and give the losses, with gradients where they are on.

    Raises:
        ModelError: a model that predicts no next token, and no loss given.
        ShapeError: a loss of one's own of another shape than [], [batch] or [batch, position].
    """
    if loss is None:
        check_predicts(model)
    inputs = model.placed(batch.inputs)
    output = model.outputs(inputs)
    if loss is None:
        return next_token(output, inputs)
    values = loss(output, inputs)
    if not isinstance(values, Tensor) or not values.is_floating_point() or values.dim() > 2:
        came = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ShapeError(f"loss must give a tensor [], [batch] or [batch, position], came {came}")
    if values.dim() == 0:
        values = values[None]
    values = values if values.dim() == 2 else values[:, None]
    return TokenLosses(values, torch.ones_like(values, dtype=torch.bool))


def next_token(output: Any, inputs: Mapping[str, Any]) -> TokenLosses:
    """The loss of each next token, in nats: -log p(token at t + 1 | those up to t).

    Of an encoder-decoder that of what its decoder reads. Where the next token is padding it does not count.
    """
    logits = getattr(output, "logits", output)
    goal, counted = goals(inputs)
    values = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), goal.flatten(), reduction="none")
    return TokenLosses(values.view(goal.shape), counted)


def goals(
    inputs: Mapping[str, Any],
) -> tuple[Int[Tensor, "row position"], Bool[Tensor, "row position"]]:
    """The next token at every position but the last, and which of them count."""
    side = "decoder_" if "decoder_input_ids" in inputs else ""
    ids, mask = inputs[f"{side}input_ids"], inputs.get(f"{side}attention_mask")
    goal = ids[:, 1:]
    if mask is None:
        return goal, torch.ones_like(goal, dtype=torch.bool)
    return goal, mask[:, 1:].bool() & mask[:, :-1].bool()


def check_predicts(model: Model) -> None:
    """Refuse a model that does not predict the next token.

    Raises:
        ModelError: it does not.
    """
    module = model.module
    own = isinstance(module, Decoder | EncoderDecoder)
    generates = getattr(module, "can_generate", None)
    if not own and not (model.foreign and generates is not None and generates()):
        raise ModelError(
            f"{model.name} predicts no next token; give loss=, a function of its output and inputs, for instance "
            "lambda output, inputs: my_loss(output.last_hidden_state, labels)"
        )


def blocks(
    model: Model, texts: str | list[str], length: int = 256, join: str = "\n"
) -> Int[Tensor, "block position"]:
    """A corpus as rows of equal length: the texts joined, tokenized and cut; what is left over is dropped.

    Args:
        model: whose tokenizer reads them.
        texts: one or several.
        length: of a row, in tokens.
        join: what stands between two texts.

    Raises:
        ModelError: the model has no tokenizer.
        TextError: fewer tokens than one row.
    """
    check_reads_text(model, "blocks")
    assert model.tokenizer is not None
    whole = texts if isinstance(texts, str) else join.join(texts)
    ids = [token.id for token in tokenize(model.tokenizer, whole)]
    if length < 2 or len(ids) < length:
        raise TextError(
            f"the texts are {len(ids)} tokens, and a block is {length} (at least 2); give more text"
        )
    rows = len(ids) // length
    return torch.tensor(ids[: rows * length]).view(rows, length)


def mean_loss(sums: list[float], counts: list[int]) -> Loss:
    """The mean over rows of which the sums and the counts are known.

    Raises:
        ShapeError: nothing counts.
    """
    count, rows = sum(counts), len(sums)
    if not count:
        raise ShapeError("no token counts: every text is one token long; give longer texts")
    mean, error = ratio(np.array(sums), np.array(counts))
    return Loss(mean, error, count, rows)


def ratio(
    sums: Float[np.ndarray, " row"], counts: Float[np.ndarray, " row"] | Int[np.ndarray, " row"]
) -> tuple[float, float]:
    """A ratio of sums over rows, and its standard error (NaN of one row; Cochran 1977, section 2.11)."""
    mean, rows = sums.sum() / counts.sum(), len(sums)
    if rows < 2:
        return float(mean), math.nan
    squares = ((sums - mean * counts) ** 2).sum()
    return float(mean), math.sqrt(squares * rows / (rows - 1)) / float(counts.sum())
