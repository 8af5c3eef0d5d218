"""Statistics in plain torch: any device, any mask, bias, softcap, sinks. Block by block of query rows."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.core.scores import Scores, mix
from headwise.core.streaming import Block, Statistics, Wanted

__all__ = ["measure"]


@torch.no_grad()
def measure(scores: Scores, v: Tensor, wanted: Wanted) -> tuple[Tensor, Statistics]:
    """The head outputs and statistics of one call; `streaming.measure` says what they mean."""
    batch, heads, queries, keys = scores.shape
    device = scores.q.device
    rows: list[dict[str, Tensor]] = []
    zs: list[Tensor] = []
    received = torch.zeros(batch, heads, keys, device=device)
    seen_by = torch.zeros(1, 1, keys, dtype=torch.long, device=device)
    side = wanted.pool
    pooled = torch.zeros(batch, heads, side, side, device=device)
    pooled_max = torch.zeros(batch, heads, side, side, device=device)
    q_len = _lengths(wanted.query_lengths, batch, queries, device)
    k_len = _lengths(wanted.key_lengths, batch, keys, device)
    for start, stop in scores.blocks():
        reach = scores.reach(start, stop)
        pattern = scores.rows(start, stop, keys=reach)
        allowed = scores.allowed(start, stop, reach)
        q = torch.arange(start, stop, device=device)
        k = torch.arange(reach.start, reach.stop, device=device)
        zs.append(mix(pattern, v[:, :, reach].to(pattern.dtype)).to(v.dtype))
        real = (q < q_len[:, None])[:, None, :, None]
        seen = torch.ones(1, 1, len(q), len(k), dtype=torch.bool, device=device)
        seen = seen if allowed is None else allowed
        found = {
            "entropy": torch.special.entr(pattern).sum(-1),
            "distance": (pattern * (q[:, None] + scores.query_offset - k).abs()).sum(-1),
            "largest": pattern.amax(-1),
            "visible": seen.sum(-1),
        }
        if wanted.probes is not None:
            named = wanted.probes[..., start:stop].expand(batch, -1, -1)
            inside = (named >= reach.start) & (named < reach.stop)
            at = (named - reach.start).clamp(0, len(k) - 1)[:, None].expand(-1, heads, -1, -1)
            mass = pattern.gather(3, at.transpose(2, 3)).transpose(2, 3) * inside[:, None]
            found["mass"] = mass
            found["hits"] = (mass > 0) & (mass >= found["largest"][:, :, None])
        if wanted.top:
            fit = torch.ones(1, 1, len(q), len(k), dtype=torch.bool, device=device)
            if wanted.eligible is not None:
                fit = fit & wanted.eligible[:, None, None, reach]
            if wanted.apart:
                fit = fit & ((q[:, None] + scores.query_offset - k).abs() >= wanted.apart)
            worth = torch.where(seen & fit, pattern, -1.0)
            weight, key = worth.topk(min(wanted.top, len(k)), dim=-1)
            none = weight < 0
            key = (key + reach.start).masked_fill(none, -1)
            pad = (0, wanted.top - key.shape[-1])
            found["top_keys"] = torch.nn.functional.pad(key, pad, value=-1)
            found["top_weights"] = torch.nn.functional.pad(weight.masked_fill(none, 0.0), pad)
        for name, function in wanted.functions.items():
            found[name] = function(Block(pattern, allowed, q, k))
        rows.append(found)
        counted = pattern * real
        if wanted.received:
            received[..., reach] += counted.sum(2)
            here = (seen & real).sum(2)
            if here.shape[0] > seen_by.shape[0] or here.shape[1] > seen_by.shape[1]:
                seen_by = seen_by.expand(
                    max(here.shape[0], seen_by.shape[0]), max(here.shape[1], seen_by.shape[1]), -1
                ).clone()
            seen_by[..., reach] += here
        if side:
            q_cell = (q * side // q_len[:, None].clamp_min(1)).clamp_max(side - 1)
            k_cell = (k * side // k_len[:, None].clamp_min(1)).clamp_max(side - 1)
            at = (q_cell[:, :, None] * side + k_cell[:, None, :]).flatten(1)[:, None]
            flat = counted.flatten(2).float()
            index = at.expand(-1, heads, -1)
            pooled.flatten(2).scatter_add_(2, index, flat)
            pooled_max.flatten(2).scatter_reduce_(2, index, flat, "amax")
    if side:
        cells = torch.arange(queries, device=device) * side // q_len[:, None].clamp_min(1)
        inside = torch.arange(queries, device=device) < q_len[:, None]
        counts = torch.zeros(batch, side, device=device)
        counts.scatter_add_(1, cells.clamp_max(side - 1), inside.float())
        pooled = pooled / counts[:, None, :, None].clamp_min(1)
    joined = {
        name: torch.cat([r[name] for r in rows], dim=3 if name in ("mass", "hits") else 2)
        for name in rows[0]
    }
    z = torch.cat(zs, dim=2)
    return z, Statistics(
        entropy=joined["entropy"].float(),
        distance=joined["distance"].float(),
        largest=joined["largest"].float(),
        visible=joined["visible"],
        mass=joined["mass"].float() if "mass" in joined else None,
        hits=joined.get("hits"),
        top_keys=joined.get("top_keys"),
        top_weights=joined["top_weights"].float() if "top_weights" in joined else None,
        received=received if wanted.received else None,
        seen_by=seen_by if wanted.received else None,
        pooled=pooled if side else None,
        pooled_max=pooled_max if side else None,
        own={name: joined[name].float() for name in wanted.functions},
    )


def _lengths(lengths: Tensor | None, batch: int, most: int, device: torch.device) -> Tensor:
    if lengths is None:
        return torch.full((batch,), most, device=device)
    return lengths.to(device)
