"""Products of the weights of heads, without a matrix larger than they are.

A head's W_V W_O and W_Q W_K^T are d_model x d_model of rank head_dim. The length of a product A B C D of such
factors is that of R_A B C R_D^T, with A = Q_A R_A and D^T = Q_D R_D, as what is orthogonal changes no length; and
the eigenvalues of A B other than 0 are those of B A.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["composed", "copying", "length", "random_composition", "reading", "writing"]

_DRAWS = 64
"""How many products of random matrices make a baseline."""


def length(
    left: Float[Tensor, "head d_in dim"], right: Float[Tensor, "head dim d_out"]
) -> Float[Tensor, " head"]:
    """The Frobenius norm of left @ right of each head."""
    left, right = left.double(), right.double()
    inner = (left.mT @ left) * (right @ right.mT)
    found: Tensor = inner.sum((1, 2)).clamp_min(0).sqrt()
    return found


def copying(
    v: Float[Tensor, "head d_model dim"],
    o: Float[Tensor, "head dim d_model"],
    back: Float[Tensor, "d_model d_model"],
) -> Float[Tensor, " head"]:
    """sum(l) / sum(abs l) over the eigenvalues l of W_E W_V W_O W_U (Elhage et al. 2021); NaN where all are 0.

    Args:
        v: W_V of each head.
        o: W_O of each head.
        back: W_U W_E, from the logits' side of the stream back to what is embedded.
    """
    values = torch.linalg.eigvals(o.double() @ back.double() @ v.double())
    found: Tensor = values.sum(-1).real / values.abs().sum(-1)
    return found


def writing(
    first: Float[Tensor, "head d_in dim"], last: Float[Tensor, "head dim d_model"]
) -> Float[Tensor, "head rank d_model"]:
    """Of first @ last what is left once its rows are turned: the same lengths of all that follows."""
    turned: Tensor = torch.linalg.qr(first, mode="r").R
    return turned @ last


def reading(
    first: Float[Tensor, "head d_model dim"], last: Float[Tensor, "head dim d_out"]
) -> Float[Tensor, "head d_model rank"]:
    """Of first @ last what is left once its columns are turned: the same lengths of all that comes before."""
    turned: Tensor = torch.linalg.qr(last.mT, mode="r").R
    return first @ turned.mT


def composed(
    writes: Float[Tensor, "one rank d_model"], reads: Float[Tensor, "other d_model rank2"]
) -> Float[Tensor, "one other"]:
    """norm(A B) / (norm(A) norm(B)) of each head that writes and each that reads; NaN where one is 0."""
    one, rank, d_model = writes.shape
    other, _, rank2 = reads.shape
    product = writes.reshape(-1, d_model) @ reads.transpose(0, 1).reshape(d_model, -1)
    squares = product.view(one, rank, other, rank2).square().sum((1, 3))
    lengths = writes.square().sum((1, 2))[:, None] * reads.square().sum((1, 2))
    found: Tensor = (squares / lengths).sqrt()
    return found


def random_composition(d_in: int, dim: int, d_model: int, dim2: int, d_out: int) -> float:
    """The mean of `composed` over random heads of these shapes, whose numbers are drawn from one normal law."""
    draw = torch.Generator().manual_seed(0)
    heads = int(_DRAWS**0.5)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(heads, *shape, generator=draw)

    writes = writing(drawn(d_in, dim), drawn(dim, d_model))
    reads = reading(drawn(d_model, dim2), drawn(dim2, d_out))
    return float(composed(writes, reads).mean())
