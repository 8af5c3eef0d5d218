"""What a layer becomes without some of its heads: the tensors that are left, and the record of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.cut.pruning.counting import Counts, numbers_of
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.record import Cut
from headwise.hub.anatomy import by_itself, routes
from headwise.hub.channels import Channels, Part
from headwise.hub.kept import Kept, heads_of, kept_of
from headwise.hub.outputs import is_linear
from headwise.hub.routes.pruned import EMPTY_WIDTH, SELECTS
from headwise.hub.routes.torch_attention import is_torch_attention
from headwise.names import ModelError, ShapeError
from headwise.nn import MultiHeadAttention

__all__ = ["Change", "change_of", "kept_after", "new_bias", "new_weight"]


@dataclass(frozen=True, eq=False)
class Change:
    """What a cut makes of a model: its record, and the tensors that are new, by their names."""

    cut: Cut
    tensors: Mapping[str, Tensor]


def change_of(
    model: nn.Module, channels: Channels, drop: Iterable[int], output: NewOutput | None
) -> Change:
    """What becomes of the tensors and numbers of one layer.

    Args:
        model: that holds the layer, which stays as it is.
        channels: of the layer.
        drop: places, among the heads it has now, of those that go; none = only W_O changes.
        output: what W_O becomes beside; None = what it is.

    Raises:
        ModelError: tensors that cannot be cut.
        ShapeError: a new W_O of another shape.
    """
    module, drop = channels.layer.module, set(drop)
    if not drop:
        return _of_output(model, channels, output)
    kept = kept_after(channels, drop)
    kv_drop = _kv_drop(channels, drop)
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, int]] = {}
    for name, parts in _by_tensor(channels).items():
        old = _tensor(model, name)
        if name == channels.output.name:
            old = new_weight(channels, old, output)
        cut_parts = [(part, kv_drop if kv else drop) for part, kv in parts]
        if not kept.heads:
            cut_parts = [(part, _drop_all(model, module, part, gone)) for part, gone in cut_parts]
        tensors[name] = _without(old, cut_parts)
    if not kept.heads and not _attends_with_none(module):
        numbers |= _widths(model, channels, tensors)
    tensors |= _bias_tensor(model, channels, output)
    own = _numbers(channels, kept)
    if own:
        numbers[channels.layer.path] = own
    numbers |= _stacks(model, module)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return Change(Cut({channels.layer.path: kept}, shapes, numbers), tensors)


def _of_output(model: nn.Module, channels: Channels, output: NewOutput | None) -> Change:
    """A layer that keeps its heads, of which W_O alone changes."""
    name = channels.output.name
    tensors = _bias_tensor(model, channels, output)
    shapes = {bias: tuple(tensor.shape) for bias, tensor in tensors.items()}
    if output is not None and output.weight is not None:
        tensors[name] = new_weight(channels, _tensor(model, name), output)
    return Change(Cut({}, shapes, {}), tensors)


def kept_after(channels: Channels, drop: Iterable[int]) -> Kept:
    """What the layer will have kept, in the ids its heads had at first."""
    module, drop = channels.layer.module, set(drop)
    old = kept_of(module)
    ids = heads_of(module, channels.num_heads)
    groups = _groups(channels)
    kv_ids = range(channels.num_kv_heads) if old is None else old.kv_heads
    left = _left(groups, drop)
    return Kept(
        tuple(id for place, id in enumerate(ids) if place not in drop),
        tuple(number for number in left if number),
        tuple(id for id, number in zip(kv_ids, left, strict=True) if number),
        channels.num_heads if old is None else old.num_heads,
        channels.num_kv_heads if old is None else old.num_kv_heads,
    )


def _groups(channels: Channels) -> tuple[int, ...]:
    """How many query heads read each KV head now."""
    old = kept_of(channels.layer.module)
    if old is not None:
        return old.groups
    return (channels.num_heads // channels.num_kv_heads,) * channels.num_kv_heads


def _left(groups: tuple[int, ...], drop: set[int]) -> list[int]:
    """How many query heads of each KV head stay."""
    left, place = [], 0
    for number in groups:
        left.append(sum(p not in drop for p in range(place, place + number)))
        place += number
    return left


def _kv_drop(channels: Channels, drop: set[int]) -> set[int]:
    left = _left(_groups(channels), drop)
    return {place for place, number in enumerate(left) if not number}


def _by_tensor(channels: Channels) -> dict[str, list[tuple[Part, bool]]]:
    """The parts of each tensor, and whether they go by KV heads."""
    found: dict[str, list[tuple[Part, bool]]] = {}
    for kv, parts in ((False, (*channels.query, channels.output)), (True, channels.kv)):
        for part in parts:
            found.setdefault(part.name, []).append((part, kv))
    for name, held in found.items():
        if len({part.axis for part, _ in held}) > 1:
            raise ModelError(
                f"layer {channels.layer.id} cannot be cut: {name} holds heads along two axes"
            )
    return found


def _tensor(model: nn.Module, name: str) -> Tensor:
    path, _, leaf = name.rpartition(".")
    tensor: Tensor = getattr(model.get_submodule(path), leaf)
    return tensor.detach()


def _without(old: Tensor, parts: list[tuple[Part, set[int]]]) -> Tensor:
    """A tensor without the places of the heads that go."""
    axis = parts[0][0].axis
    stays = torch.ones(old.shape[axis], dtype=torch.bool)
    for part, gone in parts:
        for head in gone:
            stays[part.places[head]] = False
    return old.index_select(axis, stays.nonzero()[:, 0].to(old.device)).clone()


def new_weight(channels: Channels, old: Tensor, output: NewOutput | None) -> Tensor:
    """W_O as it will be, of all heads still, in the form the model keeps it in."""
    if output is None or output.weight is None:
        return old
    d_model = old.shape[1 - channels.output.axis]
    shape = (channels.num_heads, channels.v_dim, d_model)
    if tuple(output.weight.shape) != shape:
        raise ShapeError(
            f"the new W_O of layer {channels.layer.id} must be [head, v_dim, d_model]={list(shape)}, "
            f"came {list(output.weight.shape)}"
        )
    weight = output.weight.detach().flatten(0, 1).to(old)
    return weight.T.contiguous() if channels.output.axis == 1 else weight


def new_bias(
    model: nn.Module, channels: Channels, output: NewOutput | None
) -> Float[Tensor, " d_model"] | None:
    """The bias of W_O as it will be; None where it stays as it is.

    Raises:
        ShapeError: one of another length.
    """
    if output is None or output.bias is None:
        return None
    name, axis = channels.output.name, channels.output.axis
    weight, added = _tensor(model, name), output.bias.detach()
    if len(added) != weight.shape[1 - axis]:
        raise ShapeError(
            f"what is added to the bias of layer {channels.layer.id} must be "
            f"[d_model={weight.shape[1 - axis]}], came {list(added.shape)}"
        )
    old = model.get_submodule(name.rpartition(".")[0])._parameters.get("bias")
    if old is None:
        return added.to(weight, copy=True)
    return (old.detach().double() + added.to(old.device).double()).to(old.dtype)


def _bias_tensor(
    model: nn.Module, channels: Channels, output: NewOutput | None
) -> dict[str, Tensor]:
    bias = new_bias(model, channels, output)
    return {} if bias is None else {f"{channels.output.name.removesuffix('weight')}bias": bias}


def _attends_with_none(module: nn.Module) -> bool:
    """Whether a layer can be without a head, and needs no head of nothing in the place."""
    return isinstance(module, MultiHeadAttention) or is_torch_attention(type(module))


def _drop_all(model: nn.Module, module: nn.Module, part: Part, gone: set[int]) -> set[int]:
    """Which heads go of a tensor of a layer that loses all: of what is no map one stays, and is not read."""
    owner = model.get_submodule(part.name.rpartition(".")[0])
    if _attends_with_none(module) or is_linear(owner):
        return gone
    return gone - {min(gone)} if gone else gone


def _widths(
    model: nn.Module, channels: Channels, tensors: Mapping[str, Tensor]
) -> dict[str, dict[str, int]]:
    """What the maps of a layer without heads give: one head of nothing, so that its code runs on."""
    found: dict[str, dict[str, int]] = {}
    for name, parts in _by_tensor(channels).items():
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        if leaf != "weight" or not is_linear(owner):
            continue
        axis = parts[0][0].axis
        if tensors[name].shape[axis]:
            raise ModelError(
                f"layer {channels.layer.id} cannot lose all its heads: {name} makes more than they need"
            )
        width = sum(len(part.places[0]) for part, _ in parts)
        if name == channels.output.name:
            width = tensors[name].shape[1 - axis]
        found[path] = {EMPTY_WIDTH: width}
    return found


def _numbers(channels: Channels, kept: Kept) -> dict[str, int]:
    """The numbers of the attention module itself."""
    module = channels.layer.module
    groups = _groups(channels)
    each = groups[0] if len(set(groups)) == 1 else 1
    before = Counts(channels.num_heads, channels.num_kv_heads, each, channels.head_dim)
    heads, kv_heads = len(kept.heads), len(kept.kv_heads)
    if isinstance(module, MultiHeadAttention):
        return {"num_heads": heads, "num_kv_heads": kv_heads}
    if is_torch_attention(type(module)):
        return {"num_heads": heads}
    if not kept.heads:
        heads = kv_heads = 1
    even = kept.groups[0] if kept.even and kept.groups else 1
    after = Counts(heads, kv_heads, even, channels.head_dim)
    found = numbers_of(module, before, after, channels.returns_bias)
    if channels.selects and not by_itself(type(module)) and routes(type(module)):
        found[SELECTS] = 1
    return found


def _stacks(model: nn.Module, module: nn.Module) -> dict[str, dict[str, int]]:
    """torch's encoders around a layer, which must not hand it nested tensors."""
    if not is_torch_attention(type(module)):
        return {}
    return {
        path: {"use_nested_tensor": 0}
        for path, part in model.named_modules()
        if isinstance(part, nn.TransformerEncoder) and any(x is module for x in part.modules())
    }
