"""Whether a model that was cut is one that a config.json says by itself, as its layers are alike.

No family is named: the config's own fields for numbers of heads are set, the model is built from that, and it
must be the model that was cut, tensor by tensor and number by number. Biases that it has besides are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import torch
from torch import Tensor, nn

from headwise.cut.pruning.record import Cut
from headwise.cut.saving.forms import Form, Heads
from headwise.hub.load import Model
from headwise.hub.outputs import is_linear
from headwise.hub.routes.pruned import has_own_config

__all__ = ["in_plain_words"]


def in_plain_words(form: Form, model: Model, cut: Cut) -> tuple[Form, dict[str, Tensor]] | str:
    """The form whose config says a model that was cut, with biases of zeros that go with it; or why there is none.

    Args:
        form: of the model before it was cut.
        model: as it is.
        cut: what was cut of it.
    """
    module, kept = model.module, cut.kept.values()
    if len({(k.groups, len(k.kv_heads)) for k in kept}) > 1:
        return "its layers have different numbers of heads"
    if any(not k.even for k in kept):
        return "its KV heads are read by different numbers of query heads"
    empty = [path for path, k in cut.kept.items() if not k.heads]
    if empty:
        alike = len(empty) == len(model.anatomy.layers)
        return "its layers have no heads" if alike else "some of its layers have no heads"
    if any(has_own_config(module.get_submodule(path)) for path in cut.kept):
        return "its layers still make a bias of the scores for all heads they had"
    for heads, biases in product(_counted(module, cut), (False, True)):
        plain = form.with_heads(heads, biases)
        built = None if plain is None else _built(plain)
        if plain is not None and built is not None and _alike(built, module):
            refused = plain.refused()
            if refused:
                return f"transformers refuses its numbers ({refused.rstrip('.')})"
            return plain, _zeros(built, module)
    if kept and any(layer.path not in cut.kept for layer in model.anatomy.layers):
        return "its layers have different numbers of heads"
    return "its config has no field that says so"


def _built(form: Form) -> nn.Module | None:
    """What the form builds; None where its numbers do not go together."""
    try:
        return form.build()
    except Exception:  # whatever a class raises on numbers that it cannot be built with
        return None


def _counted(module: nn.Module, cut: Cut) -> list[Heads]:
    """The numbers of heads of the layers, with the size of a head where it may have to be said."""
    if not cut.kept:
        return [Heads(None, None, None)]
    path, kept = next(iter(cut.kept.items()))
    size = getattr(module.get_submodule(path), "head_dim", None)
    sizes = [size, None] if isinstance(size, int) else [None]
    return [Heads(len(kept.heads), len(kept.kv_heads), head_dim) for head_dim in sizes]


def _alike(built: nn.Module, module: nn.Module) -> bool:
    """Whether a model that was built is this one, but for biases."""
    parts, others = dict(built.named_modules()), dict(module.named_modules())
    if parts.keys() != others.keys():
        return False
    for path, part in parts.items():
        if type(part) is not type(others[path]) or _numbers(part) != _numbers(others[path]):
            return False
    state, wanted = built.state_dict(), module.state_dict()
    return wanted.keys() <= state.keys() and all(
        tensor.shape == wanted[name].shape if name in wanted else _is_bias(parts, name)
        for name, tensor in state.items()
    )


def _numbers(part: nn.Module) -> dict[str, object]:
    """The numbers and words that a module goes by."""
    return {
        name: value
        for name, value in vars(part).items()
        if isinstance(value, bool | int | float | str)
        and name != "training"
        and not name.startswith("_")
    }


def _is_bias(parts: Mapping[str, nn.Module], name: str) -> bool:
    path, _, leaf = name.rpartition(".")
    return leaf == "bias" and is_linear(parts[path])


def _zeros(built: nn.Module, module: nn.Module) -> dict[str, Tensor]:
    """The biases that only the model that was built has."""
    state = module.state_dict()
    like = next(x for x in state.values() if x.is_floating_point())
    return {
        name: torch.zeros(tensor.shape, dtype=like.dtype)
        for name, tensor in built.state_dict().items()
        if name not in state
    }
