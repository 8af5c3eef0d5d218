"""regroup: multi-head attention to grouped-query or multi-query, grouped-query to fewer key/value heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from headwise.core.taps import tap_of
from headwise.cut.losses import Loss, LossFunction, check_predicts, loss
from headwise.cut.regrouping.grouping import Groups, beside
from headwise.cut.regrouping.maps import LayerMaps, maps_of
from headwise.cut.regrouping.moments import Moments, gathered, made_up
from headwise.cut.regrouping.pooling import How, Layout, alike_groups, check_how, pooled
from headwise.cut.regrouping.regrouped import Regrouped, Regrouping
from headwise.cut.regrouping.resizing import resize
from headwise.hub.load import Model
from headwise.names import ConfigError, LayerId, ModelError
from headwise.see.texts.given import Texts
from headwise.see.texts.refusing import check_model

__all__ = ["regroup"]


def regroup(
    model: Model,
    num_kv_heads: int,
    how: How = "aligned",
    *,
    texts: Texts | None = None,
    loss: LossFunction | None = None,
    seed: int = 0,
    inplace: bool = False,
) -> Regrouped:
    """A model with fewer key/value heads, each in place of several: multi-query attention with num_kv_heads=1.

    The heads of a group are pooled: by the mean of W_K and W_V (Ainslie et al. 2023), the first of them, one drawn,
    or "aligned": before, each is brought into a basis that they share. Its values may be in any basis, which W_O
    undoes; its keys in any that positions allow (RoPE: pairs of channels turned and scaled), which W_Q undoes. So
    heads that are the same but for their bases are pooled without loss, and others lose least, weighed by what the
    layers read: in the texts, which help a lot, else in ids drawn at random. With texts "aligned" also groups the
    heads that are most alike rather than neighbours, where nothing else goes by the place of a head (ALiBi, sinks);
    heads keep their original ids.

    Args:
        model: from `load`, in blocks of headwise.nn or of transformers with num_key_value_heads.
        num_kv_heads: of each layer; it divides the number there are.
        how: the way they are pooled.
        texts: whatever `profile` takes; also for the loss before and after (`regrouping`).
        loss: as `loss` takes it, for a model that predicts no next token.
        seed: of "random".
        inplace: change the model given; else it stays as it is.

    Returns:
        The model, with `regrouping`: what was done, the losses, and the bytes of its cache.

    Raises:
        ConfigError: a number that does not divide the KV heads of a layer, or another `how`.
        ModelError: a model without KV heads of its own number, whose maps are not found, or with heads ablated.
        TextError: texts that cannot be read.
    """
    check_model(model, "regroup")
    check_how(how)
    if any(tap_of(part) is not None for part in model.module.modules()):
        raise ModelError(
            f"{model.name} cannot be regrouped: heads of it are ablated; leave the `with` first"
        )
    layers = maps_of(model)
    _check_number(model, layers, num_kv_heads)
    before = _loss(model, texts, loss)
    made = model if inplace else model.copied()
    if not inplace:
        layers = maps_of(made)
    moments: dict[LayerId, Moments] = {}
    if how == "aligned":
        moments = gathered(made, layers, made_up(made, seed) if texts is None else texts)
    groups = {
        maps.id: _regrouped(
            maps, moments.get(maps.id), num_kv_heads, how, seed + i, texts is not None
        )
        for i, maps in enumerate(layers)
    }
    was, bytes_before = {maps.id: maps.k.heads for maps in layers}, _cache_bytes(layers)
    resize(made, layers, groups)
    after = Regrouped(**{field.name: getattr(made, field.name) for field in fields(Model)})
    told = Regrouping(
        how,
        was,
        dict.fromkeys(was, num_kv_heads),
        groups,
        bytes_before,
        sum(_bytes(maps, num_kv_heads) for maps in layers),
        before,
        _loss(after, texts, loss),
    )
    return replace(after, regrouping=told)


def _regrouped(
    maps: LayerMaps, moments: Moments | None, number: int, how: How, seed: int, alike: bool
) -> Groups:
    """Pool one layer's heads, in place; which share one."""
    layout, groups = Layout.of(maps), beside(maps.k.heads, number)
    if moments is not None and alike and maps.moves and number > 1:
        groups = alike_groups(layout, maps, moments, number)
        layout = layout.ordered(groups)
    pooled(layout, maps, moments, number, how, seed).write(maps)
    return groups


def _loss(model: Model, texts: Texts | None, own: LossFunction | None) -> Loss | None:
    if texts is None:
        return None
    if own is None:
        try:
            check_predicts(model)
        except ModelError:
            return None
    return loss(model, texts, own)


def _cache_bytes(layers: Sequence[LayerMaps]) -> int:
    return sum(_bytes(maps, maps.k.heads) for maps in layers)


def _bytes(maps: LayerMaps, heads: int) -> int:
    """Of one token's keys and values in one layer."""
    weight = maps.k.module.weight
    size: int = weight.element_size()  # type: ignore[operator]
    return heads * (maps.k.dim + maps.v.dim) * size


def _check_number(model: Model, layers: Sequence[LayerMaps], number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ConfigError(
            f"num_kv_heads={number!r} is not a count; use a whole number of 1 or more"
        )
    for maps in layers:
        if maps.k.heads % number:
            fits = [str(i) for i in range(1, maps.k.heads + 1) if maps.k.heads % i == 0]
            raise ConfigError(
                f"num_kv_heads={number} does not divide the {maps.k.heads} KV heads of layer {maps.id} of "
                f"{model.name}; use {', '.join(fits)}"
            )
