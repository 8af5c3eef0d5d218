"""What each probe's cases say of the heads of some layers, as sums over the cases of each text.

Of a case that names nothing the query may see (a causal model cannot look ahead) only its number is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.streaming import Statistics
from headwise.core.units import CaseStatistics
from headwise.see.profile.asking import Asked, Settings

_EVEN = 1e-5
"""How far above even the largest weight of a row that looks evenly may be by rounding."""

__all__ = ["FAR", "Evidence", "evidence_of"]

FAR = 64
"""This offset, in units of the probe, stands for the first key and the last, however far they are."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over the cases of each probe in each text, in the order of the probes.

    Attributes:
        mass: the weight on the named keys.
        hits: how often one of them has the largest weight; where several have it, their share.
        count: how many cases there are.
        unseen: how many more there would be, if the query could see what is named.
        uniform: of the share of named keys among those the query may see.
        offsets: in each half of the texts, how often each offset from -FAR to FAR leads to a named key; one beyond
            an end of the text leads to the first key or the last, and -FAR and FAR themselves always do.
    """

    mass: Float[Tensor, "layer probe batch head"]
    hits: Float[Tensor, "layer probe batch head"]
    count: Float[Tensor, "layer probe batch head"]
    unseen: Float[Tensor, "layer probe batch head"]
    uniform: Float[Tensor, "layer probe batch head"]
    offsets: Int[np.ndarray, "layer half probe offset"]


def evidence_of(
    found: Sequence[Statistics],
    linked: Sequence[CaseStatistics | None],
    asked: Asked,
    settings: Settings,
) -> Evidence:
    """The sums of layers of one form."""
    batch, heads = found[0].entropy.shape[:2]
    shape = (len(found), len(settings.probes), batch, heads)
    device = found[0].entropy.device
    dtype = torch.float32 if device.type == "mps" else torch.float64
    sums = torch.zeros(5, *shape, dtype=dtype, device=device)
    offsets = np.zeros((len(found), 2, len(settings.probes), 2 * FAR + 1), dtype=np.int64)
    if settings.of_tokens:
        _tokens(found, asked, settings, sums, offsets)
    measured = [one for one in linked if one is not None]
    if measured and asked.linked is not None:
        _units(measured, asked, settings, sums, offsets)
    mass, hits, count, unseen, uniform = sums
    return Evidence(mass, hits, count, unseen, uniform, offsets)


def _tokens(
    found: Sequence[Statistics],
    asked: Asked,
    settings: Settings,
    sums: Tensor,
    offsets: np.ndarray,
) -> None:
    """Of the probes of tokens, which were measured with everything else."""
    probes = asked.wanted.probes
    assert probes is not None
    at = torch.tensor(settings.of_tokens)
    seen = torch.stack([s.named_seen for s in found if s.named_seen is not None])
    visible = torch.stack([s.visible for s in found])[:, :, :, None].clamp_min(1)
    mass = torch.stack([s.mass for s in found if s.mass is not None])
    hits = torch.stack([s.hits for s in found if s.hits is not None])
    named = (probes >= 0).sum(-1)[None, :, None]  # [1, batch, 1, probe]
    count = seen.sum(-1)
    largest = torch.stack([s.largest for s in found])[:, :, :, None]
    even = (largest * visible <= 1 + _EVEN).to(sums.dtype)  # all keys tie, and share the hit
    shared = hits * (1 - even + even / visible)
    values = (
        mass.sum(-1, dtype=sums.dtype),
        shared.sum(-1),
        count,
        named - count,
        (seen / visible).sum(-1),
    )
    for into, value in zip(sums, values, strict=True):
        into[:, at] = value.to(sums.dtype).transpose(2, 3).transpose(1, 2)  # fills all heads
    query = torch.arange(probes.shape[2], device=probes.device)
    steps = probes - query
    fixed = torch.tensor(
        [settings.probes[p].fixed for p in settings.of_tokens], device=steps.device
    )
    number = at.to(steps.device)[:, None].expand(steps.shape)
    text = torch.arange(len(probes), device=steps.device)[:, None, None].expand(steps.shape)
    ahead = (asked.lengths[:, None, None] - 1 - query).expand(steps.shape)
    behind = query.expand(steps.shape)
    for layer, one in enumerate(seen.any(2)):
        if layer and torch.equal(one, seen[layer - 1].any(1)):
            offsets[layer] += offsets[layer - 1]
            continue
        here = one & fixed[:, None]
        places = (steps[here], behind[here], ahead[here], number[here], text[here])
        offsets[layer] += _histogram(*places, asked, settings)


def _units(
    measured: Sequence[CaseStatistics],
    asked: Asked,
    settings: Settings,
    sums: Tensor,
    offsets: np.ndarray,
) -> None:
    """Of the probes of units."""
    linked = asked.linked
    assert linked is not None
    seen = torch.stack([s.seen for s in measured])  # [layer, case, named, #head]
    visible = torch.stack([s.visible for s in measured]).clamp_min(1)
    case = seen.any(2)
    values = (
        torch.stack([s.mass for s in measured]),
        torch.stack([s.hits for s in measured]),
        case,
        ~case,
        seen.sum(2) / visible,
    )
    batch, heads = sums.shape[3:]
    place = linked.probe * batch + linked.text
    for into, value in zip(sums, values, strict=True):
        flat = into.view(len(measured), -1, heads)
        flat.index_add_(1, place, value.to(sums.dtype).expand(-1, -1, heads))
    number = linked.probe[:, None].expand(linked.offset.shape)
    text = linked.text[:, None].expand(linked.offset.shape)
    fixed = torch.tensor([probe.fixed for probe in settings.probes], device=number.device)[number]
    behind, ahead = (x[:, None].expand(number.shape) for x in (linked.behind, linked.ahead))
    for layer, one in enumerate(seen.any(3)):
        here = one & fixed
        places = (linked.offset[here], behind[here], ahead[here], number[here], text[here])
        offsets[layer] += _histogram(*places, asked, settings)


def _histogram(
    steps: Tensor,
    behind: Tensor,
    ahead: Tensor,
    probe: Tensor,
    text: Tensor,
    asked: Asked,
    settings: Settings,
) -> Int[np.ndarray, "half probe offset"]:
    """How often each offset leads to what a probe names, in each half.

    Args:
        steps: from the unit that looks to one that is named.
        behind: how many units are before it; offsets further back lead to the first.
        ahead: how many are after it; offsets further on lead to the last.
        probe: whose case it is.
        text: whose it is.
        asked: of the batch.
        settings: of the profile.
    """
    shape = (2, len(settings.probes), 2 * FAR + 2)
    is_first, is_last = steps == -behind, steps == ahead
    near = steps.abs() < FAR
    place = steps.clamp(-FAR, FAR) + FAR
    low = place.where(~is_first, 0)
    high = place.where(~is_last, 2 * FAR)
    some = near | is_first | is_last
    low, high = low.where(near | is_first, high), high.where(near | is_last, low)
    half = torch.from_numpy(asked.halves).to(text.device)[text]
    start = (half * shape[1] + probe) * shape[2]
    changes = torch.zeros(int(np.prod(shape)), dtype=torch.long, device=text.device)
    ones = torch.ones_like(steps)[some]
    changes.index_add_(0, (start + low)[some], ones)
    changes.index_add_(0, (start + high + 1)[some], -ones)
    counts: np.ndarray = changes.view(shape).cumsum(2)[..., :-1].cpu().numpy()
    return counts
