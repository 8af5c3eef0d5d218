"""The proof of a cut: the model that was cut gives what the whole one gives with its heads' outputs at 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headwise.cut.ablating.ablating import ablate
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.reshaping import new_bias, new_weight
from headwise.hub.anatomy import is_attention
from headwise.hub.channels import Channels
from headwise.hub.load import Model, evaluating
from headwise.names import HeadId

__all__ = ["FAR_OFF", "MOST_OFF", "MOST_OFF_DOUBLE", "answers", "expected", "off"]

MOST_OFF = 1e-5
"""How far a pruned model may be from the ablated one, as a share of the largest output, in float32."""

FAR_OFF = 0.01
"""What is further off than this in float32 is not for rounding."""

MOST_OFF_DOUBLE = 1e-10
"""The same in float64, for models whose own rounding is larger than that in float32."""


def expected(
    model: Model,
    heads: tuple[HeadId, ...],
    outputs: list[tuple[Channels, NewOutput]],
    inputs: Mapping[str, Any],
) -> list[Tensor]:
    """What a model gives with heads ablated, and with what W_O becomes of some layers."""
    with ExitStack() as stack:
        for channels, output in outputs:
            stack.enter_context(_replaced(model.module, channels, output))
        if heads:
            stack.enter_context(ablate(model, heads, how="zero"))
        return answers(model, inputs)


def answers(model: Model, inputs: Mapping[str, Any]) -> list[Tensor]:
    """All numbers that a model gives on an input, in eval mode, without gradients."""
    with (
        evaluating(model.module),
        torch.no_grad(),
        torch.random.fork_rng(),
    ):  # models that draw draw the same
        torch.manual_seed(0)
        made = model.outputs(inputs)
        if is_attention(model.module) and isinstance(made, tuple):
            made = made[0]  # beside it gives weights averaged over the heads there are
        return list(_tensors(made))


def off(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference, as a share of the largest number of its tensor; infinite where shapes differ."""
    if [x.shape for x in found] != [x.shape for x in wanted]:
        return float("inf")
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if not a.numel():
            continue
        difference = (a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30)
        worst = max(worst, float("inf") if difference.isnan() else float(difference))
    return worst


def _tensors(given: Any) -> Iterator[Tensor]:
    """The tensors of numbers in an output, in order; caches are left out."""
    if isinstance(given, Tensor):
        if given.is_floating_point():
            yield given
    elif isinstance(given, Mapping):
        for value in given.values():
            yield from _tensors(value)
    elif isinstance(given, tuple | list):
        for value in given:
            yield from _tensors(value)


@contextmanager
def _replaced(model: nn.Module, channels: Channels, output: NewOutput) -> Iterator[None]:
    """With a new W_O and what is added to its bias, for the time of the `with`."""
    module = model.get_submodule(channels.output.name.rpartition(".")[0])
    weight, bias = module._parameters["weight"], module._parameters.get("bias")
    assert weight is not None
    added = new_bias(model, channels, output)
    before = [(p, p.data) for p in (weight, bias) if p is not None]
    with ExitStack() as stack:
        try:
            weight.data = new_weight(channels, weight.detach(), output)
            if added is not None and bias is not None:
                bias.data = added
            elif added is not None:
                adding = partial(_adding, added)
                stack.callback(module.register_forward_hook(adding).remove)
            yield
        finally:
            for p, data in before:
                p.data = data


def _adding(bias: Tensor, module: nn.Module, given: Any, made: Tensor) -> Tensor:
    return made + bias
