"""One layer regrouped: its key/value heads in groups, each group pooled into one head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.cut.regrouping.aligning import (
    complex_of,
    pairs_loss,
    real_of,
    shared_map,
    shared_pairs,
    whole_loss,
)
from headwise.cut.regrouping.grouping import Groups, alike
from headwise.cut.regrouping.maps import LayerMaps
from headwise.cut.regrouping.moments import Moments
from headwise.names import ConfigError

__all__ = ["How", "Layout", "alike_groups", "check_how", "pooled"]

How = Literal["aligned", "mean", "first", "random"]


def check_how(how: str) -> None:
    """Refuse a way that is not known.

    Raises:
        ConfigError: it is none of the four.
    """
    if how not in get_args(How):
        raise ConfigError(f"how={how!r} is not known; use one of {', '.join(get_args(How))}")


@dataclass(eq=False)
class Layout:
    """The weights of a layer by heads, in float64, biases as last rows."""

    q: Float[Tensor, "head d_q dim"]
    k: Float[Tensor, "kv_head d_k dim"]
    v: Float[Tensor, "kv_head d_k v_dim"]
    o: Float[Tensor, "head v_dim d_model"] | None

    @classmethod
    def of(cls, maps: LayerMaps) -> Layout:
        """As the model has them."""
        return cls(
            maps.q.read(), maps.k.read(), maps.v.read(), None if maps.o is None else maps.o.read()
        )

    def write(self, maps: LayerMaps) -> None:
        """Into the model; fewer KV heads than it has go in the place of the first."""
        for rows, x in ((maps.q, self.q), (maps.k, self.k), (maps.v, self.v)):
            rows.write(x)
        if maps.o is not None and self.o is not None:
            maps.o.write(self.o)

    @property
    def each(self) -> int:
        """Query heads for each KV head."""
        return len(self.q) // len(self.k)

    def queries_matter(self, moments: Moments) -> Float[Tensor, "kv_head dim dim"]:
        """How much each direction of a KV head's keys matters: the second moment of the queries on it."""
        every = self.q.transpose(1, 2) @ (moments.queries @ self.q)
        return self._by_kv_head(every)

    def outputs_matter(self) -> Float[Tensor, "kv_head v_dim v_dim"]:
        """How much each direction of its values matters: W_O W_O'."""
        assert self.o is not None
        return self._by_kv_head(self.o @ self.o.transpose(1, 2))

    def _by_kv_head(self, x: Tensor) -> Tensor:
        """The sum over the query heads of each KV head."""
        total: Tensor = x.unflatten(0, (-1, self.each)).sum(1)
        return total

    def ordered(self, groups: Groups) -> Layout:
        """With the KV heads of each group beside one another, and their query heads with them."""
        order = torch.tensor([head for group in groups for head in group])
        queries = (order[:, None] * self.each + torch.arange(self.each)).flatten()
        o = None if self.o is None else self.o[queries]
        return Layout(self.q[queries], self.k[order], self.v[order], o)


def alike_groups(layout: Layout, maps: LayerMaps, moments: Moments, groups: int) -> Groups:
    """The groups that lose least of keys and values by sharing a head."""
    lost = whole_loss(layout.v, layout.outputs_matter(), moments.keys)
    matter = layout.queries_matter(moments)
    if maps.pairs is not None:
        rest = _rest(maps.pairs, layout.k.shape[-1])
        if maps.pairs.numel():
            lost = lost + pairs_loss(*_paired(layout.k, matter, maps.pairs), moments.keys)
        if len(rest):
            inner = matter[:, rest][:, :, rest]
            lost = lost + whole_loss(layout.k[..., rest], inner, moments.keys)
    return alike(lost, groups)


def pooled(
    layout: Layout, maps: LayerMaps, moments: Moments | None, groups: int, how: How, seed: int
) -> Layout:
    """The layer with one KV head for each group of KV heads beside one another.

    Args:
        layout: its weights.
        maps: what may be done to them.
        moments: what its maps read, for "aligned".
        groups: how many.
        how: "mean", "first", "random" (one of the group) or "aligned".
        seed: of "random".
    """
    size = len(layout.k) // groups
    k, v = (x.unflatten(0, (groups, size)) for x in (layout.k, layout.v))
    if how == "first":
        return Layout(layout.q, k[:, 0], v[:, 0], layout.o)
    if how == "random":
        draw = torch.Generator().manual_seed(seed)
        chosen = torch.randint(size, (groups,), generator=draw)
        each = torch.arange(groups)
        return Layout(layout.q, k[each, chosen], v[each, chosen], layout.o)
    made = Layout(layout.q.clone(), k.mean(1), v.mean(1), layout.o)
    if how == "mean":
        return made
    assert moments is not None
    if layout.o is not None:
        _align_values(layout, made, moments)
    if maps.pairs is not None:
        _align_keys(layout, made, moments, maps.pairs)
    return made


def _align_values(layout: Layout, made: Layout, moments: Moments) -> None:
    groups, matter = len(made.v), layout.outputs_matter()
    o = []
    for g in range(groups):
        mine = _of_group(g, len(layout.v), groups)
        shared = shared_map(layout.v[mine], matter[mine], moments.keys)
        made.v[g] = shared.weight
        o.append(shared.back)
    assert layout.o is not None
    made.o = torch.cat(o).repeat_interleave(layout.each, 0) @ layout.o


def _align_keys(layout: Layout, made: Layout, moments: Moments, pairs: Tensor) -> None:
    groups, matter = len(made.k), layout.queries_matter(moments)
    rest = _rest(pairs, layout.k.shape[-1])
    for g in range(groups):
        mine = _of_group(g, len(layout.k), groups)
        queries = slice(mine.start * layout.each, mine.stop * layout.each)
        q = layout.q[queries]
        if pairs.numel():
            weights, weight = _paired(layout.k[mine], matter[mine], pairs)
            shared, back = shared_pairs(weights, weight, moments.keys)
            made.k[g] = real_of(shared, pairs, made.k[g])
            turned = complex_of(q, pairs) * back.conj().repeat_interleave(layout.each, 0)[:, None]
            q = real_of(turned, pairs, q)
        if len(rest):
            inner = matter[mine][:, rest][:, :, rest]
            whole = shared_map(layout.k[mine][..., rest], inner, moments.keys)
            made.k[g][:, rest] = whole.weight
            back = whole.back.transpose(1, 2).repeat_interleave(layout.each, 0)
            q = q.clone()
            q[..., rest] = layout.q[queries][..., rest] @ back
        made.q[queries] = q


def _paired(
    k: Tensor, matter: Float[Tensor, "kv_head dim dim"], pairs: Tensor
) -> tuple[Tensor, Float[Tensor, "kv_head pair"]]:
    """Keys as complex numbers, and how much each matters."""
    size = matter.diagonal(0, 1, 2)
    return complex_of(k, pairs), size[:, pairs[0]] + size[:, pairs[1]]


def _rest(pairs: Tensor, dim: int) -> Tensor:
    """The channels that are in no pair."""
    inside = set(pairs.flatten().tolist())
    return torch.tensor([i for i in range(dim) if i not in inside], dtype=torch.long)


def _of_group(group: int, heads: int, groups: int) -> slice:
    size = heads // groups
    return slice(group * size, (group + 1) * size)
