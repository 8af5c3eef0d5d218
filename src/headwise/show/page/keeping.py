"""Which cells of a record's patterns a page keeps: all of a short text, the strong ones of a long one.

The heads of a layer are read together, some rows at a time, so that no more than a block of patterns is ever held;
where few cells of a row can be strong, the statistics of one walk are enough (`streamed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headwise.core.scores import BLOCK_CELLS
from headwise.see.record import LayerRecord
from headwise.show.page.apart import apart_keys
from headwise.show.page.cells import Kept
from headwise.show.page.regions import in_regions, seen_rows
from headwise.show.page.streamed import streamed

__all__ = ["kept_heads", "mean_of"]


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rows of some heads: [head, row] numbers, the cells kept of each head, and the regions of the others."""

    count: np.ndarray
    rest: np.ndarray
    key: list[np.ndarray]
    weight: list[np.ndarray]
    mass: np.ndarray
    others: np.ndarray
    apart: np.ndarray


def kept_heads(
    layer: LayerRecord,
    least: float,
    side: int,
    heads: slice | None = None,
    rows: range | None = None,
) -> list[Kept]:
    """The cells of the heads of a layer; none of a row that holds a weight that is no number.

    Args:
        layer: of the record.
        least: cells of at least this weight are kept; 0 = all that may be seen.
        side: of the pooled map of the others.
        heads: among those that the layer has; None = all.
        rows: only of these queries; None = of all.
    """
    _, every, queries, keys = layer.scores.shape
    if heads is None and rows is None and (found := streamed(layer, least, side)) is not None:
        return found
    first, last, _ = (heads or slice(None)).indices(every)
    rows = range(queries) if rows is None else rows
    size = max(1, BLOCK_CELLS // max(1, (last - first) * keys))
    with torch.no_grad():
        blocks = [
            _block(layer, slice(first, last), range(at, min(at + size, rows.stop)), least, side)
            for at in range(rows.start, rows.stop, size)
        ]
    sets = apart_keys(layer) if least > 0 else None
    return [_joined(blocks, h, (len(rows), keys), least, sets) for h in range(last - first)]


def _block(layer: LayerRecord, heads: slice, rows: range, least: float, side: int) -> _Block:
    queries, keys = layer.scores.shape[2:]
    pattern = layer.scores.rows(rows.start, rows.stop, heads)[0].float()
    broken = pattern.isnan().any(-1)
    pattern = pattern.masked_fill(broken[..., None], 0.0)
    seen = seen_rows(layer, heads, rows)
    if bool(broken.any()):
        seen = seen & ~broken[..., None]
    chosen = seen if least <= 0 else (pattern >= least) & seen
    chosen = chosen.expand(pattern.shape)
    head, row, key = (x.cpu().numpy() for x in chosen.nonzero(as_tuple=True))
    weight = pattern[chosen].cpu().numpy()
    ends = np.cumsum(np.bincount(head, minlength=len(pattern)))[:-1]
    mass = others = np.zeros((len(pattern), 0, 0), dtype=int)
    rest = np.zeros(pattern.shape[:2], dtype=np.float32)
    apart = np.zeros((len(pattern), 0, len(rows)), dtype=np.float32)
    if least > 0:
        left = pattern.masked_fill(chosen, 0.0)
        rest = left.sum(-1).cpu().numpy()
        sets = torch.from_numpy(apart_keys(layer)).to(left)
        apart = (left @ sets.T).transpose(1, 2).cpu().numpy()
        of_rows = in_regions(queries, side, left.device)[:, rows.start : rows.stop]
        of_keys = in_regions(keys, side, left.device).T
        mass = (of_rows @ (left @ of_keys)).cpu().numpy()
        visible = (of_rows @ (seen.float() @ of_keys)).cpu().numpy().round().astype(int)
        places = (row + rows.start) * side // queries, key * side // keys
        held = np.zeros(mass.shape, dtype=int)
        np.add.at(held, (head, *places), 1)
        others = visible - held
    count = chosen.sum(-1).cpu().numpy()
    rest[broken.cpu().numpy()] = np.nan
    return _Block(count, rest, np.split(key, ends), np.split(weight, ends), mass, others, apart)


def _joined(
    blocks: Sequence[_Block],
    head: int,
    shape: tuple[int, int],
    least: float,
    sets: np.ndarray | None,
) -> Kept:
    def under(name: str) -> np.ndarray:
        none = np.zeros(0, dtype=float if name in ("weight", "rest") else int)
        return np.concatenate([getattr(block, name)[head] for block in blocks] or [none])

    mass = others = apart = None
    if least > 0:
        apart = np.concatenate([block.apart[head] for block in blocks], axis=1)
        mass = np.sum([block.mass[head] for block in blocks], axis=0, dtype=float)
        others = np.sum([block.others[head] for block in blocks], axis=0)
    cells = under("count"), under("key"), under("weight"), under("rest")
    return Kept(shape, *cells, least, mass, others, sets, apart)


def mean_of(parts: Sequence[Kept], weights: Sequence[float], least: float) -> Kept:
    """The mean of patterns over the same tokens, of the cells that they keep.

    A cell that only some of them keep has what these hold, and is no more than that; what is under `least` and what
    they did not keep counts as the rest, so that a row's mass stays what it was. A row that is no number in one of
    them is none.

    Args:
        parts: of one shape.
        weights: how much each counts; they need not add up to 1.
        least: cells of at least this mean weight are kept.
    """
    queries, keys = shape = parts[0].shape
    shares = np.asarray(weights, dtype=float) / sum(weights)
    at, place = np.unique(np.concatenate([_places(part) for part in parts]), return_inverse=True)
    held = np.concatenate([part.weight * s for part, s in zip(parts, shares, strict=True)])
    mean = np.bincount(place, held, minlength=len(at))
    rest = np.sum([part.rest * s for part, s in zip(parts, shares, strict=True)], axis=0)
    sound = ~np.isnan(rest[at // keys])
    row, key, mean = at[sound] // keys, at[sound] % keys, mean[sound]
    if least <= 0:
        return Kept(shape, np.bincount(row, minlength=queries), key, mean, rest, least)
    strong = mean >= least
    rest = rest + np.bincount(row[~strong], mean[~strong], minlength=queries)
    mass, others = _rest_by_region(parts, shares, (row, key, mean, strong))
    count = np.bincount(row[strong], minlength=queries)
    apart = _rest_apart(parts, shares, (row, key, mean, strong))
    sets = parts[0].sets
    return Kept(shape, count, key[strong], mean[strong], rest, least, mass, others, sets, apart)


def _places(part: Kept) -> np.ndarray:
    """Where the cells are, row after row: query * keys + key."""
    rows = np.repeat(np.arange(part.shape[0], dtype=np.int64), part.count)
    places: np.ndarray = rows * part.shape[1] + part.key
    return places


def _rest_apart(
    parts: Sequence[Kept], shares: np.ndarray, cells: tuple[np.ndarray, ...]
) -> np.ndarray | None:
    """What the cells that the mean does not keep hold on the keys that can be set apart, row by row."""
    row, key, mean, strong = cells
    if (sets := parts[0].sets) is None:
        return None
    held = [part.apart * s for part, s in zip(parts, shares, strict=True) if part.apart is not None]
    found: np.ndarray = np.sum(held, axis=0)
    for at, own in enumerate(sets):
        weak = ~strong & own[key]
        found[at] += np.bincount(row[weak], mean[weak], minlength=found.shape[1])
    return found


def _rest_by_region(
    parts: Sequence[Kept], shares: np.ndarray, cells: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """What the cells that the mean does not keep hold, and how many they are, by region."""
    row, key, mean, strong = cells
    maps = list(_maps(parts))
    side = len(maps[0][0])
    queries, keys = parts[0].shape
    region = row * side // queries, key * side // keys
    mass = np.sum([m * s for (m, _), s in zip(maps, shares, strict=True)], axis=0)
    np.add.at(mass, tuple(x[~strong] for x in region), mean[~strong])
    others = np.max([visible for _, visible in maps], axis=0)
    np.add.at(others, tuple(x[strong] for x in region), -1)
    return mass, others


def _maps(parts: Sequence[Kept]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each pattern the mass that is not kept and how many cells may be seen, by region."""
    for part in parts:
        assert part.mass is not None
        assert part.others is not None
        side = len(part.mass)
        visible = part.others.copy()
        rows = np.repeat(np.arange(part.shape[0]), part.count)
        np.add.at(visible, (rows * side // part.shape[0], part.key * side // part.shape[1]), 1)
        yield part.mass, visible
