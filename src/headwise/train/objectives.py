"""The loss of a batch: what our models should have predicted, each by its own forward.

A sum and a count, not a mean: parts of a step and processes divide by the count of all of them.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.names import ModelError
from headwise.nn import Decoder, Encoder, EncoderDecoder
from headwise.train.data.batch import IGNORED, Batch

__all__ = ["loss_of"]


def loss_of(module: nn.Module, batch: Batch) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum of the losses of a batch, in nats, with gradients; and how many positions it is of.

    A Decoder predicts the next token, an Encoder the tokens that are hidden (`Encoder.logits`), an EncoderDecoder
    the target's next token. Logits are made only where a goal counts, but for a Decoder, where nearly all do. The
    losses are computed in float32.

    Args:
        module: of `headwise.nn`.
        batch: on the module's device.

    Raises:
        ModelError: a module of another class.
    """
    counted = batch.goal != IGNORED
    hidden, head = _hidden(module, batch)
    if isinstance(module, Decoder):
        logits, goal = head.logits(hidden), batch.goal
    else:
        logits, goal = head.logits(hidden[counted][None])[0], batch.goal[counted]
    losses = F.cross_entropy(
        logits.flatten(0, -2).float(), goal.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    return losses, counted.sum()


def _hidden(
    module: nn.Module, batch: Batch
) -> tuple[Float[Tensor, "row position d_model"], Decoder | Encoder]:
    """What the logits are made of, at every position that has a goal; and what makes them."""
    inputs: dict[str, Any] = dict(batch.inputs)
    if isinstance(module, Decoder):
        return module.hidden(**inputs), module
    if isinstance(module, Encoder):
        return module(**inputs), module
    if isinstance(module, EncoderDecoder):
        padding = inputs.get("source_padding_mask")
        memory = module.encode(inputs["source_ids"], padding)
        target = inputs["target_ids"], inputs.get("target_padding_mask")
        hidden = module.decoder.hidden(*target, memory=memory, memory_padding_mask=padding)
        return hidden, module.decoder
    raise ModelError(
        f"{type(module).__name__} has no objective; train an Encoder, Decoder or EncoderDecoder of headwise.nn"
    )
