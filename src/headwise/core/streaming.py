"""Statistics of every pattern row, made while attention runs and without ever holding n x n.

`measure` computes the head outputs and what is wanted of the pattern in one walk over blocks of query rows.
Two implementations give the same: the compiled CPU kernel (`kernel`) where it fits the call, and plain torch
(`portable`) for any device and every feature (bias, softcap, sinks, any mask, functions of one's own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.scores import Scores
from headwise.names import ConfigError, ShapeError

__all__ = ["Block", "Path", "PatternFunction", "Statistics", "Wanted", "measure", "measure_rows"]

Path = Literal["auto", "kernel", "portable"]


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the patterns of one call, all heads: what a function of one's own is given.

    `query` and `key` are the indices of the block's rows and columns in the call; keys that none of the
    rows may see can be left out.
    """

    pattern: Float[Tensor, "batch head query key"]
    allowed: Bool[Tensor, "#batch #head query key"] | None
    query: Int[Tensor, " query"]
    key: Int[Tensor, " key"]


PatternFunction = Callable[[Block], Tensor]
"""A statistic of one's own: from a block one number per row, [batch, head, query]."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is asked about the pattern of one call, beside the numbers every row gets.

    Attributes:
        probes: the key that each probe names for each query, -1 where it names none.
        top: how many of the strongest keys of each query to keep.
        eligible: keys that may be among the strongest; None = all.
        apart: least distance between a query and a key that may be among its strongest, in positions.
        pool: cells per side of the pooled map; 0 = none.
        received: whether to add up the mass each key receives.
        query_lengths: how many queries of each sequence are real (padding on the right); the others count
            neither in `received` nor in the pooled map. None = all.
        key_lengths: the same of keys, which says how wide a cell of the pooled map is; keys beyond, where
            the mask lets them be seen, count in the last cell.
        functions: statistics of one's own by name.
    """

    probes: Int[Tensor, "#batch probe query"] | None = None
    top: int = 0
    eligible: Bool[Tensor, "#batch key"] | None = None
    apart: int = 0
    pool: int = 0
    received: bool = False
    query_lengths: Int[Tensor, " batch"] | None = None
    key_lengths: Int[Tensor, " batch"] | None = None
    functions: Mapping[str, PatternFunction] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Statistics:
    """What came of it, in float32. A row that may see nothing has 0 everywhere, and -1 as keys.

    Attributes:
        entropy: of each row, in nats.
        distance: mean of |query position - key position| under the row's weights, in positions.
        largest: the largest weight of the row (Voita et al. 2019 call its mean confidence).
        visible: how many keys the row may see (axes of size 1 where it is the same for all).
        mass: the weight on the key each probe names; 0 where it names none or one that is not seen.
        hits: whether that key has the row's largest weight.
        named_seen: whether the query may see it (axes of size 1 where it is the same for all).
        top_keys: the strongest keys, strongest first; -1 where the row has fewer.
        top_weights: their weights.
        received: the sum over real queries of the weights on each key.
        seen_by: how many real queries may see each key.
        pooled: the pattern pooled to pool x pool cells of equal width in relative position: to a cell the
            sum over its keys, from a cell the mean over its queries, so that rows still sum to 1; 0 where
            a cell has no query.
        pooled_max: the largest weight in each cell.
        own: one number per row for each function of one's own.
        path: which of the two implementations made them.
    """

    entropy: Float[Tensor, "batch head query"]
    distance: Float[Tensor, "batch head query"]
    largest: Float[Tensor, "batch head query"]
    visible: Int[Tensor, "#batch #head query"]
    mass: Float[Tensor, "batch head probe query"] | None = None
    hits: Bool[Tensor, "batch head probe query"] | None = None
    named_seen: Bool[Tensor, "#batch #head probe query"] | None = None
    top_keys: Int[Tensor, "batch head query top"] | None = None
    top_weights: Float[Tensor, "batch head query top"] | None = None
    received: Float[Tensor, "batch head key"] | None = None
    seen_by: Int[Tensor, "#batch #head key"] | None = None
    pooled: Float[Tensor, "batch head query_cell key_cell"] | None = None
    pooled_max: Float[Tensor, "batch head query_cell key_cell"] | None = None
    own: Mapping[str, Float[Tensor, "batch head query"]] = field(default_factory=dict)
    path: Literal["kernel", "portable"] = "portable"


def measure(
    scores: Scores,
    v: Float[Tensor, "batch kv_head key v_dim"],
    wanted: Wanted,
    path: Path = "auto",
) -> tuple[Float[Tensor, "batch head query v_dim"], Statistics]:
    """The head outputs z of one call and the statistics of its patterns, without gradients.

    Args:
        scores: what the call looks at.
        v: its values.
        wanted: what to keep.
        path: "kernel" or "portable" to insist on one of the two; "auto" takes the kernel where it fits.

    Raises:
        ConfigError: the kernel was insisted on and does not fit the call, and why.
        ShapeError: something wanted whose shape does not fit the call.
    """
    from headwise.core import kernel, portable  # both are told in the words of this module

    _check(scores, wanted)
    if path not in ("auto", "kernel", "portable"):
        raise ConfigError(f"path must be auto, kernel or portable, came {path!r}")
    if path != "portable":
        try:
            return kernel.measure(scores, v, wanted)
        except kernel.UnfitError as why:
            if path == "kernel":
                line = f"the kernel does not fit this call: {why}; leave path at auto"
                raise ConfigError(line) from None
    return portable.measure(scores, v, wanted)


def measure_rows(scores: Scores, wanted: Wanted) -> Statistics:
    """The statistics alone, of a call whose values are not at hand.

    Raises:
        ShapeError: something wanted whose shape does not fit the call.
    """
    few_values = scores.k[..., :16]  # z is not asked for; the kernel takes no narrower values
    return measure(scores, few_values, wanted)[1]


def _check(scores: Scores, wanted: Wanted) -> None:
    """The shapes of what is wanted, against those of the call."""
    batch, _, queries, keys = scores.shape
    for name, least in (("top", 0), ("apart", 0), ("pool", 0)):
        if getattr(wanted, name) < least:
            raise ShapeError(f"{name} must be at least {least}, came {getattr(wanted, name)}")
    some = ("batch or 1", (1, batch))
    for name, x, axes in (
        ("probes", wanted.probes, (some, ("probe", None), ("query", (queries,)))),
        ("eligible", wanted.eligible, (some, ("key", (keys,)))),
        ("query_lengths", wanted.query_lengths, (("batch", (batch,)),)),
        ("key_lengths", wanted.key_lengths, (("batch", (batch,)),)),
    ):
        if x is None:
            continue
        sizes = zip(axes, x.shape, strict=False)
        if x.dim() != len(axes) or any(fit is not None and n not in fit for (_, fit), n in sizes):
            form = ", ".join(a if fit is None else f"{a}={fit[-1]}" for a, fit in axes)
            raise ShapeError(f"{name} must be [{form}], came {list(x.shape)}")
