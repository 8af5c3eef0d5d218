"""Named inputs that go in beside the text: those with a row for each row of it follow it, all others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from headwise.check.reading.given import Given

__all__ = ["Row", "laid"]


@dataclass(frozen=True, eq=False)
class Row:
    """What goes with one row of the text, such as labels, kinds of tokens or a condition.

    Attributes:
        value: of one row.
        length: how many positions of the text its second axis counts; None where it counts none.
    """

    value: Shaped[Tensor, "1 ..."]
    length: int | None = None

    def beside(self, given: Given) -> Shaped[Tensor, "batch ..."]:
        """For each row of an input; along its positions, counted among the real ones, the last for all beyond."""
        rows = given.batch
        if self.length is None:
            return self.value.expand(rows, *self.value.shape[1:])
        if given.real is None:
            at = torch.arange(given.length).expand(rows, -1)
        else:
            at = given.real.long().cpu().cumsum(-1) - 1
        return self.value[0][at.clamp(0, self.length - 1).to(self.value.device)]


def laid(others: Mapping[str, Any], given: Given, called: Any) -> dict[str, Any]:
    """Named inputs as an input of this shape needs them, where the model is and in its dtype.

    Args:
        others: by name.
        given: the text that they go with.
        called: the model; a function gets them as they are.
    """
    rows = {name: x.beside(given) if isinstance(x, Row) else x for name, x in others.items()}
    held = called.parameters() if rows and isinstance(called, nn.Module) else ()
    like = next((p for p in held if p.is_floating_point()), None)
    return {name: _moved(x, like) for name, x in rows.items()}


def _moved(x: Any, like: Tensor | None) -> Any:
    if like is None or not isinstance(x, Tensor):
        return x
    return x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)
