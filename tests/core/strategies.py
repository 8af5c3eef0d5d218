"""Masks to draw, each with an oracle in NumPy that knows nothing of headwise's rules.

A `Drawn` is the mask and, kept apart, the rule and the limits of the same expression as functions of
(batch, head, query position, key position). `&`, `|` and `~` on it act on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from headwise.core import masks
from headwise.core.masks import Mask

Cells = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class World:
    """How many sequences, heads and positions the masks are for."""

    batch: int
    heads: int
    length: int


@dataclass(frozen=True)
class Drawn:
    mask: Mask
    text: str
    rule: Cells | None = None
    limits: tuple[Cells, ...] = ()

    def __repr__(self) -> str:
        return self.text

    def __and__(self, other: Drawn) -> Drawn:
        return Drawn(
            self.mask & other.mask,
            f"({self.text} & {other.text})",
            lambda *at: self.allows(*at) & other.allows(*at),
            self.limits + other.limits,
        )

    def __or__(self, other: Drawn) -> Drawn:
        return Drawn(
            self.mask | other.mask,
            f"({self.text} | {other.text})",
            lambda *at: self.allows(*at) | other.allows(*at),
            self.limits + other.limits,
        )

    def __invert__(self) -> Drawn:
        return Drawn(~self.mask, f"~{self.text}", lambda *at: ~self.allows(*at), limits=self.limits)

    def allows(self, *at: np.ndarray) -> np.ndarray:
        """The rule without the limits."""
        everywhere = np.ones(np.broadcast_shapes(*(x.shape for x in at)), bool)
        return everywhere if self.rule is None else everywhere & self.rule(*at)

    def cells(self, world: World, first: int = 0, stop: int | None = None) -> np.ndarray:
        """Bool [batch, head, query, key]: the queries first..stop of the world, and the keys before stop."""
        stop = world.length if stop is None else stop
        grid = np.ix_(range(world.batch), range(world.heads), range(first, stop), range(stop))
        seen = self.allows(*grid)
        for limit in self.limits:
            seen = seen & limit(*grid)
        return seen


def full() -> Drawn:
    return Drawn(masks.full(), "full()")


def causal() -> Drawn:
    return Drawn(masks.causal(), "causal()", lambda b, h, q, k: k <= q)


def window(n: int, ahead: int) -> Drawn:
    return Drawn(
        masks.window(n, ahead),
        f"window({n}, {ahead})",
        lambda b, h, q, k: (k > q - n) & (k <= q + ahead),
    )


def prefix(n: int) -> Drawn:
    return Drawn(masks.prefix(n), f"prefix({n})", lambda b, h, q, k: k < n)


def prefixes(n: list[int]) -> Drawn:
    return Drawn(masks.prefix(n), f"prefix({n})", lambda b, h, q, k: k < np.array(n)[b])


def tensor(bits: np.ndarray) -> Drawn:
    cells = bits if bits.ndim == 4 else bits[None, None]
    return Drawn(
        masks.tensor(torch.from_numpy(bits)),
        f"tensor({bits.astype(int).tolist()})",
        lambda b, h, q, k: cells[b % cells.shape[0], h % cells.shape[1], q, k],
    )


def lengths(of: list[int]) -> Drawn:
    hides = (lambda b, h, q, k: k < np.array(of)[b],)
    return Drawn(masks.padding(lengths=of), f"padding(lengths={of})", limits=hides)


def key_padding(padded: np.ndarray) -> Drawn:
    hides = (lambda b, h, q, k: ~padded[b % len(padded), k],)
    mask = masks.padding(key_padding_mask=torch.from_numpy(padded))
    return Drawn(mask, f"padding(key_padding_mask={padded.astype(int).tolist()})", limits=hides)


def documents(ids: np.ndarray) -> Drawn:
    of = ids if ids.ndim == 2 else ids[None]
    borders = (lambda b, h, q, k: of[b % len(of), q] == of[b % len(of), k],)
    mask = masks.documents(torch.from_numpy(ids))
    return Drawn(mask, f"documents({ids.tolist()})", limits=borders)


def worlds(max_length: int = 9) -> st.SearchStrategy[World]:
    return st.builds(World, st.integers(1, 3), st.integers(1, 3), st.integers(1, max_length))


def _numbers(shape: tuple[int, ...], least: int, most: int) -> st.SearchStrategy[np.ndarray]:
    """Whole numbers of a seed: the shrinker would gain nothing from each of them apart."""
    return st.integers(0, 2**16).map(
        lambda seed: np.random.default_rng(seed).integers(least, most + 1, shape)
    )


def _bits(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return _numbers(shape, 0, 1).map(lambda x: x.astype(bool))


def rules(world: World, reach: int | None = None) -> st.SearchStrategy[Drawn]:
    """Every leaf without limits; windows reach at most `reach` keys (default: past both ends)."""
    n = world.length
    reach = n + 2 if reach is None else reach
    counts = st.integers(0, n + 1)
    shapes = st.sampled_from(
        [(n, n)] + [(b, h, n, n) for b in {1, world.batch} for h in {1, world.heads}]
    )
    return st.one_of(
        st.just(full()),
        st.just(causal()),
        st.builds(window, st.integers(1, reach), st.integers(0, reach)),
        st.builds(prefix, counts),
        st.lists(counts, min_size=world.batch, max_size=world.batch).map(prefixes),
        shapes.flatmap(_bits).map(tensor),
    )


def limits(world: World) -> st.SearchStrategy[Drawn]:
    """Padding and document borders."""
    batch, n = world.batch, world.length
    return st.one_of(
        st.lists(st.integers(0, n), min_size=batch, max_size=batch).map(lengths),
        _bits((batch, n)).map(key_padding),
        st.sampled_from([(n,), (1, n), (batch, n)])
        .flatmap(lambda shape: _numbers(shape, 0, 2))
        .map(documents),
    )


def _inverted(drawn: Drawn) -> Drawn:
    """~drawn, or drawn where it is nothing but a limit, which cannot be inverted."""
    bare = drawn.mask.limits and type(drawn.mask.rule).__name__ == "Full"
    return drawn if bare else ~drawn


def drawn_of(leaves: st.SearchStrategy[Drawn], max_leaves: int = 5) -> st.SearchStrategy[Drawn]:
    """Leaves, and what & | ~ make of them."""

    def grow(part: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        return st.one_of(
            st.builds(lambda a, b: a & b, part, part),
            st.builds(lambda a, b: a | b, part, part),
            part.map(_inverted),
        )

    return st.recursive(leaves, grow, max_leaves=max_leaves)


def every(world: World) -> st.SearchStrategy[Drawn]:
    """Any mask of this world."""
    return drawn_of(rules(world) | limits(world))


def near(world: World) -> st.SearchStrategy[Drawn]:
    """A narrow window with anything and-ed on, which is what may run chunked."""
    reach = max(1, world.length // 12)
    windows = st.builds(window, st.integers(1, reach), st.integers(0, reach))
    return st.one_of(windows, st.builds(lambda a, b: a & b, windows, every(world)))


def some(
    kind: Callable[[World], st.SearchStrategy[Drawn]], count: int = 1, max_length: int = 9
) -> st.SearchStrategy[tuple[World, ...]]:
    """(world, drawn, ...): a world with `count` masks of it."""
    return worlds(max_length).flatmap(
        lambda world: st.tuples(st.just(world), *[kind(world) for _ in range(count)])
    )
