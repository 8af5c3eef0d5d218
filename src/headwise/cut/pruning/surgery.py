"""The surgery: heads cut out of the matrices for good, and the model held against itself with these heads at 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headwise.core.taps import tap_of
from headwise.cut.census import Census, census, forget
from headwise.cut.example import example
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.record import Cut, apply_cut, cut_of, put
from headwise.cut.pruning.reshaping import Change, change_of
from headwise.cut.pruning.restoring import put_back_on_error
from headwise.cut.pruning.verifying import (
    FAR_OFF,
    MOST_OFF,
    MOST_OFF_DOUBLE,
    answers,
    expected,
    off,
)
from headwise.cut.selecting import Heads, selected
from headwise.hub.anatomy import Layer
from headwise.hub.channels import Channels, channels_of
from headwise.hub.load import Model
from headwise.hub.shards import is_split
from headwise.names import HeadError, HeadId, HeadwiseError, LayerId, ModelError
from headwise.see.texts.refusing import check_model

__all__ = ["cut_heads"]


def cut_heads(
    model: Model,
    heads: Heads,
    outputs: Mapping[LayerId, NewOutput] | None = None,
    *,
    inplace: bool = False,
    inputs: Mapping[str, Any] | None = None,
) -> Model:
    """Cut heads out of a model: smaller matrices, the same results as with these heads' outputs at 0.

    A KV head goes with the last query head that reads it. A layer may lose all its heads: it then adds its bias
    alone. What is left keeps its ids, head_dim and positions.

    Args:
        model: from `load`.
        heads: as `ablate` takes them.
        outputs: for layers, also such as keep their heads, what becomes of W_O.
        inplace: change the model given; else a copy is cut.
        inputs: what it is run on to find and prove, named as transformers does; None = made up.

    Returns:
        The model that was cut.

    Raises:
        HeadError: a head that is not there, or of a module that runs several times, and not in all its runs.
        ModelError: a model that cannot be cut; it is as it was.
    """
    check_model(model, "prune")
    refuse_uncuttable(model)
    found = census(model, inputs)
    none = isinstance(heads, list | tuple) and not heads and outputs  # W_O alone changes
    ids = () if none else selected(found, heads)
    plan = _plan(model, found, ids, outputs or {}, example(model, inputs))
    made = _operated(model, plan, inplace)
    census(made, plan.inputs)
    return made


def refuse_uncuttable(model: Model) -> None:
    """Refuse a model whose weights are not all here in a form that can be cut.

    Raises:
        ModelError: split over processes, kept elsewhere between uses, or packed (quantised).
    """
    module = model.module
    why = None
    if any(tap_of(part) is not None for part in module.modules()):
        why = "heads of it are ablated; leave the `with` first"
    elif is_split(module):
        why = "it is split over processes; load it whole"
    elif any(p.is_meta for p in module.parameters()):
        why = "some of its weights are kept elsewhere between uses; load it without a device_map"
    elif any(not p.is_floating_point() or p.element_size() < 2 for p in module.parameters()):
        why = "its weights are packed (quantised); load it in float32 or bfloat16"
    if why is not None:
        raise ModelError(f"{model.name} cannot be cut: {why}")


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is cut: of each layer the places of its heads that go, and what becomes of its W_O."""

    heads: tuple[HeadId, ...]
    drop: Mapping[str, frozenset[int]]
    outputs: Mapping[str, NewOutput]
    layers: tuple[Layer, ...]
    inputs: Mapping[str, Any]


def _plan(
    model: Model,
    found: Census,
    heads: tuple[HeadId, ...],
    outputs: Mapping[LayerId, NewOutput],
    inputs: Mapping[str, Any],
) -> _Plan:
    """The cut by modules.

    Raises:
        HeadError: runs of one module that would lose different heads.
        ModelError: one W_O that should become two things, or one of a layer that is not there.
    """
    drop: dict[str, frozenset[int]] = {}
    new: dict[str, NewOutput] = {}
    for layer in model.anatomy.layers:
        runs = found.of(layer.module)
        cut = [{h for h in run.heads if run.id.head(h) in heads} for run in runs]
        for mine in cut:
            if mine != cut[0]:
                odd = min(mine ^ cut[0])
                raise HeadError(
                    f"the layers {runs[0].id} to {runs[-1].id} are one module that runs {len(runs)} times, so head "
                    f"{odd} can only be cut in all of them; name it as *.{odd}"
                )
        if runs and cut[0]:
            drop[layer.path] = frozenset(runs[0].index(head) for head in cut[0])
        given = [outputs[run.id] for run in runs if run.id in outputs]
        if any(not x.same(given[0]) for x in given):
            raise ModelError(
                f"the layers {runs[0].id} to {runs[-1].id} share one W_O; give them one and the same NewOutput"
            )
        if given:
            new[layer.path] = given[0]
    unknown = [id for id in outputs if id not in found.by_id]
    if unknown:
        raise ModelError(f"outputs names layer {unknown[0]}, which {model.name} has not")
    layers = tuple(x for x in model.anatomy.layers if x.path in drop or x.path in new)
    return _Plan(heads, drop, new, layers, inputs)


def _operated(model: Model, plan: _Plan, inplace: bool) -> Model:
    """The model that was cut, after proof."""
    target = model if inplace else model.copied()
    channels = channels_of(model, list(plan.layers), plan.inputs)
    fine = all(p.dtype in (torch.float32, torch.float64) for p in model.module.parameters())
    try:  # half precision proves nothing: a copy is held against itself in its place
        _proved(target if fine else model.copied(torch.float32), plan, channels, MOST_OFF)
        if fine:
            return target
    except _OffError as error:  # rounding, or a wrong cut: double precision tells
        if error.far > FAR_OFF:
            raise ModelError(str(error)) from None
        _proved(model.copied(torch.float64), plan, channels, MOST_OFF_DOUBLE)
    with put_back_on_error(target.module):
        _change(target, _changes(target, plan, channels))
    return target


class _OffError(ModelError):
    """A model that was cut and gives something else, by how much; it was put back."""

    def __init__(self, message: str, far: float) -> None:
        super().__init__(message)
        self.far = far


def _proved(model: Model, plan: _Plan, channels: Mapping[str, Channels], most: float) -> None:
    """Cut a model in place, and hold it against itself as it was.

    Raises:
        ModelError: it is not the same (`_OffError`), or its code fails; it is put back.
    """
    census(model, plan.inputs)  # which a copy has not yet been asked for
    outputs = [(channels[path], output) for path, output in plan.outputs.items()]
    wanted = expected(model, plan.heads, outputs, plan.inputs)
    with put_back_on_error(model.module):
        try:
            _change(model, _changes(model, plan, channels))
            far = off(answers(model, plan.inputs), wanted)
        except HeadwiseError:
            raise
        except Exception as error:  # whatever the code of an unknown module meets with fewer heads
            line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            told = f"with fewer heads its code raises {line!r}"
            if isinstance(error, RuntimeError):  # what torch says of shapes
                told += " (in code of yours, write -1 for the number of heads: view(b, n, -1, d))"
            raise ModelError(_refusal(model, plan, told)) from error
        if not far <= most:
            raise _OffError(
                _refusal(
                    model, plan, f"it then gives something else (by {far:.1e} of the largest)"
                ),
                far,
            )


def _refusal(model: Model, plan: _Plan, why: str) -> str:
    classes = ", ".join(dict.fromkeys(type(layer.module).__name__ for layer in plan.layers))
    return (
        f"{model.name} cannot be cut ({classes}): {why}; it is left as it was, ablate heads instead"
    )


def _changes(model: Model, plan: _Plan, channels: Mapping[str, Channels]) -> list[Change]:
    """What becomes of each layer of the model, or of a copy of the one that was looked at."""
    changes = []
    for path, found in channels.items():
        layer = replace(found.layer, module=model.module.get_submodule(path))
        own, drop = replace(found, layer=layer), plan.drop.get(path, frozenset())
        changes.append(change_of(model.module, own, drop, plan.outputs.get(path)))
    return changes


def _change(model: Model, changes: list[Change]) -> None:
    """Apply the cut to a model in place, and put the new tensors in."""
    module: nn.Module = model.module
    cut = cut_of(module) or Cut({}, {}, {})
    with torch.no_grad():
        for change in changes:
            cut = cut.then(change.cut)
        apply_cut(module, cut)
        for change in changes:
            for name, tensor in change.tensors.items():
                put(module, name, tensor)
    forget(model)
