"""One layer's neurons while a corpus streams by: sums, and the places of the strongest activations."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["POSITIVE_NEGATIVE", "LayerTally"]

POSITIVE_NEGATIVE = ("positive", "negative")

_DENSE = 64
"""From so many candidates for each neuron on, all are sorted instead of picked out one by one."""


class LayerTally:
    """Sums over tokens, and for each neuron the `top` largest and most negative activations with their places.

    It holds as much after a million tokens as after `top`.

    Attributes:
        best: sizes of the strongest activations, largest first, [2, neuron, top]; 0 where there are fewer.
        places: where they are, as the caller numbers tokens; -1 where there are fewer.
        counts: how many activations are above 0, and below, [2, neuron].
        sums: of a, |a| and a^2, float64 [3, neuron].
        most, least: the largest and the smallest a, [neuron].
        tokens: how many were added.
    """

    def __init__(self, neurons: int, top: int, device: torch.device | str = "cpu") -> None:
        self.best = torch.zeros(2, neurons, top, device=device)
        self.places = torch.full((2, neurons, top), -1, device=device)
        self.counts = torch.zeros(2, neurons, dtype=torch.int64, device=device)
        self.sums = torch.zeros(3, neurons, dtype=torch.float64, device=device)
        self.most = torch.full((neurons,), -torch.inf, device=device)
        self.least = torch.full((neurons,), torch.inf, device=device)
        self.tokens = 0

    def copy(self) -> LayerTally:
        """Another with the same in it."""
        made = LayerTally(0, 1)
        for name, value in vars(self).items():
            setattr(made, name, value.clone() if isinstance(value, Tensor) else value)
        return made

    def add(
        self, activations: Float[Tensor, "token neuron"], places: Int[Tensor, " token"]
    ) -> None:
        """Add the neurons of some tokens.

        Args:
            activations: of each token.
            places: numbers of the tokens, from 0.
        """
        if not len(activations):
            return
        a = activations.float()
        room, ones = torch.empty_like(a), a.new_ones(len(a))
        for side, compare in enumerate((torch.gt, torch.lt)):
            self.counts[side] += (ones @ compare(a, 0, out=room)).long()
        for i, x in enumerate((a, torch.abs(a, out=room))):
            self.sums[i] += ones @ x
        self.sums[2] += ones @ torch.mul(a, a, out=room)
        self._keep(0, a, places)
        self._keep(1, torch.neg(a, out=room), places)
        self.tokens += len(a)
        self.most, self.least = a.amax(0).maximum(self.most), a.amin(0).minimum(self.least)

    def _keep(
        self, side: int, a: Float[Tensor, "token neuron"], places: Int[Tensor, " token"]
    ) -> None:
        """Put what is larger than the smallest kept in its place."""
        best, kept = self.best[side], self.places[side]
        top = best.shape[1]
        new = self.tokens < 4 * top
        first = min(len(a), 4 * top if new else 0)  # which let few of the others pass
        for part, at in zip(a.split([first, len(a) - first]), _split(places, first), strict=True):
            token, neuron = (part > best[:, -1]).nonzero(as_tuple=True)
            if len(token) > _DENSE * best.shape[0]:
                found, rows = part.T, at.expand(best.shape[0], -1)
                some = torch.arange(best.shape[0], device=a.device)
            elif len(token):
                found, rows, some = _padded(part, at, token, neuron)
            else:
                continue
            values, order = torch.cat([best[some], found], 1).topk(top)
            best[some] = values.clamp_min(0)
            where = torch.cat([kept[some], rows], 1).gather(1, order)
            kept[some] = where.where(values > 0, torch.full_like(where, -1))


def _split(x: Tensor, first: int) -> tuple[Tensor, Tensor]:
    return x[:first], x[first:]


def _padded(
    a: Tensor, places: Tensor, token: Tensor, neuron: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Candidates by neuron: values and places, [some, most of them], and which neurons these are."""
    order = neuron.argsort(stable=True)
    token, neuron = token[order], neuron[order]
    some, row, counts = neuron.unique_consecutive(return_inverse=True, return_counts=True)
    column = torch.arange(len(token), device=a.device) - (counts.cumsum(0) - counts)[row]
    values = a.new_zeros(len(some), int(counts.max()))
    rows = torch.full(values.shape, -1, device=a.device)
    values[row, column] = a[token, neuron]
    rows[row, column] = places[token]
    return values, rows, some
