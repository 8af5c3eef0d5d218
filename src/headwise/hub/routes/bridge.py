"""The bridge: models of transformers, looked into through their attention interface.

While routed, every attention module that has a tap calls `_headwise` here, which says in our words what the call
means (mask, scale, bias, softcap, sinks), lets the model's own kernel compute it, and shows the
observers both. With
a gate the call goes through `attend`. The model is put back as it was afterwards.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from headwise.core import masks
from headwise.core.attention import attend, spread
from headwise.core.masks import Mask
from headwise.core.recognise import recognise
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tap_of
from headwise.hub.anatomy import routes
from headwise.hub.routes.pruned import shared_config
from headwise.hub.shards import local_gate
from headwise.names import ModelError

_NAME = "headwise"
_NAME_OF = {"eager": "headwise_eager"}
"""Two names of one function, so that a model is given the masks of the kernel it runs itself."""

_ROUTING = "_headwise_routing"
Own = Callable[..., tuple[Tensor, Any]]


@contextmanager
def routed(model: nn.Module) -> Iterator[None]:
    """Route the attention of a transformers model to `attend` and its taps, for the time of the `with`.

    Within another `routed` of the same model it does nothing.

    Raises:
        ModelError: the model's class cannot switch its attention implementation.
    """
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.masking_utils import eager_mask, sdpa_mask

    if _ROUTING in model.__dict__:
        yield
        return
    modules = list(model.modules())
    pretrained = [m for m in modules if isinstance(m, PreTrainedModel)]
    for part in pretrained:
        if not part._can_set_attn_implementation() and any(routes(type(m)) for m in part.modules()):
            raise ModelError(
                f"{type(part).__name__} cannot be looked into: its class does not go through transformers' "
                "attention interface; use a model class of the newer style (docs/en/models.md)"
            )
    for name, mask in ((_NAME, sdpa_mask), (_NAME_OF["eager"], eager_mask)):
        AttentionInterface.register(name, _headwise)
        AttentionMaskInterface.register(name, mask)
    shared = [shared_config(m) for m in modules if _has_config(m)]
    configs: dict[int, Any] = {id(config): config for config in shared}
    before = [(config, config._attn_implementation) for config in configs.values()]
    routing = _Routing({id(config): name for config, name in before})
    handles = [handle for m in modules if routes(type(m)) for handle in routing.follow(m)]
    try:
        for module in modules:
            module.__dict__[_ROUTING] = routing
        for config, name in before:
            config._attn_implementation_internal = _NAME_OF.get(name, _NAME)
        yield
    finally:
        for handle in handles:
            handle.remove()
        for config, name in before:
            config._attn_implementation_internal = name
        for module in modules:
            module.__dict__.pop(_ROUTING, None)


def _has_config(module: nn.Module) -> bool:
    return hasattr(getattr(module, "config", None), "_attn_implementation_internal")


class _Routing:
    """One `routed` in force: what each config ran before, the masks already read, and the layers under way."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.masks: dict[tuple[int, int, int], tuple[Tensor, Mask, Tensor | None]] = {}
        self.under_way: dict[int, tuple[Tensor, Tensor] | None] = {}

    def follow(self, module: nn.Module) -> Iterator[RemovableHandle]:
        """Hooks that say when a forward of this module begins and ends."""
        yield module.register_forward_pre_hook(lambda m, _: self.under_way.update({id(m): None}))
        yield module.register_forward_hook(lambda m, *_: self._end(m))

    def _end(self, module: nn.Module) -> None:
        self.under_way.pop(id(module), None)

    def looks_again(self, module: nn.Module, query: Tensor, key: Tensor) -> bool:
        """Whether this call looks where an earlier one of the same forward did (differential attention).

        Raises:
            ModelError: it is an earlier call's further piece.
        """
        first = self.under_way.get(id(module))
        if first is None:
            if id(module) in self.under_way:
                self.under_way[id(module)] = (query, key)
            return False
        if first[0] is query and first[1] is key:
            return True
        raise ModelError(
            f"{type(module).__name__} attends within pieces of its input (several images, or windows of "
            "one), which cannot be looked into yet; pass text, or one image without windows"
        )

    def read_mask(self, mask: Tensor, queries: int, keys: int) -> tuple[Mask, Tensor | None]:
        """The model's mask in our words, and what of it is a bias; each tensor is read once."""
        known = self.masks.get(
            (id(mask), queries, keys)
        )  # holds the tensor, so its id stays its own
        if known is None:
            allowed, bias = _split(mask[..., :keys])
            known = (mask, recognise(allowed, keys - queries), bias)
            self.masks[(id(mask), queries, keys)] = known
        return known[1], known[2]


def _headwise(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The function transformers calls: [batch, head, query, head_dim] in, [batch, query, head, dim] out."""
    tap = tap_of(module)
    if tap is not None and _routing_of(module).looks_again(module, query, key):
        tap = Tap(gate=tap.gate, edit=tap.edit)  # its pattern is known; other values are cut alike
    own = _own(module, kwargs)
    if tap is None and own is not None:
        return own(module, query, key, value, attention_mask, **kwargs)[0], None
    _refuse_unread(module, kwargs)
    scores, v = interpret(module, query, key, value, attention_mask, **kwargs)
    if own is None or tap is None or tap.meter is not None:
        z = attend(
            **scores.call,
            v=v,
            gate=None if tap is None else local_gate(module, tap.gate, query.shape[1]),
            dropout=kwargs.get("dropout") or 0.0,
            observers=() if tap is None else tap.observers,
            meter=None if tap is None else tap.meter,
            edit=None if tap is None else tap.edit,
        )
        return z.transpose(1, 2).contiguous(), None
    out = own(module, query, key, value, attention_mask, **kwargs)[0]
    z = out.transpose(1, 2)
    for observer in tap.observers:
        observer(scores, v, z)
    if tap.edit is None and tap.gate is None:
        return out, None
    return changed(module, tap, scores, v, z).transpose(1, 2).contiguous(), None


def changed(module: nn.Module, tap: Tap, scores: Scores, v: Tensor, z: Tensor) -> Tensor:
    """What a tap makes of head outputs [batch, head, query, v_dim] that were computed without it."""
    z = z if tap.edit is None else tap.edit(scores, v, z)
    gate = local_gate(module, tap.gate, z.shape[1])
    return z if gate is None else z * spread(gate, z)


def interpret(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Scores, Tensor]:
    """One call of transformers' attention interface in our words: its scores, and its values."""
    queries = query.shape[-2]
    bias = position_bias
    mask: Mask | None = None
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is not None:
        mask, extra = _routing_of(module).read_mask(attention_mask, queries, key.shape[-2])
        bias = extra if bias is None else bias if extra is None else bias + extra
    elif causal and queries > 1:
        key, value = key[:, :, :queries], value[:, :, :queries]
        bias = None if bias is None else bias[..., :queries]
        mask = masks.causal()
    if mask is not None and mask.form(queries, key.shape[-2]) == "full":
        mask = None
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    offset = key.shape[-2] - queries
    return Scores(query, key, mask, scale, bias, softcap, s_aux, offset), value


_READ = {"scaling", "is_causal", "position_bias", "softcap", "s_aux", "dropout", "sliding_window"}
"""Arguments of a model's attention that `interpret` reads, or (windows) finds in the mask."""


def _refuse_unread(module: nn.Module, kwargs: dict[str, Any]) -> None:
    """Refuse what the model's own attention would use and `interpret` does not know."""
    uses = _arguments_of(sys.modules[type(module).__module__])
    unread = [name for name in uses - _READ if kwargs.get(name) is not None]
    if unread:
        raise ModelError(
            f"{type(module).__name__} cannot be looked into: its attention also takes {', '.join(unread)}, "
            "which headwise does not read"
        )


@cache
def _arguments_of(file: ModuleType) -> frozenset[str]:
    """The names of what a modeling file's attention takes, beside its tensors."""
    eager = getattr(file, "eager_attention_forward", None)
    return (
        frozenset() if eager is None else frozenset(list(inspect.signature(eager).parameters)[5:])
    )


def _routing_of(module: nn.Module) -> _Routing:
    return module.__dict__.get(_ROUTING) or _Routing({})


def _split(mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """A mask of transformers, bool or additive, as True = may attend, and the additive rest if any."""
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        shape = list(getattr(mask, "shape", [])) or type(mask).__name__
        raise ModelError(
            f"an attention mask of the form {shape} cannot be read; load the model with "
            'attn_implementation="sdpa" or "eager"'
        )
    if mask.dtype is torch.bool:
        return mask, None
    allowed = mask > torch.finfo(mask.dtype).min / 2
    rest = mask.masked_fill(~allowed, 0.0)
    return allowed, rest if bool(rest.any()) else None


def _own(module: nn.Module, kwargs: dict[str, Any]) -> Own | None:
    """The attention this module runs when nobody looks; None where it cannot be called from outside.

    Kernels that read masks of another form than sdpa's (flash, flex) are stood in for by sdpa.
    """
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    name = _routing_of(module).names.get(id(shared_config(module)))
    if name is not None and name != "eager":
        same_masks = ALL_MASK_ATTENTION_FUNCTIONS.get(name, None) is sdpa_mask
        name = name if same_masks else "sdpa"
        unfused = kwargs.get("softcap") is not None or kwargs.get("s_aux") is not None
        own = ALL_ATTENTION_FUNCTIONS.get(name, None)
        if own is not None and not (unfused and name == "sdpa"):
            return cast(Own, own)
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    return None if eager is None else _with_additive_mask(eager)


def _with_additive_mask(eager: Own) -> Own:
    """A model's eager attention, given the additive mask it expects in place of a boolean or no mask."""

    def call(
        module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Any]:
        causal = kwargs.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        if mask is None and causal and q.shape[-2] > 1:
            mask = masks.causal().dense(q.shape[-2], k.shape[-2], 0, q.device)
        if mask is not None and mask.dtype is torch.bool:
            low = torch.finfo(q.dtype).min
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, low)
        kwargs = {**kwargs, "dropout": kwargs.get("dropout") or 0.0}
        return eager(module, q, k, v, mask, **kwargs)

    return call


__all__ = ["interpret", "routed"]
