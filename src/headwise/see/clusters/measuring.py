"""distances: how differently the heads of a model look, as the mean Jensen-Shannon divergence of their rows.

Clark et al. 2019, section 6: for two heads the sum over the tokens of JS(row of one, row of the other); here the
mean over a sample of tokens, the same for all heads, and in nats. The root of it is a distance: the root of JS is
one (Endres & Schindelin 2003), and so is the root of a mean of squares of distances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.anatomy import Layer
from headwise.hub.kept import Naming, naming_of
from headwise.hub.load import Model
from headwise.hub.shards import num_kv_heads, whole
from headwise.names import ConfigError, LayerId
from headwise.see.looking import refuse_silence, refuse_split, run_id
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.refusing import check_model

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["distances", "divergence"]

_SAYS = "mean Jensen-Shannon divergence of the heads' rows (Clark et al. 2019)"

_LEAST = 1e-37
"""Keeps the logarithm of 0 finite."""

_MOST_NUMBERS = 1 << 19
"""How many weights of all heads are held at a time: 2 MiB in float32, which stays near the processor."""


def distances(
    model: Model,
    texts: Texts,
    rows: int = 2000,
    seed: int = 0,
    *,
    target: str | Iterable[str] | None = None,
    context: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> xr.DataArray:
    """Mean Jensen-Shannon divergence of every two heads' rows, over a sample of the texts' tokens.

    The texts are read twice: to count their tokens, of which some are drawn, and to look at these. Of one batch at
    a time the queries and keys are held, and of its rows as many as fit in 2 MiB (one at least).

    Args:
        model: from `load`.
        texts, target, context: as `profile` takes them; an iterator is kept as a list.
        rows: how many tokens to look from, of each side that looks; all, where there are fewer.
        seed: of the draw.
        progress: called as progress(rows done, rows in all).

    Returns:
        DataArray over (head_a, head_b), ids of heads, in nats (0 = the same, ln 2 = never the same keys); its root
        is a distance. NaN between streams, whose rows are of different texts. Its attrs say how many `rows` were
        compared (`rows_encoder` and so on where there are streams), drawn from how many `texts` and `tokens`.

    Raises:
        ConfigError: rows is no whole number from 1.
        HeadwiseError: as `profile` does.
    """
    check_model(model, "distances")
    if not isinstance(rows, int) or rows < 1:
        raise ConfigError(f"rows must be a whole number from 1, came {rows!r}")
    texts, target = _kept(texts), None if target is None else _kept(target)

    def read() -> Iterator[Batch]:
        return batches_in(model, texts, target, context, "distances")

    read_in = _Read()
    drawn = _draw(read_in.counting(read()), rows, seed)
    total = sum(len(by_batch) for by_batch in drawn.values())
    sums = _Sums(model)
    for number, batch in enumerate(read()):
        sums.add(batch, drawn.get(number, []))
        if progress is not None:
            progress(sums.rows, total)
    counts = {"texts": read_in.texts, "tokens": read_in.tokens}
    return sums.table({"model": model.name, "seed": seed, **counts})


def divergence(
    patterns: Float[np.ndarray, "head row key"],
) -> Float[np.ndarray, "head head"]:
    """Sum over the rows of the Jensen-Shannon divergence, in nats, of every two heads' rows.

    By numpy, whose logarithm is several times as fast as torch's on a CPU.
    """
    heads = len(patterns)
    rows = patterns.reshape(heads, -1)
    own = _entropy(rows)
    found = np.zeros((heads, heads))
    for head in range(heads - 1):
        mixed = rows[head + 1 :] + rows[head]
        mixed *= np.float32(0.5)
        found[head, head + 1 :] = _entropy(mixed) - (own[head + 1 :] + own[head]) / 2
    found = found.clip(0)
    both: np.ndarray = found + found.T
    return both


def _entropy(rows: Float[np.ndarray, "head number"]) -> Float[np.ndarray, " head"]:
    """-sum w log w of each head, in nats."""
    logs = np.log(rows + np.float32(_LEAST))
    found: np.ndarray = -np.einsum("hn,hn->h", rows, logs).astype(np.float64)
    return found


def _kept(texts: Any) -> Any:
    """Something that can be read twice."""
    return list(texts) if isinstance(texts, Iterator) else texts


@dataclass
class _Read:
    """How many texts and tokens were read."""

    texts: int = 0
    tokens: int = 0

    def counting(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches, counted on the way."""
        for batch in batches:
            self.texts += batch.size if batch.begun is None else batch.begun
            self.tokens += batch.tokens or 0
            yield batch


class _Row(NamedTuple):
    """A token that was drawn: of which text of its batch, which token, and whether it is the target's."""

    text: int
    token: int
    target: bool


def _draw(batches: Iterable[Batch], rows: int, seed: int) -> dict[int, list[_Row]]:
    """The tokens to look from, by batch: of all sources some, and in an encoder-decoder of all targets."""
    counts: dict[bool, list[tuple[int, int, int]]] = {False: [], True: []}
    for number, batch in enumerate(batches):
        for target, sides in ((False, batch.sources), (True, batch.targets or ())):
            lengths = ((i, side) for i, side in enumerate(sides) if side is not None)
            counts[target] += [(number, i, len(side.tokens)) for i, side in lengths]
    draw, found = np.random.default_rng(seed), defaultdict[int, list[_Row]](list)
    for target, texts in counts.items():
        ends = np.cumsum([length for *_, length in texts], dtype=np.int64)
        total = int(ends[-1]) if texts else 0
        for place in np.sort(draw.choice(total, min(rows, total), replace=False)) if total else ():
            at = int(np.searchsorted(ends, place, side="right"))
            number, text, length = texts[at]
            found[number].append(_Row(text, int(place - ends[at] + length), target))
    return dict(found)


@dataclass(eq=False)
class _Sums:
    """Divergences of the heads of each stream, summed over rows."""

    model: Model
    heads: dict[str, list[str]] = field(default_factory=dict)
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    names: dict[LayerId, Naming] = field(default_factory=dict)

    def add(self, batch: Batch, drawn: list[_Row]) -> None:
        """Look at the rows drawn from a batch."""
        if not drawn:
            return
        calls = self._run(batch)
        for stream in dict.fromkeys(id.stream for id in calls):
            mine = {id: scores for id, scores in calls.items() if id.stream == stream}
            order = sorted(mine, key=lambda id: id.layer)
            self.heads[stream] = [str(id.head(h)) for id in order for h in self.names[id].heads]
            self._stream(stream, batch, mine, drawn)
        self.rows += len(drawn)

    def _run(self, batch: Batch) -> dict[LayerId, Scores]:
        calls: dict[LayerId, Scores] = {}

        def observer(layer: Layer) -> Callable[[Scores, Tensor, Tensor], None]:
            def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
                id = run_id(layer, calls)
                refuse_split(id, scores, batch)
                calls[id] = whole(layer.module, scores, v, z)[0]
                kv_heads = num_kv_heads(layer.module, scores)
                self.names[id] = naming_of(layer.module, calls[id].shape[1], kv_heads)

            return observe

        layers = self.model.anatomy.layers
        taps = {layer.module: Tap(observers=(observer(layer),)) for layer in layers}
        with self.model.open(), tapped(taps):
            self.model.run(batch.inputs)
        refuse_silence(self.model, len(calls))
        return calls

    def _stream(
        self, stream: str, batch: Batch, calls: Mapping[LayerId, Scores], rows: list[_Row]
    ) -> None:
        heads = sum(scores.shape[1] for scores in calls.values())
        sums = self.sums.setdefault(stream, np.zeros((heads, heads)))
        queries, keys = next(iter(calls.values())).shape[2:]
        target = batch.targets is not None and stream in ("decoder", "cross")
        rows = [row for row in rows if row.target == target]
        sides = [batch.side(stream, i, queries, looks=True) for i in range(batch.size)]
        places = [keep.nonzero()[:, 0].tolist() for _, keep in sides]
        own = batch.targets if target and batch.targets is not None else batch.sources
        rows = [row for row in rows if sides[row.text][0] is own[row.text]]
        at = sorted((places[row.text][row.token], row.text) for row in rows)
        size = max(1, _MOST_NUMBERS // (heads * keys))
        for start in range(0, len(at), size):
            some = at[start : start + size]
            patterns = torch.cat([_rows_of(scores, some).cpu() for scores in calls.values()])
            seen = patterns.amax((0, 1)) > 0
            sums += divergence(patterns[..., seen].numpy())
        self.counts[stream] = self.counts.get(stream, 0) + len(at)

    def table(self, attrs: Mapping[str, Any]) -> xr.DataArray:
        """The means."""
        import xarray as xr

        order = sorted(self.heads, key=self.model.anatomy.streams.index)
        ids = [head for stream in order for head in self.heads[stream]]
        found = np.full((len(ids), len(ids)), np.nan)
        first = 0
        for stream in order:
            last = first + len(self.sums[stream])
            if self.counts[stream]:
                found[first:last, first:last] = self.sums[stream] / self.counts[stream]
            first = last
        counts = {"_".join(filter(None, ("rows", s))): self.counts[s] for s in order}
        return xr.DataArray(
            found,
            dims=("head_a", "head_b"),
            coords={"head_a": ids, "head_b": ids},
            name="divergence",
            attrs={"long_name": _SAYS, "units": "nats", **counts, **attrs},
        )


def _rows_of(scores: Scores, at: list[tuple[int, int]]) -> Float[Tensor, "head row key"]:
    """The pattern of all heads in some rows, given as (query, text) in order; the texts' other keys are 0."""
    found: list[Tensor] = []
    for query, pairs in groupby(at, key=lambda pair: pair[0]):
        texts = [text for _, text in pairs]
        found.append(scores.rows(query, query + 1)[texts, :, 0].float())
    return torch.cat(found).transpose(0, 1)
