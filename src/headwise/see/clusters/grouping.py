"""Groups of heads that look alike, a tree of them, and places for them on a plane, from their distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from headwise.names import ConfigError, HeadId, ShapeError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Tree", "clusters", "plane", "streams_of", "table_of", "tree"]


@dataclass(frozen=True, eq=False)
class Tree:
    """Heads joined pair by pair, the nearest first (average linkage).

    Attributes:
        ids: the heads, in the order of the leaves.
        links: as scipy has them: the two joined, their distance, how many heads; of heads in their first order.
    """

    ids: tuple[str, ...]
    links: Float[np.ndarray, "link 4"]


_COUNT = 8
_NO_HEAD = -1


def clusters(distances: xr.DataArray, count: int | None = None) -> xr.DataArray:
    """The cluster of each head, from 1 on, by average linkage of the roots of the divergences.

    Args:
        distances: from `distances`.
        count: how many clusters, of each stream; None = 8, or as many as there are heads. A stream of fewer heads
            than the others has as many as it has heads.

    Returns:
        DataArray over head; streams are numbered one after another, the clusters of each from the largest on (of
        the same size that with the first head first).

    Raises:
        ConfigError: count is no whole number from 1, or there are fewer heads.
        ShapeError: not square, or with NaN within a stream.
    """
    import xarray as xr
    from scipy.cluster.hierarchy import fcluster

    if count is not None and (not isinstance(count, int) or count < 1):
        raise ConfigError(f"count must be a whole number from 1, came {count!r}")
    ids = [str(id) for id in distances["head_a"].values]
    heads = {
        stream: [i for i, id in enumerate(ids) if _stream(id) == stream]
        for stream in streams_of(distances)
    }
    most = max(map(len, heads.values()), default=0)
    if count is not None and count > most:
        raise ConfigError(f"there are {most} heads, so at most {most} clusters; came count={count}")
    found = np.zeros(len(ids), dtype=np.int64)
    for stream, at in heads.items():
        if len(at) == 1:
            found[at] = found.max() + 1
            continue
        links = tree(distances, stream).links
        found[at] = _by_size(fcluster(links, count or _COUNT, criterion="maxclust")) + found.max()
    attrs = {"long_name": "cluster of heads that look alike", "linkage": "average, of roots"}
    return xr.DataArray(found, dims=("head",), coords={"head": ids}, name="cluster", attrs=attrs)


def _by_size(numbers: Int[np.ndarray, " head"]) -> Int[np.ndarray, " head"]:
    """The same clusters, numbered from 1: the largest first, of the same size that with the first head first."""
    _, first, mine, sizes = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(sizes) + 1)
    found: np.ndarray = rank[mine]
    return found


def _stream(id: str) -> str:
    return id.rpartition(".")[0].rpartition(".")[0]


def streams_of(distances: xr.DataArray) -> list[str]:
    """The streams whose heads were compared."""
    ids = [str(id) for id in distances["head_a"].values]
    known = np.diagonal(np.isfinite(distances.values))
    names = list(map(_stream, ids))
    return list(dict.fromkeys(name for name, some in zip(names, known, strict=True) if some))


def tree(distances: xr.DataArray, stream: str | None = None) -> Tree:
    """The heads of a stream (None = the first) joined pair by pair, by average linkage of the roots.

    Raises:
        ShapeError: not square, with NaN within the stream, or of one head.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    ids, roots = _roots(distances, stream)
    if len(ids) < 2:
        raise ShapeError("one head alone makes no tree; give distances of two or more")
    near = squareform(roots, checks=False)
    links = optimal_leaf_ordering(linkage(near, method="average"), near)
    return Tree(tuple(ids[i] for i in leaves_list(links)), links)


def plane(
    distances: xr.DataArray, stream: str | None = None
) -> tuple[list[str], Float[np.ndarray, "head 2"], float]:
    """Places for the heads of a stream that keep their distances as well as two axes can (classical scaling).

    Returns:
        The heads, their places, and the share of the squared distances that the two axes hold.

    Raises:
        ShapeError: not square, or with NaN within the stream.
    """
    ids, roots = _roots(distances, stream)
    squares = roots**2
    centred = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    kept = values[:-3:-1].clip(0)
    places = np.zeros((len(ids), 2))
    places[:, : len(kept)] = vectors[:, :-3:-1] * np.sqrt(kept)
    whole = float(values.clip(0).sum())
    return ids, places, float(kept.sum()) / whole if whole > 0 else 1.0


def _roots(
    distances: xr.DataArray, stream: str | None
) -> tuple[list[str], Float[np.ndarray, "head head"]]:
    """The heads of a stream, and the roots of their divergences."""
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise ShapeError(f"distances must be head x head, came {list(distances.shape)}")
    streams = streams_of(distances)
    if not streams or (stream is not None and stream not in streams):
        raise ShapeError(f"no heads of stream {stream!r} were compared; there are {streams}")
    stream = streams[0] if stream is None else stream
    ids = [str(id) for id in distances["head_a"].values]
    at = [i for i, id in enumerate(ids) if _stream(id) == stream]
    values = distances.values[np.ix_(at, at)]
    if not np.isfinite(values).all():
        raise ShapeError("the distances hold NaN within a stream; compare its heads again")
    return [ids[i] for i in at], np.sqrt(values.clip(0))


def table_of(distances: xr.DataArray, clusters: xr.DataArray) -> xr.Dataset:
    """Distances and clusters as a table over (layer, head), beside the distances of all pairs."""
    import xarray as xr

    ids = [HeadId.parse(str(id)) for id in distances["head_a"].values]
    layers = list(dict.fromkeys(id.layer_id for id in ids))
    number = np.full((len(layers), 1 + max(id.head for id in ids)), _NO_HEAD)
    for id, cluster in zip(ids, clusters.values.tolist(), strict=True):
        number[layers.index(id.layer_id), id.head] = cluster
    one_stack = {id.stream for id in ids} == {""}
    attrs = {
        **clusters.attrs,
        "long_name": f"{clusters.attrs['long_name']}, {_NO_HEAD}: no such head",
    }
    return xr.Dataset(
        {"cluster": (("layer", "head"), number, attrs), "divergence": distances},
        coords={
            "layer": [id.layer if one_stack else str(id) for id in layers],
            "head": np.arange(number.shape[1]),
        },
        attrs=dict(distances.attrs),
    )
