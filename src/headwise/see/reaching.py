"""The reach of a record: whose input can be in whose output, as the masks that its model attended with allow."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.core import masks
from headwise.core.masks import Mask
from headwise.core.reach import Reach
from headwise.see.record import LayerRecord, Record

__all__ = ["one_mask", "reach_of", "seen_in"]


def reach_of(record: Record) -> Reach:
    """The reach of the masks of a record, layer by layer; heads that have masks of their own count together.

    Of an encoder-decoder it is the decoder's, with the encoder's own as `encoder`. Layers that see the same share
    one mask.

    Args:
        record: of one text.
    """
    by_stream = record.stacks
    cross = by_stream.pop("cross", None)
    encoder = by_stream.pop("encoder", None) if len(by_stream) > 1 or cross else None
    ((_, own),) = list(by_stream.items())[:1]
    length = len(own[0].queries.tokens)
    if cross is None or encoder is None or len(cross) != len(own):
        return masks.reach(_masks(own), length=length)
    memory = masks.reach(_masks(encoder), length=len(encoder[0].queries.tokens))
    return masks.reach(_masks(own), length=length, cross=_masks(cross), memory=memory)


def seen_in(layer: LayerRecord) -> Bool[Tensor, "head query key"]:
    """Who may attend to whom in a layer; one head where all have the same mask."""
    _, _, queries, keys = layer.scores.shape
    allowed = layer.scores.allowed(0, queries)
    if allowed is None:
        return torch.ones(1, queries, keys, dtype=torch.bool)
    found = allowed[0].cpu()
    return found[:1] if len(found) == 1 or bool((found == found[:1]).all()) else found


def one_mask(layer: LayerRecord) -> bool:
    """Whether all heads of a layer have the same mask by its shape alone."""
    first = layer.scores.allowed(0, 1)
    return first is None or first.shape[1] == 1


def _masks(layers: list[LayerRecord]) -> list[Mask]:
    """What any head of each layer sees; of layers that see the same, one mask."""
    known: dict[int, Mask] = {}
    made: list[tuple[Tensor, Mask]] = []
    found = []
    for layer in layers:
        own = id(layer.scores.mask)
        if own not in known:
            known[own] = _one_of(made, _of_any(seen_in(layer)))
        found.append(known[own])
    return found


def _of_any(seen: Tensor) -> Tensor:
    return seen[0] if len(seen) == 1 else seen.any(0)


def _one_of(made: list[tuple[Tensor, Mask]], seen: Tensor) -> Mask:
    for other, mask in made:
        if other.shape == seen.shape and torch.equal(other, seen):
            return mask
    made.append((seen, masks.tensor(seen)))
    return made[-1][1]
