"""Which key/value heads share one: those beside one another, or those that lose least by it."""

from __future__ import annotations

from itertools import product

from jaxtyping import Float
from torch import Tensor

__all__ = ["alike", "beside"]

Groups = tuple[tuple[int, ...], ...]


def beside(num_kv_heads: int, groups: int) -> Groups:
    """Heads in order, as many in each group."""
    size = num_kv_heads // groups
    return tuple(tuple(range(g * size, (g + 1) * size)) for g in range(groups))


def alike(lost: Float[Tensor, "head head"], groups: int) -> Groups:
    """Groups of equal size within which pairs of heads lose little.

    From groups of neighbours on, two heads change places as long as that makes the sum less.

    Args:
        lost: what two heads lose by sharing one; symmetric.
        groups: how many; it divides the number of heads.
    """
    costs = lost.tolist()
    found = [list(group) for group in beside(len(costs), groups)]
    better = True
    while better:
        better = False
        for one in range(groups):
            for other in range(one):
                better = _swapped(costs, found[one], found[other]) or better
    return tuple(sorted(tuple(sorted(group)) for group in found))


def _swapped(costs: list[list[float]], one: list[int], other: list[int]) -> bool:
    """Let the two heads change places that gain most by it; False where none do."""
    best, places = -1e-12, (-1, -1)
    for i, j in product(range(len(one)), range(len(other))):
        a, b = one[i], other[j]
        rest, beyond = [x for x in one if x != a], [x for x in other if x != b]
        gain = sum(costs[b][x] - costs[a][x] for x in rest)
        gain += sum(costs[a][x] - costs[b][x] for x in beyond)
        if gain < best:
            best, places = gain, (i, j)
    i, j = places
    if i < 0:
        return False
    one[i], other[j] = other[j], one[i]
    return True
