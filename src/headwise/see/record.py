"""The record: what every head of a model looked at in one text, kept in O(n) and unfolded on demand.

For each attention layer it holds the queries, the keys (after RoPE), the mask and the scale; the pattern of any
head is computed from them when asked for, and never all patterns at once. `verified` says how far the head outputs
recomputed from these are from the ones the model itself made, at worst.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure
from headwise.hub.kept import Naming, naming_of
from headwise.names import HeadError, HeadId, LayerId, spans
from headwise.see.circuits.norms import Lengths
from headwise.see.texts.tokens import Token
from headwise.see.texts.words import RULE, Word, to_words, words_of

if TYPE_CHECKING:
    import xarray as xr

_VIEWER = "headwise.show.notebook.showing"  # a room above, imported when a record is shown


@dataclass(frozen=True, eq=False)
class Side:
    """The text on one side of a map: the tokens that look, or the ones looked at."""

    text: str
    tokens: tuple[Token, ...]

    def __repr__(self) -> str:
        return f"Side({len(self.tokens)} tokens)"

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of this side."""
        return words_of(self.text, self.tokens)


def distinct(sides: Iterable[Side]) -> list[Side]:
    """The sides in order, those of the same tokens once."""
    found: dict[tuple[Token, ...], Side] = {}
    for side in sides:
        found.setdefault(side.tokens, side)
    return list(found.values())


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One attention layer on one text: its scores (batch 1, padding left out) and both sides.

    `lengths`: what each head would add of each key's value alone, |v_j W_O_h|; None where `no_lengths` says why.
    `names`: what its heads are called where some were cut; None = by their place.
    """

    id: LayerId
    scores: Scores
    queries: Side
    keys: Side
    verified: float
    lengths: Lengths | None = None
    no_lengths: str = ""
    names: Naming | None = None

    def __repr__(self) -> str:
        _, heads, queries, keys = self.scores.shape
        return f"LayerRecord({self.id}, {heads} heads, {queries} x {keys} tokens)"

    @property
    def num_heads(self) -> int:
        """Number of query heads."""
        return self.scores.q.shape[1]

    @property
    def num_kv_heads(self) -> int:
        """Number of key/value heads: fewer than num_heads under grouped-query attention."""
        return self.scores.k.shape[1]

    @property
    def own_text(self) -> bool:
        """Whether the tokens look at themselves and their neighbours, and not at another text."""
        return self.id.stream != "cross" and self.queries.tokens == self.keys.tokens

    @property
    def naming(self) -> Naming:
        """What its heads are called: a pruned layer's keep the ids they had."""
        return self.names or naming_of(None, self.num_heads, self.num_kv_heads)

    def index(self, head: int) -> int:
        """Where the query head of this id is among those the layer has.

        Raises:
            HeadError: it has none of this id.
        """
        found = self.naming.index(head)
        if found is None:
            names = self.naming.said(self.id)
            raise HeadError(
                f"there is no head {self.id.head(head)}: layer {self.id} has the heads {names}"
            )
        return found

    def kv_group(self, head: int) -> int:
        """The KV head that query head `head` reads."""
        return self.naming.kv[self.index(head)]


@dataclass(frozen=True, eq=False)
class Record:
    """What every head of `model` looked at in one text. Made by `look`.

    `verified` is the largest difference between recomputed and actual head outputs (before W_O), over all
    heads, tokens and channels, in the units of the head outputs.
    """

    model: str
    layers: Mapping[LayerId, LayerRecord]

    def __repr__(self) -> str:
        tokens, heads = len(self.tokens), len(self.heads())
        return (
            f"Record({self.model!r}, {tokens} tokens, {heads} heads, verified {self.verified:.1e})"
        )

    @property
    def verified(self) -> float:
        """Largest difference of recomputed from actual head outputs; NaN where a layer has NaNs."""
        values = [layer.verified for layer in self.layers.values()]
        return float(np.max(values))

    @property
    def text(self) -> str:
        """The text, of the first stream."""
        return next(iter(self.layers.values())).queries.text

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of the text, of the first stream."""
        return next(iter(self.layers.values())).queries.tokens

    @property
    def sides(self) -> list[Side]:
        """The texts that look: one, or in an encoder-decoder the source and the target."""
        return distinct(layer.queries for layer in self.layers.values())

    @property
    def stacks(self) -> dict[str, list[LayerRecord]]:
        """The layers of each stream, in order."""
        found: dict[str, list[LayerRecord]] = {}
        for id, layer in self.layers.items():
            found.setdefault(id.stream, []).append(layer)
        return found

    def heads(self) -> list[HeadId]:
        """All heads, in order."""
        return [id.head(h) for id, layer in self.layers.items() for h in layer.naming.heads]

    def layer(self, id: LayerId) -> LayerRecord:
        """The record of one layer.

        Raises:
            HeadError: the model has no such layer.
        """
        if id not in self.layers:
            raise HeadError(f"there is no layer {id}: {self._known_layers()}")
        return self.layers[id]

    def layer_of(self, head: HeadId) -> LayerRecord:
        """The layer a head is in.

        Raises:
            HeadError: the model has no such head.
        """
        layer = self.layers.get(head.layer_id)
        if layer is None:
            raise HeadError(f"there is no head {head}: {self._known_layers()}")
        layer.index(head.head)
        return layer

    def _known_layers(self) -> str:
        return f"the model's layers are {spans(self.layers)}"

    def weights(self, head: str | HeadId) -> Float[np.ndarray, "query key"]:
        """The pattern of one head: row q is what token q looks at, and sums to 1 (0 if it may see nothing)."""
        id = HeadId.parse(head)
        layer = self.layer_of(id)
        at = layer.index(id.head)
        with torch.no_grad():
            rows = layer.scores.rows(heads=slice(at, at + 1))
        return rows[0, 0].double().cpu().numpy()

    def norm_weights(self, head: str | HeadId) -> Float[np.ndarray, "query key"]:
        """The numbers of `norms`."""
        id = HeadId.parse(head)
        layer, weights = self.layer_of(id), self.weights(id)
        if layer.lengths is None:
            return np.full_like(weights, np.nan)
        lengths = layer.lengths.values[layer.index(id.head)].double().cpu().numpy()
        found: np.ndarray = weights * lengths
        return found

    def visible(self, head: str | HeadId) -> np.ndarray:
        """Who may attend, for one head: bool [query, key], True = may attend."""
        id = HeadId.parse(head)
        layer = self.layer_of(id)
        queries, keys = layer.scores.shape[2:]
        allowed = layer.scores.allowed(0, queries)
        if allowed is None:
            return np.ones((queries, keys), dtype=bool)
        allowed = allowed.expand(-1, layer.num_heads, -1, -1)
        return allowed[0, layer.index(id.head)].cpu().numpy()

    def norms(self, head: str | HeadId, words: bool = False) -> xr.DataArray:
        """What each token takes of each: |alpha_ij f(x_j)|, f(x) = (x W_V + b_V) W_O (Kobayashi et al. 2020).

        Arguments, result and errors are those of `pattern`, the unit that of the residual stream. NaN where the
        layer has no output map, and attrs["reason"] says so.
        """
        id = HeadId.parse(head)
        found = self._labelled(id, self.norm_weights(id), words, "norms")
        found.attrs |= {"long_name": "length of what the query takes of the key, |alpha f(x)|"}
        if reason := self.layer_of(id).no_lengths:
            found.attrs["reason"] = reason
        return found

    def pattern(self, head: str | HeadId, words: bool = False) -> xr.DataArray:
        """The pattern of one head with its tokens (or words) as coordinates.

        Args:
            head: for instance "18.6", or "cross.0.2" in an encoder-decoder.
            words: by words instead of tokens: to a word the sum over its tokens, from a word their mean.

        Returns:
            DataArray with dims (query, key); attrs name model, head, KV group and, for words, the rule.

        Raises:
            HeadError: not a head id, or not a head of this model.
        """
        id = HeadId.parse(head)
        return self._labelled(id, self.weights(id), words, "pattern")

    def _labelled(self, id: HeadId, values: np.ndarray, words: bool, name: str) -> xr.DataArray:
        """Numbers of a head for each query and key, with its tokens or words as coordinates."""
        import xarray as xr

        layer = self.layer_of(id)
        attrs = {"model": self.model, "head": str(id), "kv_group": layer.kv_group(id.head)}
        rows: Sequence[Word | Token] = layer.queries.tokens
        columns: Sequence[Word | Token] = layer.keys.tokens
        if words:
            rows, columns = layer.queries.words, layer.keys.words
            values = to_words(values, layer.queries.words, layer.keys.words)
            attrs["rule"] = RULE
        return xr.DataArray(
            values,
            dims=("query", "key"),
            coords={"query": [r.text for r in rows], "key": [c.text for c in columns]},
            name=name,
            attrs=attrs,
        )

    def strongest(
        self,
        head: str | HeadId,
        top: int = 8,
        eligible: Sequence[bool] | np.ndarray | None = None,
        apart: int = 0,
    ) -> xr.Dataset:
        """The strongest keys of each query of one head, strongest first, found without holding the pattern.

        Args:
            head: for instance "18.6", or "cross.0.2" in an encoder-decoder.
            top: how many; no more than there are keys.
            eligible: which keys may be named, True or False for each; None = all.
            apart: least distance, in tokens, between a query and a key that may be named.

        Returns:
            Dataset over (query, rank): `key`, the index of the key in its text, `key_text`, its token, and
            `weight`; where a query has fewer keys -1, "" and 0.

        Raises:
            HeadError: not a head id, or not a head of this model.
            ConfigError: a top or apart that is no whole number, or eligible of another length.
        """
        from headwise.see.rows import strongest_of

        return strongest_of(self, HeadId.parse(head), top, eligible, apart)

    def statistics(self, stream: str | None = None) -> xr.Dataset:
        """Numbers of every row of every head, found without holding a pattern.

        Args:
            stream: of an encoder-decoder "encoder", "decoder" or "cross"; None = the first.

        Returns:
            Dataset over (layer, head, query): entropy (nats), distance (mean, in tokens), largest (weight) and
            visible (how many keys the row may see); a row that may see nothing has 0.

        Raises:
            HeadError: no stream of this model.
        """
        from headwise.see.rows import statistics_of

        return statistics_of(self, stream)

    def show(
        self,
        *,
        tables: Sequence[Any] = (),
        start: Mapping[str, Any] | None = None,
        height: str | float = "",
    ) -> Any:
        """The viewer of this record, for a notebook; arguments, result and errors are those of `hw.view`."""
        home: Any = importlib.import_module(_VIEWER)
        return home.view(self, tables=tables, start=start, height=height)

    def save(self, path: str | Path) -> None:
        """Save the record as one safetensors file; `load_record` reads it back.

        Raises:
            OutputError: the file cannot be written; an older one stays as it was.
        """
        from headwise.see.saved import save_record

        save_record(self, Path(path))


def verify(scores: Scores, v: torch.Tensor, z: torch.Tensor) -> float:
    """Largest difference of the head outputs recomputed from `scores` from the actual z."""
    wide = torch.promote_types(z.dtype, torch.float32)
    exact = replace(scores, q=scores.q.to(wide), k=scores.k.to(wide))
    recomputed, _ = measure(exact, v.to(wide), Wanted())
    return float((recomputed - z).abs().max())
