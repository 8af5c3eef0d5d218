"""The position-wise feed-forward network, plain or gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headwise.names import ConfigError
from headwise.nn.config import Activation

__all__ = ["FeedForward", "activation_of"]

_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
_GATED: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu": F.silu,
    "geglu": F.gelu,
    "geglu_tanh": partial(F.gelu, approximate="tanh"),
}


def activation_of(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function itself; of a gated network that of its gate."""
    return {**_PLAIN, **_GATED}[name]


class FeedForward(nn.Module):
    """w_out(act(w_in(x))), or for the GLU kinds w_out(act(gate) * up) (Shazeer 2020).

    A gated network packs both input projections in `w_in`: d_ff rows of gate, then d_ff rows
    of up. At equal parameters its d_ff is 2/3 of the plain one.

    Raises:
        ConfigError: an activation that is not known.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation = "gelu", bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in _PLAIN and activation not in _GATED:
            known = ", ".join([*_PLAIN, *_GATED])
            raise ConfigError(f"activation={activation!r} is not known; use one of {known}")
        self.activation = activation
        self.gated = activation in _GATED
        self.w_in = nn.Linear(d_model, 2 * d_ff if self.gated else d_ff, bias=bias)
        self.w_out = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Every position by itself: no position sees another."""
        hidden: Tensor = self.w_in(x)
        if self.gated:
            gate, up = hidden.chunk(2, dim=-1)
            hidden = _GATED[self.activation](gate) * up
        else:
            hidden = _PLAIN[self.activation](hidden)
        out: Tensor = self.w_out(hidden)
        return out

    def extra_repr(self) -> str:
        """Shown by print(module)."""
        return f"activation={self.activation!r}"
