"""The cases of one head in one text: who looks at whom, and what else it looks at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.core.scores import Scores
from headwise.see.probes import Probe
from headwise.see.record import Side
from headwise.see.summary import FAR, telling_keys

__all__ = ["Example", "HeadPattern", "TextMap", "of_tokens", "of_units"]

_CELLS = 1 << 22
"""How many cells of one head's pattern are held at a time: 16 MiB in float32."""


@dataclass(frozen=True)
class Example:
    """One case of a head: a token (or a word, where the probe is of words) and what it looks at.

    Attributes:
        text: all of it.
        start, end: the characters of what looks: `text[start:end]`, unless that is a special token.
        query: what looks.
        keys: what the probe names for it; without a probe what it looks at.
        mass: the attention to them.
        hit: whether the most attended is one of them.
        instead: what else it looked at most; "" where there is nothing else.
        instead_mass: the attention to that.
    """

    text: str
    start: int
    end: int
    query: str
    keys: tuple[str, ...]
    mass: float
    hit: bool
    instead: str
    instead_mass: float


@dataclass(frozen=True, eq=False)
class HeadPattern:
    """The pattern of one head over a batch, of which rows are made as they are asked for.

    Attributes:
        scores: of the layer.
        head: its number in the layer.
    """

    scores: Scores
    head: int

    def rows(self, i: int, start: int, stop: int) -> Float[Tensor, "query key"]:
        """Rows start..stop of text i, padding included."""
        batch, _, queries, keys = self.scores.shape
        if batch * queries * keys <= _CELLS:
            return self._whole[i, start:stop]
        return self._made(start, stop)[i]

    @cached_property
    def _whole(self) -> Float[Tensor, "batch query key"]:
        return self._made(0, self.scores.shape[2])

    def _made(self, start: int, stop: int) -> Float[Tensor, "batch query key"]:
        with torch.no_grad():
            return self.scores.rows(start, stop, heads=slice(self.head, self.head + 1))[:, 0].cpu()


@dataclass(frozen=True, eq=False)
class TextMap:
    """One head's map of text i of a batch: both sides, and which positions of the padded rows are theirs."""

    pattern: HeadPattern
    i: int
    queries: Side
    query_keep: Bool[Tensor, " query"]
    keys: Side
    key_keep: Bool[Tensor, " key"]
    own: bool

    def rows(self) -> Iterator[tuple[int, Float[np.ndarray, "query key"]]]:
        """The pattern in blocks of rows, padding left out, each with the number of its first row."""
        at = self.query_keep.nonzero()[:, 0]
        keys = self.key_keep.nonzero()[:, 0]
        size = max(1, _CELLS // max(1, len(self.key_keep)))
        for done in range(0, len(at), size):
            part = at[done : done + size]
            first, last = int(part[0]), int(part[-1]) + 1
            rows = self.pattern.rows(self.i, first, last)
            yield done, rows[part - first][:, keys].double().numpy()


def of_tokens(probe: Probe | None, text: TextMap, top: int) -> Iterator[Example]:
    """The strongest cases of a text; without a probe each query's strongest far key is one."""
    targets = None if probe is None else probe.targets(text.queries, text.keys, text.own).numpy()
    telling = telling_keys(text.keys).numpy()
    for first, rows in text.rows():
        q = np.arange(first, first + len(rows))
        if targets is None:
            far = np.abs(q[:, None] - np.arange(rows.shape[1])) >= (FAR if text.own else 0)
            named = np.where(far & telling, rows, -1.0).argmax(1)
            real = (far & telling)[np.arange(len(rows)), named]
        else:
            named, real = targets[q].clip(0), targets[q] >= 0
        mass = np.where(real, rows[np.arange(len(rows)), named], -1.0)
        for row in np.argsort(-mass, kind="stable")[: 4 * top].tolist():
            if mass[row] > 0:
                yield _token_case(text, int(q[row]), int(named[row]), rows[row])


def _token_case(text: TextMap, query: int, key: int, row: Float[np.ndarray, " key"]) -> Example:
    others = row.copy()
    others[key] = -1.0
    best = int(others.argmax())
    token = text.queries.tokens[query]
    return Example(
        text.queries.text,
        token.start,
        token.end,
        token.label,
        (text.keys.tokens[key].label,),
        float(row[key]),
        bool(row[key] >= others[best]),
        text.keys.tokens[best].label if others[best] >= 0 else "",
        max(0.0, float(others[best])),
    )


def of_units(probe: Probe, text: TextMap) -> Iterator[Example]:
    """All cases of a text: to a unit the sum over its tokens, from a unit the mean."""
    if probe.units is None or not (text.own or probe.across):
        return
    ranges = probe.units(text.queries, text.keys)
    links = probe.links(text.queries, text.keys, ranges)
    if not any(links):
        return
    weights = _between(text, ranges[0], ranges[1])
    for query, named in enumerate(links):
        row = weights[query]
        if named and row[list(named)].sum() > 0:
            others = row.copy()
            others[list(named)] = -1.0
            if ranges[0][query] in ranges[1]:  # itself is no rival
                others[ranges[1].index(ranges[0][query])] = -1.0
            best = int(others.argmax())
            first, last = ranges[0][query]
            tokens = text.queries.tokens[first:last]
            yield Example(
                text.queries.text,
                tokens[0].start,
                tokens[-1].end,
                _words(text.queries, ranges[0][query]),
                tuple(_words(text.keys, ranges[1][key]) for key in named),
                float(row[list(named)].sum()),
                bool(row[list(named)].max() >= others[best]),
                _words(text.keys, ranges[1][best]) if others[best] >= 0 else "",
                max(0.0, float(others[best])),
            )


def _between(
    text: TextMap,
    queries: Sequence[tuple[int, int]],
    keys: Sequence[tuple[int, int]],
) -> Float[np.ndarray, "query_unit key_unit"]:
    """The pattern from units to units."""
    found = np.zeros((len(queries), len(keys)))
    starts, stops = (np.array([r[end] for r in keys], dtype=int) for end in (0, 1))
    for first, rows in text.rows():
        so_far = np.pad(rows.cumsum(1), ((0, 0), (1, 0)))
        to = so_far[:, stops] - so_far[:, starts]
        for unit, (start, stop) in enumerate(queries):
            a, b = max(start, first), min(stop, first + len(rows))
            if a < b:
                found[unit] += to[a - first : b - first].sum(0) / (stop - start)
    return found


def _words(side: Side, span: tuple[int, int]) -> str:
    tokens = side.tokens[span[0] : span[1]]
    if tokens[0].special:
        return tokens[0].label
    return side.text[tokens[0].start : tokens[-1].end].strip()
