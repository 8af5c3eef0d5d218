"""What the output map of a layer becomes beside being cut."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

__all__ = ["NewOutput"]


@dataclass(frozen=True, eq=False)
class NewOutput:
    """A new W_O, or what is added to its bias: what was lost with the heads, given back in part.

    Attributes:
        weight: for all heads the layer has before the cut, in their order; the rows of heads that are cut are not
            read. None = as it is.
        bias: is added to the bias; a map without one gets one. None = nothing.
    """

    weight: Float[Tensor, "head v_dim d_model"] | None = None
    bias: Float[Tensor, " d_model"] | None = None

    def same(self, other: NewOutput) -> bool:
        """Whether both say the same."""
        pairs = ((self.weight, other.weight), (self.bias, other.bias))
        return all(a is b or (a is not None and b is not None and a.equal(b)) for a, b in pairs)
