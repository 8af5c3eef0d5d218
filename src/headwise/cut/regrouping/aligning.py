"""Key/value heads in one basis: the shared head from which the heads of a group are best had again by linear maps.

A head's values may be taken in any basis, as W_O can undo it; its keys in any that its queries undo and that
commutes with what positions do to them (RoPE turns pairs of channels, so there each pair may be turned and scaled).
So before heads are pooled each is brought into a common basis, and what they share is kept, not what their channels
happen to have in common.

The basis is the one that loses least of what heads give: with A = [W_1 L_1 ... W_m L_m], where L_j L_j' says how
much each direction of head j matters and C is the second moment of what maps read, it is the span of the largest
eigenvectors of A' C A. Heads that are the same but for such maps are pooled without loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

__all__ = [
    "Shared",
    "complex_of",
    "pairs_loss",
    "real_of",
    "shared_map",
    "shared_pairs",
    "whole_loss",
]

_NOTHING = 1e-12
"""A share of the largest eigenvalue below which a direction holds nothing."""


@dataclass(frozen=True, eq=False)
class Shared:
    """One head in place of several: head j is weight @ back[j], nearly.

    Attributes:
        weight: of the shared head.
        back: for each head the map back to it.
    """

    weight: Float[Tensor, "d_in dim"]
    back: Float[Tensor, "head dim dim"]


def shared_map(
    weights: Float[Tensor, "head d_in dim"],
    matters: Float[Tensor, "head dim dim"],
    moment: Float[Tensor, "d_in d_in"],
) -> Shared:
    """The shared head of a group whose channels may be mixed by any map.

    Args:
        weights: W_j of each head, float64.
        matters: how much each direction of a head's output matters, as a positive semi-definite matrix.
        moment: the mean of x x' over what the maps read.
    """
    dim = weights.shape[-1]
    scaled = weights @ _root(matters)
    wide = scaled.transpose(0, 1).flatten(1)  # [d_in, head * dim]
    values, vectors = torch.linalg.eigh(wide.T @ (moment @ wide))
    inverse = _inverse_root(values[-dim:])
    weight = wide @ (vectors[:, -dim:] * inverse)
    back = weight.T @ (moment @ weights)
    return _balanced(weight, back)


def shared_pairs(
    weights: Complex[Tensor, "head d_in pair"],
    matters: Float[Tensor, "head pair"],
    moment: Float[Tensor, "d_in d_in"],
) -> tuple[Complex[Tensor, "d_in pair"], Complex[Tensor, "head pair"]]:
    """The shared head of a group of which each pair of channels may be turned and scaled alone.

    Args:
        weights: W_j of each head, each pair of channels as one complex number, complex128.
        matters: how much each pair of a head matters.
        moment: the mean of x x' over what the maps read.

    Returns:
        The shared weight s and for each head the numbers c_j with which W_j is s c_j, nearly.
    """
    scaled = weights * matters.sqrt()[:, None]
    read = moment.to(weights.dtype) @ scaled
    gram = torch.einsum("jip,lip->pjl", scaled.conj(), read)
    values, vectors = torch.linalg.eigh(gram)
    top = vectors[..., -1].T * _inverse_root(values[:, -1])  # [head, pair]
    shared = (scaled * top[:, None]).sum(0)
    back = torch.einsum("ip,jip->jp", shared.conj(), moment.to(weights.dtype) @ weights)
    size = back.abs().square().mean(0).sqrt()
    size = torch.where(size > 0, size, 1.0)
    return shared * size, back / size


def whole_loss(
    weights: Float[Tensor, "head d_in dim"],
    matters: Float[Tensor, "head dim dim"],
    moment: Float[Tensor, "d_in d_in"],
) -> Float[Tensor, "head head"]:
    """What two heads lose by sharing one, for each pair of heads, as a share of what all heads give."""
    heads, _, dim = weights.shape
    scaled = weights @ _root(matters)
    wide = scaled.transpose(0, 1).flatten(1)
    gram = (wide.T @ (moment @ wide)).view(heads, dim, heads, dim).transpose(1, 2)
    lost = gram.new_zeros(heads, heads)
    for j in range(heads):
        for other in range(j):
            both = [j, other]
            pair = gram[both][:, both].transpose(1, 2).reshape(2 * dim, 2 * dim)
            lost[j, other] = lost[other, j] = torch.linalg.eigvalsh(pair)[:-dim].sum()
    return lost / _positive(gram.diagonal(0, 0, 1).diagonal(0, 0, 1).sum())


def pairs_loss(
    weights: Complex[Tensor, "head d_in pair"],
    matters: Float[Tensor, "head pair"],
    moment: Float[Tensor, "d_in d_in"],
) -> Float[Tensor, "head head"]:
    """The same of keys that positions turn by pairs of channels."""
    scaled = weights * matters.sqrt()[:, None]
    gram = torch.einsum("jip,lip->pjl", scaled.conj(), moment.to(weights.dtype) @ scaled)
    size = gram.diagonal(0, 1, 2).real  # [pair, head]
    one, other = size[:, :, None], size[:, None]
    # the smaller eigenvalue of the 2 x 2 matrix of each two heads
    lost = (one + other - ((one - other).square() + 4 * gram.abs().square()).sqrt()) / 2
    return lost.relu().sum(0).fill_diagonal_(0) / _positive(size.sum())


def complex_of(
    x: Float[Tensor, "*any dim"], pairs: Float[Tensor, "2 pair"] | Tensor
) -> Complex[Tensor, "*any pair"]:
    """Pairs of channels, [2, pair] of their places, as complex numbers."""
    return torch.complex(x[..., pairs[0]], x[..., pairs[1]])


def real_of(
    x: Complex[Tensor, "*any pair"], pairs: Tensor, like: Float[Tensor, "*any dim"]
) -> Float[Tensor, "*any dim"]:
    """Back to channels; those in no pair are as `like` has them."""
    made = like.clone()
    made[..., pairs[0]], made[..., pairs[1]] = x.real, x.imag
    return made


def _balanced(weight: Tensor, back: Tensor) -> Shared:
    """The same in the basis in which the maps back are as near to turning as can be (their mean square is 1)."""
    values, vectors = torch.linalg.eigh((back @ back.transpose(1, 2)).mean(0))
    inverse = _inverse_root(values)
    size = torch.where(inverse > 0, 1 / inverse, 0.0)
    return Shared(weight @ (vectors * size) @ vectors.T, (vectors * inverse) @ vectors.T @ back)


def _root(x: Float[Tensor, "*head dim dim"]) -> Float[Tensor, "*head dim dim"]:
    """The symmetric square root of positive semi-definite matrices."""
    values, vectors = torch.linalg.eigh(x)
    root: Tensor = (vectors * values.relu().sqrt()[..., None, :]) @ vectors.transpose(-1, -2)
    return root


def _inverse_root(values: Float[Tensor, " number"]) -> Float[Tensor, " number"]:
    """1 / sqrt of each, 0 where there is nothing."""
    least = values.abs().max() * _NOTHING
    return torch.where(values > least, values.clamp_min(1e-300).rsqrt(), 0.0)


def _positive(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 1.0)
