"""The parameters that are tuned, and copies of them to go back to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from headwise.cut.example import example
from headwise.hub.load import Model
from headwise.hub.weights import weights_of
from headwise.names import ConfigError

__all__ = ["Parts", "State", "chosen", "tuned"]

Parts = Literal["all", "attention"]


class State:
    """A copy of some parameters, which can be taken again and put back."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._copies = [p.detach().clone() for p in parameters]

    def take(self) -> None:
        """As they are now."""
        self._move(self._copies, self._parameters)

    def put_back(self) -> None:
        """As they were when this was taken."""
        self._move(self._parameters, self._copies)

    @staticmethod
    def _move(to: Sequence[Tensor], of: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for one, other in zip(to, of, strict=True):
                one.copy_(other)


def chosen(model: Model, parts: Parts) -> list[nn.Parameter]:
    """The parameters that are tuned: all, or those of the attention layers, W_O among them.

    Raises:
        ConfigError: another choice.
    """
    if parts not in get_args(Parts):
        raise ConfigError(f"parts={parts!r} is not known; use one of {', '.join(get_args(Parts))}")
    if parts == "all":
        found = list(model.module.parameters())
    else:
        homes = [layer.module for layer in model.anatomy.layers]
        outputs = [layer.o for layer in weights_of(model, example(model)).layers]
        homes += [model.module.get_submodule(o.path) for o in outputs if o is not None]
        found = list({id(p): p for home in homes for p in home.parameters()}.values())
    return [p for p in found if p.is_floating_point()]


@contextmanager
def tuned(model: Model, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Gradients for these parameters alone, dropout off; afterwards everything as it was but for their values."""
    before = [(p, p.requires_grad, p.grad) for p in model.module.parameters()]
    training = [part for part in model.module.modules() if part.training]
    wanted = {id(p) for p in parameters}
    try:
        model.module.eval()
        for p, _, _ in before:
            p.grad = None
            p.requires_grad_(id(p) in wanted)
        yield
    finally:
        for p, asked, grad in before:
            p.requires_grad_(asked)
            p.grad = grad
        for part in training:
            part.training = True
