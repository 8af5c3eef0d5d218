"""What an ablation does over texts: each row measured with the heads as they are and without some of them.

What is measured is the loss of the next token where the model predicts one, else how far its output moves. Before
and after are of the same rows, so the change is known better than either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.ablating.gates import Gates
from headwise.cut.losses import check_predicts, next_token, ratio
from headwise.hub.load import Model, evaluating
from headwise.names import ConfigError, HeadId, ModelError
from headwise.see.texts.batches import Batch

__all__ = ["Change", "Measured", "Sets", "compared", "moved", "output_of", "predicts", "without"]

Set = Sequence[HeadId] | Mapping[HeadId, float]
"""Heads that are ablated together, or how much is left of each."""


@dataclass(frozen=True)
class Change:
    """A mean over rows before and after, and their difference.

    Attributes:
        before, after, change: means over all that counts; change = after - before.
        before_error, after_error, change_error: standard errors over rows, of the change over pairs of a row;
            NaN below two rows.
        count: how many tokens count.
        rows: in how many rows.
    """

    before: float
    after: float
    change: float
    before_error: float
    after_error: float
    change_error: float
    count: int
    rows: int


@dataclass(frozen=True, eq=False)
class Measured:
    """Sums of rows: `before`, `after` without each set of heads, and how many tokens count in each."""

    before: Float[np.ndarray, " row"]
    after: Float[np.ndarray, "set row"]
    counts: Float[np.ndarray, " row"]

    @classmethod
    def joined(cls, parts: Sequence[Measured]) -> Measured:
        """All rows of several."""
        return cls(
            np.concatenate([part.before for part in parts]),
            np.concatenate([part.after for part in parts], axis=1),
            np.concatenate([part.counts for part in parts]),
        )

    def change(self, number: int = 0) -> Change:
        """What the set of this number does."""
        before, before_error = ratio(self.before, self.counts)
        after, after_error = ratio(self.after[number], self.counts)
        change, change_error = ratio(self.after[number] - self.before, self.counts)
        return Change(
            before, after, change, before_error, after_error, change_error,
            int(self.counts.sum()), len(self.counts),
        )  # fmt: skip


class Sets:
    """Sets of heads that are ablated in turn on the same batches.

    Args:
        model: from `load`.
        gates: of all heads, at 1, with what stands in.
        sets: the heads of each set, or how much of each is left.
        factor: how much of them is left, where a set does not say.
    """

    def __init__(
        self, model: Model, gates: Gates, sets: Sequence[Set], factor: float = 0.0
    ) -> None:
        self.model, self.sets, self.predicts = model, sets, predicts(model)
        self._gates, self._factor = gates, factor

    def measured(self, batch: Batch) -> Measured:
        """The rows of a batch as they are, and without each set.

        Raises:
            ModelError: outputs that are no tensor.
        """
        with torch.no_grad(), evaluating(self.model.module):
            base = self.model.outputs(batch.inputs)
            others = [self._output(heads, batch) for heads in self.sets]
            return _measured(base, others, batch, self.predicts)

    def output(self, batch: Batch, number: int) -> tuple[Any, Any]:
        """The whole output as it is, and without the set of this number."""
        with torch.no_grad(), evaluating(self.model.module):
            return self.model.outputs(batch.inputs), self._output(self.sets[number], batch)

    def _output(self, heads: Set, batch: Batch) -> Any:
        with without(self._gates, heads, self._factor):
            return self.model.outputs(batch.inputs)


def compared(before: Model, after: Model, batches: Iterable[Batch]) -> Iterator[Measured]:
    """The rows of each batch by one model and by another that reads the same, for instance the first one cut.

    Args:
        before: from `load`; where it predicts the next token its loss is measured, else how far the output moves.
        after: the other one.
        batches: as `batches_in` gives them.
    """
    loss = predicts(before)
    with torch.no_grad(), evaluating(before.module), evaluating(after.module):
        for batch in batches:
            outputs = before.outputs(batch.inputs), after.outputs(batch.inputs)
            yield _measured(outputs[0], outputs[1:], batch, loss)


@contextmanager
def without(gates: Gates, heads: Set, factor: float = 0.0) -> Iterator[None]:
    """The gates in force with this factor, or one for each, at some heads and 1 at all others."""
    left = heads if isinstance(heads, Mapping) else dict.fromkeys(heads, factor)
    values = [left.get(id, 1.0) for id in gates.heads]
    with torch.no_grad():
        gates.value.copy_(torch.tensor(values))
    with gates.applied():
        yield


def predicts(model: Model) -> bool:
    """Whether a model predicts the next token."""
    try:
        check_predicts(model)
    except ModelError:
        return False
    return True


def moved(
    before: Any, after: Any, batch: Batch
) -> tuple[Float[Tensor, "row position"], Float[Tensor, "row position"]]:
    """How far each output vector moves, |after - before| / |before|, and which positions are real (1, else 0)."""
    one, other = output_of(before).float(), output_of(after).float()
    if one.dim() < 2:
        raise ConfigError(f"the output must have rows, [batch, ...], came {list(one.shape)}")
    flat = one.reshape(*one.shape[:2], -1) if one.dim() > 2 else one[:, None]
    apart = (other - one).reshape(flat.shape).norm(dim=-1)
    values = apart / flat.norm(dim=-1).clamp_min(torch.finfo(torch.float32).tiny)
    return values, _real(batch, values)


def output_of(output: Any) -> Tensor:
    """The vectors that a model gives: its last hidden state or logits, else the first floating tensor.

    Raises:
        ModelError: there is none.
    """
    if isinstance(output, Tensor):
        return output
    for name in ("last_hidden_state", "logits"):
        found = getattr(output, name, None)
        if isinstance(found, Tensor):
            return found
    parts = output.values() if hasattr(output, "values") else output
    held = parts if isinstance(parts, tuple | list) or hasattr(parts, "__iter__") else ()
    for part in held:
        if isinstance(part, Tensor) and part.is_floating_point():
            return part
    raise ModelError(f"the model's output, a {type(output).__name__}, holds no tensor to compare")


def _measured(base: Any, others: Sequence[Any], batch: Batch, loss: bool) -> Measured:
    """Sums of rows for an output, and for others of the same batch."""
    if not loss:
        pairs = [moved(base, output, batch) for output in others]
        after = np.stack([_sums(values, counted) for values, counted in pairs])
        counts = pairs[0][1].sum(1).double().cpu().numpy()
        return Measured(np.zeros_like(after[0]), after, counts)
    first = next_token(base, batch.inputs)
    losses = [next_token(output, batch.inputs) for output in others]
    after = np.stack([_sums(found.values, found.counted) for found in losses])
    counts = first.counts.double().cpu().numpy()
    return Measured(_sums(first.values, first.counted), after, counts)


def _real(batch: Batch, values: Float[Tensor, "row position"]) -> Float[Tensor, "row position"]:
    for name in ("decoder_attention_mask", "attention_mask"):
        mask = batch.inputs.get(name)
        if isinstance(mask, Tensor) and mask.shape == values.shape:
            return mask.to(values)
    return torch.ones_like(values)


def _sums(values: Tensor, counted: Tensor) -> np.ndarray:
    found: np.ndarray = (values * counted).sum(1).double().cpu().numpy()
    return found
