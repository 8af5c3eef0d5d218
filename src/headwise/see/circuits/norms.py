"""Norm-based weights (Kobayashi et al. 2020): how much of a key a query takes, and not how large its weight is.

The result of a head is the sum of alpha_ij f(x_j) over the keys j, with f(x) = (x W_V + b_V) W_O; the norm-based
weight is the length of each term. A key of a large weight and a short f(x_j), as a sink is, gives little.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from jaxtyping import Float
from torch import Tensor, nn

from headwise.hub.outputs import OutputMap

__all__ = ["NORMS_SAY", "NO_MAP", "OLD_FILE", "Grams", "Lengths"]

NORMS_SAY = "norm-based weight |alpha_ij f(x_j)|, f(x) = (x W_V + b_V) W_O (Kobayashi et al. 2020)"

NO_MAP = "no linear map of the model reads the head outputs of this layer as they are"
OLD_FILE = "the record is of an older headwise, which kept no norms; look again"


_Version = tuple[int, int, int]
_KNOWN: WeakKeyDictionary[nn.Module, dict[str, tuple[_Version, Tensor]]] = WeakKeyDictionary()


class Grams:
    """W_O W_O^T of each head of a model's layers, made once for as long as its weights stay what they are."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.grams = _KNOWN.setdefault(model, {})

    def of(self, output: OutputMap) -> Float[Tensor, "head v_dim v_dim"]:
        """The products of this output map."""
        weight = self.model.get_submodule(output.path).weight
        assert isinstance(weight, Tensor)
        now = (weight.data_ptr(), weight._version, len(output.weight))
        known = self.grams.get(output.path)
        if known is None or known[0] != now or weight.is_meta:
            known = self.grams[output.path] = now, output.gram
        return known[1]


@dataclass(frozen=True, eq=False)
class Lengths:
    """|f(x_j)| of each head and key of a layer: |v W_O|^2 = v G v with G = W_O W_O^T, worked out when asked for.

    Where they are known (`known`, from a file), the rest is not needed.
    """

    v: Float[Tensor, "1 kv_head key v_dim"] | None = None
    gram: Float[Tensor, "head v_dim v_dim"] | None = None
    known: Float[Tensor, "head key"] | None = None

    @cached_property
    def values(self) -> Float[Tensor, "head key"]:
        """The lengths, in the units of the residual stream."""
        if self.known is not None:
            return self.known
        assert self.v is not None
        assert self.gram is not None
        each = self.v[0].float().repeat_interleave(len(self.gram) // self.v.shape[1], 0)
        squares = (each @ self.gram * each).sum(-1)
        return squares.clamp_min(0).sqrt()
