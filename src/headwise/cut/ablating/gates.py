"""Gates: one learnable factor for each head, between the head and what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core.attention import Edit
from headwise.cut.ablating.ablating import stand_ins
from headwise.cut.ablating.applying import Fired, applied
from headwise.cut.ablating.standing_in import How, check_how, gated
from headwise.cut.census import census
from headwise.cut.selecting import Heads, selected
from headwise.hub.load import Model
from headwise.names import HeadId, LayerId
from headwise.see.texts.given import Texts
from headwise.see.texts.refusing import check_model

__all__ = ["Gates"]


class Gates(nn.Module):
    """A factor for each head, a parameter: r + gate * (z - r), with z the head's output and r what stands in.

        gates = hw.Gates(model)
        with gates.applied():
            loss(model).backward()
        gates.value.grad   # [gate]: what each head does for the loss (Michel et al. 2019)

    Args:
        model: from `load`.
        heads: which heads, as `ablate` takes them; None = all.
        how: what stands in, as in `ablate`.
        texts: for "mean" and "resample".
        start: of every gate.
        seed: of the draws of "resample".
        inputs: a batch to count the model's heads with, where none can be made up for it.

    Attributes:
        heads: the head of each gate, in order.
        value: the gates, [gate].

    Raises:
        HeadwiseError: as `ablate` does.
    """

    def __init__(
        self,
        model: Model,
        heads: Heads | None = None,
        how: How = "zero",
        *,
        texts: Texts | None = None,
        start: float = 1.0,
        seed: int = 0,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_model(model, "Gates")
        check_how(how)
        self._model = (model,)  # in a tuple, as its parameters are not the gates'
        self._stands = stand_ins(model, how, texts, seed)
        self.heads: tuple[HeadId, ...] = selected(
            census(model, inputs), "*" if heads is None else heads
        )
        self.value = nn.Parameter(torch.full((len(self.heads),), start, device=model.device))

    def forward(self) -> Float[Tensor, " gate"]:
        """The factors that apply now."""
        return self.value

    @contextmanager
    def applied(self) -> Iterator[Fired]:
        """Let the gates act in every pass of the model within the `with`.

        Raises:
            ModelError: at the end, if no pass ran these layers.
        """
        model, factors = self._model[0], self()
        places = {id: i for i, id in enumerate(self.heads)}
        edits: dict[LayerId, Edit] = {}
        for run in census(model).runs:
            at = [places.get(run.id.head(head), -1) for head in run.heads]
            if any(i >= 0 for i in at):
                chosen = torch.cat([factors, factors.new_ones(1)])[at]  # -1: no gate, factor 1
                edits[run.id] = gated(run.layer.module, chosen, self._stands(run))
        with applied(model, edits) as fired:
            yield fired
