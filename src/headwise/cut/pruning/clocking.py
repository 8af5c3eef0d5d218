"""How much of its time a model takes without some heads, by cutting them and taking turns with the whole one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from headwise.cut.example import example
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.timing.rounds import interleaved
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId

__all__ = ["Clock"]

_ROUNDS = 9
_LENGTH = 128


class Clock:
    """Measures passes of a model and of what it becomes.

    Args:
        model: from `load`.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.inputs = _longer(model, example(model))

    def ratio(self, heads: Sequence[HeadId]) -> float:
        """The time of a pass without these heads, as a share of the time with them: medians of rounds in turns."""
        whole, cut = self.beside(cut_heads(self.model, list(heads)))
        return cut / whole

    def beside(self, other: Model) -> tuple[float, float]:
        """The seconds of a pass of the model and of another that reads the same: medians of rounds in turns."""
        passes = [partial(self._one, model) for model in (self.model, other)]
        whole, cut = map(statistics.median, interleaved(passes, _ROUNDS))
        return whole, cut

    def until(self, order: Sequence[tuple[HeadId, ...]], keep: float) -> tuple[HeadId, ...]:
        """The first of these units that go together until a pass takes at most a share of the time.

        Args:
            order: units, those that go first at the front.
            keep: the share.

        Raises:
            ConfigError: no cut of heads saves so much.
        """
        every = [id for heads in order for id in heads]
        least = self.ratio(every)
        if least > keep:
            raise ConfigError(
                f"keep={keep} of the time of {self.model.name} cannot be reached by cutting heads: without any "
                f"a pass took {least:.2f}"
            )
        low, high = 0, len(order)
        while high - low > 1:
            middle = (low + high) // 2
            gone = [id for heads in order[:middle] for id in heads]
            low, high = (low, middle) if self.ratio(gone) <= keep else (middle, high)
        return tuple(id for heads in order[:high] for id in heads)

    def _one(self, model: Model) -> float:
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)
        start = time.perf_counter()
        model.run(self.inputs)
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)
        return time.perf_counter() - start


def _longer(model: Model, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first row of ids, again and again up to a length worth measuring; other inputs as they are."""
    reads = (model.max_length, model.max_target_length)
    length = min(_LENGTH, *(most or _LENGTH for most in reads))
    ids = inputs.get("input_ids")
    if ids is None:
        return inputs
    names = [name for name in ("input_ids", "decoder_input_ids") if name in inputs]
    return {name: inputs[name][:1].repeat(1, length)[:, :length] for name in names}
