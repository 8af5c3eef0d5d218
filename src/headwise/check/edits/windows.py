"""Does an attention layer see further than the window that the config names for it?

Each layer by itself: the gradient of what its attention module gives to what it reads, position by position. So a
window is told from the layers around it that see everything, and the module is named at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.edits.outcomes import skipped, unknown
from headwise.check.measuring.nudge import Nudge
from headwise.check.places.placing import leaves
from headwise.check.running.plan import Plan, Way, spread
from headwise.check.telling.report import Outcome
from headwise.hub.anatomy import Layer, anatomy_of
from headwise.names import HeadwiseError

__all__ = ["check_windows"]

_QUERIES = 8


def check_windows(plan: Plan) -> Outcome:
    """Every attention layer against the mask that its config names."""
    causal = torch.ones(plan.length, plan.length).tril().bool()
    if all(bool((_mask(plan, i) == causal).all()) for i in range(len(plan.windows))):
        says = f"no window is shorter than the {plan.length} positions; pass a greater length"
        return skipped("future", says, "window")
    try:
        layers = _layers(plan)
        told = [_of(plan, layer, *read_gave) for layer, read_gave in layers.items()]
    except HeadwiseError as error:
        return skipped("future", f"its windows are not seen: {error}", "window")
    except Exception as error:  # a model raises whatever it meets
        return unknown("future", f"the model raised {type(error).__name__}", "window")
    seen = [outcome for outcome in told if outcome is not None]
    if not seen:
        return skipped("future", "no layer reads and gives positions that gradients join", "window")
    bad = [outcome for outcome in seen if outcome.bad]
    if bad:
        return bad[0]
    return replace(seen[0], says=f"nothing moved in {len(seen)} layers", allowed=None)


def _mask(plan: Plan, layer: int) -> Bool[Tensor, "query key"]:
    return plan.windows[layer].dense(plan.length, plan.length, 0)[0].any(0)


def _layers(plan: Plan) -> dict[Layer, tuple[Tensor, Tensor]]:
    """What each attention layer read and gave in one run, joined by gradients."""
    copy = plan.subject.fresh()
    assert copy.module is not None
    found: dict[Layer, tuple[Tensor, Tensor]] = {}
    shape = (1, plan.length)

    def keep(layer: Layer) -> Callable[..., None]:
        def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            read, gave = (
                next(
                    (x for _, x in leaves(value) if x.requires_grad and x.shape[:2] == shape), None
                )
                for value in ((args, kwargs), output)
            )
            if read is not None and gave is not None and layer not in found:
                found[layer] = (read, gave)

        return hook

    with ExitStack() as hooks:
        for layer in anatomy_of(copy.module).layers:
            if layer.id.stream in ("", "decoder") and layer.id.layer < len(plan.windows):
                handle = layer.module.register_forward_hook(keep(layer), with_kwargs=True)
                hooks.callback(handle.remove)
        Way().runs(copy, fresh=False)(plan.given, Nudge(gradient=True))
    return found


def _of(plan: Plan, layer: Layer, read: Tensor, gave: Tensor) -> Outcome | None:
    """One layer; None where no gradient leads from what it gave to what it read."""
    length = plan.length
    allowed = _mask(plan, layer.id.layer)
    sizes = _sizes(gave, read, spread(tuple(range(length)), _QUERIES))
    most = float(sizes.nan_to_num(0.0).max())
    if not most > 0.0:
        return None
    measured = sizes / most
    wrong = measured.where(~allowed, 0.0).nan_to_num(0.0)
    strength = float(wrong.max())
    eps = torch.finfo(torch.float64).eps
    if strength <= eps:
        return Outcome("future", "window", "clean", "", strength, 0.0, eps, allowed=allowed)
    order = wrong.flatten().argsort(descending=True)[:12].tolist()
    pairs = tuple(divmod(at, length) for at in order if float(wrong.flatten()[at]) > eps)
    query, key = pairs[0]
    return Outcome(
        "future",
        "window",
        "leak",
        f"position {query} sees position {key} in layer {layer.id}, {strength:.2g} of that layer's largest "
        f"influence, and its mask is {plan.windows[layer.id.layer]}",
        strength,
        0.0,
        eps,
        layer.path,
        type(layer.module).__name__,
        pairs,
        allowed=allowed,
        measured=measured,
    )


def _sizes(
    out: Float[Tensor, "1 query d_out"], read: Float[Tensor, "1 key d_in"], queries: tuple[int, ...]
) -> Float[Tensor, "query key"]:
    """The size of the gradient of some outputs to what was read, NaN elsewhere."""
    direction = torch.randn(out.shape[-1], generator=torch.Generator().manual_seed(5)).to(out)
    sizes = torch.full((out.shape[1], read.shape[1]), torch.nan, dtype=torch.float64)
    for query in queries:
        total = (out[0, query] * direction).sum()
        (gradient,) = torch.autograd.grad(total, read, retain_graph=True, allow_unused=True)
        if gradient is not None:
            sizes[query] = gradient[0].double().norm(dim=-1).cpu()
    return sizes
