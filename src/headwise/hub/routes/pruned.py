"""Pruned attention layers at run time: what they need beside smaller matrices.

transformers' attention functions take for granted that all KV heads are read by as many query heads, and that a
bias has as many heads as the layer. A layer of which that no longer holds gets a function of ours in front of the
one the model runs: it hands every query head its KV head and picks the kept heads of a bias, after the cache, which
stays small. The layer finds it through a copy of the config that it has for itself; what the model as a whole runs
(sdpa, eager, or headwise's own while it is looked into) goes by the shared config as ever.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.anatomy import routes
from headwise.hub.kept import Kept, kept_of
from headwise.hub.outputs import is_linear, reads_columns
from headwise.hub.routes.emptied import Nothing, count_alone, none_like
from headwise.hub.routes.torch_attention import is_torch_attention
from headwise.hub.routes.torch_pruned import become_pruned
from headwise.names import ModelError
from headwise.nn import MultiHeadAttention

__all__ = ["EMPTY_WIDTH", "NAME", "SELECTS", "emptied", "fit", "settle", "shared_config"]

NAME = "headwise_pruned"
"""The name under which transformers knows the function of pruned layers."""

SELECTS = "_headwise_selects"
"""The number of a layer that is given a bias, a mask or sinks of all the heads it had."""

EMPTY_WIDTH = "width"
"""The number of a map that holds no weights any more: how many channels it gives all the same."""

_SHARED = "_headwise_shared_config"
_KNOWN = "_headwise_known"

_SIZES = {"in_features": 1, "out_features": 0, "nx": 0, "nf": 1}
"""Numbers of a linear module, and the axis of its weight that they are the size of."""


def settle(module: nn.Module, numbers: Mapping[str, int]) -> None:
    """Install in a pruned attention layer what it needs at run time, by what it kept.

    Args:
        module: marked with what it kept.
        numbers: the attributes of it that change.

    Raises:
        ModelError: KV heads read by different numbers of query heads, in attention that cannot do that.
    """
    kept = kept_of(module)
    assert kept is not None
    if isinstance(module, MultiHeadAttention):
        module.groups = None if kept.even else kept.groups
        module.heads = kept.heads
    elif is_torch_attention(type(module)):
        become_pruned(module)
    elif routes(type(module)):
        own = SELECTS in numbers or any(name.startswith("config.") for name in numbers)
        if own or not kept.even or not kept.heads:
            _install(module)
        if not kept.heads:
            count_alone(module)
    elif not kept.even:
        raise ModelError(
            f"{type(module).__name__} computes attention by itself, with as many query heads for each KV head; "
            'cut as many of each group, or whole groups (unit="group")'
        )


def fit(module: nn.Module) -> None:
    """Set the sizes that a linear module states to those of its weight."""
    if is_linear(module):
        weight = module.weight
        assert isinstance(weight, Tensor)
        for name, axis in _SIZES.items():
            if name in module.__dict__:
                setattr(module, name, weight.shape[axis])


def emptied(model: nn.Module, path: str, width: int) -> None:
    """Put `Nothing` in the place of a linear map without rows or columns."""
    old = model.get_submodule(path)
    if isinstance(old, Nothing):
        return
    new = Nothing(old, reads_columns(old), width)
    new.train(old.training)
    for part in list(model.modules()):
        for name, child in part._modules.items():
            if child is old:
                part._modules[name] = new


def shared_config(module: nn.Module) -> Any:
    """The config that a layer shares with its model, of which a pruned one may hold a copy of its own."""
    return module.__dict__.get(_SHARED, getattr(module, "config", None))


def has_own_config(module: nn.Module) -> bool:
    """Whether a layer has a copy of the config for itself."""
    return _SHARED in module.__dict__


class _Known:
    """A mark on a layer: where it is unpickled, transformers gets to know its function."""

    def __reduce__(self) -> tuple[Callable[[], _Known], tuple[()]]:
        return _make_known, ()


def _make_known() -> _Known:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _pruned)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return _Known()


def _install(module: nn.Module) -> None:
    module.__dict__[_KNOWN] = _make_known()
    if has_own_config(module):
        return
    module.__dict__[_SHARED] = module.config
    own = copy.copy(module.config)
    own.__dict__["_attn_implementation_internal"] = NAME
    module.config = own


def _pruned(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    **kwargs: Any,
) -> tuple[Tensor, Any]:
    """The function transformers calls: [batch, head, query, head_dim] in, [batch, query, head, dim] out."""
    kept = kept_of(module)
    assert kept is not None
    if not kept.heads:
        batch, _, queries, _ = query.shape
        return none_like(value, queries), query.new_zeros(batch, 0, queries, key.shape[2])
    if not kept.even:
        each = [kv_head for kv_head, heads in enumerate(kept.groups) for _ in range(heads)]
        key, value = key[:, each], value[:, each]  # of a size that an exported graph can tell
    mask = _of_kept(attention_mask, 1, kept)
    for name, axis in (("position_bias", 1), ("s_aux", 0)):
        if name in kwargs:
            kwargs[name] = _of_kept(kwargs[name], axis, kept)
    return _beneath(module)(module, query, key, value, mask, **kwargs)


def _of_kept(x: Any, axis: int, kept: Kept) -> Any:
    """Of what still has all heads along an axis, those that are kept.

    Raises:
        ModelError: a mask of flex attention that is another for each head.
    """
    if x is not None and not isinstance(x, Tensor):
        if x.shape[axis] != 1:
            raise ModelError(
                "a pruned layer cannot pick its heads of a mask of flex attention that differs by head; run the "
                'model with set_attn_implementation("sdpa")'
            )
        return x
    if x is None or x.dim() <= axis or x.shape[axis] != kept.num_heads:
        return x
    if len(kept.heads) == kept.num_heads:
        return x
    return x.index_select(axis, torch.tensor(kept.heads, device=x.device))


def _beneath(module: nn.Module) -> Callable[..., tuple[Tensor, Any]]:
    """What the model as a whole runs."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    home = sys.modules[type(module).__module__]
    known = getattr(home, "ALL_ATTENTION_FUNCTIONS", ALL_ATTENTION_FUNCTIONS)
    eager: Any = getattr(home, "eager_attention_forward", None)
    found: Callable[..., tuple[Tensor, Any]] = known.get_interface(
        shared_config(module)._attn_implementation, eager
    )
    return found
