"""The weights of a layer's heads as circuits need them: one of each per query head, with the norms folded in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.hub.listening import Norm
from headwise.hub.projections import Projection
from headwise.hub.weights import LayerWeights

__all__ = ["Folded", "fold"]


@dataclass(frozen=True, eq=False)
class Folded:
    """W_Q, W_K^T, W_V and W_O of each query head, in float32; None where the layer has none, with the reason.

    Heads of a KV group have the same W_K and W_V.
    """

    q: Float[Tensor, "head d_model dim"] | None
    k: Float[Tensor, "head dim d_memory"] | None
    v: Float[Tensor, "head d_memory v_dim"] | None
    o: Float[Tensor, "head v_dim d_model"] | None
    no_ov: str
    no_qk: str

    @property
    def ov(self) -> tuple[Tensor, Tensor] | None:
        """W_V and W_O."""
        return None if self.v is None or self.o is None else (self.v, self.o)

    @property
    def qk(self) -> tuple[Tensor, Tensor] | None:
        """W_Q and W_K^T."""
        return None if self.q is None or self.k is None else (self.q, self.k)


def fold(layer: LayerWeights, device: torch.device | None = None) -> Folded:
    """The layer's weights with the gain of the norm before (and after, where what is added is normed) in them."""
    v, o = (
        _read(layer, layer.v, layer.value_norm),
        None if layer.o is None else layer.o.weight.float(),
    )
    if o is not None and layer.result_norm is not None:
        o = layer.result_norm.after(o)
    q, k = _read(layer, layer.q, layer.query_norm), _read(layer, layer.k, layer.key_norm)
    no_ov = _why(layer, "v", "o")
    no_qk = _why(layer, "q", "k")
    if v is not None and o is not None and _through_another(layer, layer.v, o):
        v, no_ov = None, "its values are made of something narrower than the stream"
    if q is not None and o is not None and _through_another(layer, layer.q, o, own=True):
        q, no_qk = None, "its queries are made of something narrower than the stream"
    q, k, v, o = (None if x is None else x.to(device) for x in (q, k, v, o))
    return Folded(q, None if k is None else k.mT, v, o, no_ov, no_qk)


def _read(layer: LayerWeights, map: Projection | None, norm: Norm | None) -> Tensor | None:
    """A map that reads the stream, for each query head."""
    if map is None:
        return None
    weight = map.weight.float()
    if norm is not None:
        weight = norm.before(weight)
    if len(weight) != layer.num_heads:
        weight = weight.repeat_interleave(layer.num_heads // len(weight), 0)
    return weight


def _through_another(
    layer: LayerWeights, map: Projection | None, o: Tensor, own: bool = False
) -> bool:
    """Whether a map reads no stream: it is of another width than what the layer writes (a latent in between).

    The memory of cross-attention may have a width of its own.
    """
    between = layer.id.stream == "cross" and not own
    return map is not None and not between and map.weight.shape[1] != o.shape[2]


def _why(layer: LayerWeights, *names: str) -> str:
    return "; ".join(layer.missing[name] for name in names if name in layer.missing)
