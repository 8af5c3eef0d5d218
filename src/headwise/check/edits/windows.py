"""Does an attention layer see further than the window that the config names for it?

Each layer by itself: the gradient of what its attention module gives to what it reads, position by position. So a
window is told from the layers around it that see everything, and the module is named at once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.check.edits.outcomes import skipped, unknown
from headwise.check.nudge import Nudge
from headwise.check.plan import Plan, Way, spread
from headwise.check.report import Outcome
from headwise.check.tracing import Called, trace
from headwise.hub.anatomy import Layer, anatomy_of
from headwise.names import HeadwiseError

__all__ = ["check_windows"]

_QUERIES = 8


def check_windows(plan: Plan) -> Outcome:
    """Every attention layer against the mask that its config names."""
    copy = plan.subject.fresh()
    module = copy.module
    try:
        assert module is not None
        layers = [x for x in anatomy_of(module).layers if x.id.stream in ("", "decoder")]
        nudge = Nudge(gradient=True)
        run = Way().runs(copy, fresh=False)
        found = trace(module, lambda: run(plan.given, nudge), plan.length, attached=True)
    except HeadwiseError as error:
        return skipped("future", f"its windows are not seen: {error}", "window")
    except Exception as error:  # a model raises whatever it meets
        return unknown("future", f"the model raised {type(error).__name__}", "window")
    calls = {call.path: call for call in found.ended() if call.occurrence == 0}
    told = [_of(plan, layer, calls.get(layer.path)) for layer in layers]
    bad = [outcome for outcome in told if outcome is not None and outcome.bad]
    seen = [outcome for outcome in told if outcome is not None]
    if bad:
        return bad[0]
    if not seen:
        return skipped("future", "no layer reads and gives positions that gradients join", "window")
    if all(
        bool((mask.dense(plan.length, plan.length, 0)[0] == _causal(plan)).all())
        for mask in plan.windows
    ):
        says = f"no window is shorter than the {plan.length} positions; pass a greater length"
        return skipped("future", says, "window")
    return replace(
        seen[0], says=f"nothing moved in {len(seen)} layers", allowed=None, measured=None
    )


def _causal(plan: Plan) -> Tensor:
    return torch.ones(plan.length, plan.length).tril().bool()


def _of(plan: Plan, layer: Layer, call: Called | None) -> Outcome | None:
    """One layer; None where its tensors are not joined by gradients."""
    if call is None or layer.id.layer >= len(plan.windows):
        return None
    inputs = [x for x in call.inputs.values() if x.requires_grad and x.dim() == 3]
    outputs = [x for x in call.outputs.values() if x.requires_grad and x.dim() == 3]
    if not inputs or not outputs:
        return None
    length = plan.length
    allowed = plan.windows[layer.id.layer].dense(length, length, 0)[0].any(0)
    sizes = _sizes(outputs[0], inputs[0], spread(tuple(range(length)), _QUERIES))
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
